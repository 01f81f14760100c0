#include "switchsim/config/read_file.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <ios>
#include <system_error>
#include <utility>

namespace mprdma::switchsim {

namespace {

// Checks the path before it is opened, because opening a pipe would block.
Status look_at(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (error) return {error.value(), error.message()};
  if (!std::filesystem::is_regular_file(status)) return {EINVAL, "not a regular file"};
  return {};
}

// Reads to the end whatever size the file reports: it may grow, and files of the kernel report
// none.
Status read_all(const std::string& path, std::string* out) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  char buffer[65'536];
  while (file.good() && text.size() <= kTextFileBytesMax) {
    file.read(buffer, sizeof(buffer));
    text.append(buffer, static_cast<size_t>(file.gcount()));
  }
  if (text.size() > kTextFileBytesMax) {
    return {EFBIG, "larger than " + std::to_string(kTextFileBytesMax >> 20) + " MiB"};
  }
  if (!file.eof()) {
    const int error = errno != 0 ? errno : EIO;
    return {error, std::generic_category().message(error)};
  }
  *out = std::move(text);
  return {};
}

}  // namespace

Status read_file(const std::string& path, std::string* out) {
  Status status = look_at(path);
  if (status.ok()) status = read_all(path, out);
  return prefixed(path + ": cannot be read: ", std::move(status));
}

}  // namespace mprdma::switchsim
