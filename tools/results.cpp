#include "tools/results.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace mprdma {

nlohmann::json machine_json() {
  utsname name{};
  uname(&name);
  return {{"kernel", name.release},
          {"architecture", name.machine},
          {"cpus", sysconf(_SC_NPROCESSORS_ONLN)}};
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
