#include "evaluation/results.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace mprdma {

nlohmann::json machine_json() {
  utsname name{};
  uname(&name);
  return {{"kernel", name.release},
          {"architecture", name.machine},
          {"cpus", sysconf(_SC_NPROCESSORS_ONLN)}};
}

bool can_write(std::string_view command, const std::string& path) {
  if (path == "-") return true;
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  std::string place = path;
  std::string wrong;
  if (std::filesystem::is_directory(status)) {
    wrong = "it is a directory";
  } else if (!std::filesystem::exists(status)) {
    place = std::filesystem::path(path).parent_path().string();
    if (place.empty()) place = ".";
  }
  const int mode = place == path ? W_OK : W_OK | X_OK;
  if (wrong.empty() && access(place.c_str(), mode) != 0) wrong = std::strerror(errno);
  if (wrong.empty()) return true;
  fmt::print(stderr, "{}: cannot write {}: {}\n", command, path, wrong);
  return false;
}

bool write_result(std::string_view command, const std::string& path, const std::string& text) {
  if (path == "-") {
    fmt::print("{}", text);
    return true;
  }
  std::ofstream file(path);
  file << text;
  if (file.flush()) return true;
  fmt::print(stderr, "{}: cannot write {}\n", command, path);
  return false;
}

}  // namespace mprdma
