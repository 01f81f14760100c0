#include "switchsim/config/read_file.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <ios>
#include <system_error>
#include <utility>

namespace mprdma::switchsim {

namespace {

// Empty, or why not: nothing has been opened yet, and a pipe would hold that back.
std::string look_at(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (error) return error.message();
  return std::filesystem::is_regular_file(status) ? "" : "not a regular file";
}

// Its size was not asked for: a file may grow, and files of the kernel have none.
std::string read_all(const std::string& path, std::string* out) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  char buffer[65'536];
  while (file.good() && text.size() <= kTextFileBytesMax) {
    file.read(buffer, sizeof(buffer));
    text.append(buffer, static_cast<size_t>(file.gcount()));
  }
  if (text.size() > kTextFileBytesMax) {
    return "larger than " + std::to_string(kTextFileBytesMax >> 20) + " MiB";
  }
  if (!file.eof()) return std::generic_category().message(errno != 0 ? errno : EIO);
  *out = std::move(text);
  return {};
}

}  // namespace

std::string read_file(const std::string& path, std::string* out) {
  std::string wrong = look_at(path);
  if (wrong.empty()) wrong = read_all(path, out);
  return wrong.empty() ? wrong : path + ": cannot be read: " + wrong;
}

}  // namespace mprdma::switchsim
