#include "tools/runtime_directory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "dataplane/runtime_directory.hpp"

namespace mprdma::tools {

namespace {

constexpr std::string_view kFabricPrefix = "fabric-";

// The process that runs a fabric holds the lock in its directory.
bool runs(const std::string& directory) {
  const int fd = open((directory + "/lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  const bool held = flock(fd, LOCK_SH | LOCK_NB) != 0;
  close(fd);
  return held;
}

}  // namespace

std::string runtime_directory(const dataplane::Environment& environment, unsigned uid) {
  return dataplane::runtime_directory(environment, uid);
}

std::string fabric_directory(const std::string& runtime_directory, const std::string& name) {
  return fmt::format("{}/{}{}", runtime_directory, kFabricPrefix, name);
}

std::vector<std::string> running_fabrics(const std::string& runtime_directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(runtime_directory, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kFabricPrefix) || !runs(entry.path())) continue;
    names.push_back(name.substr(kFabricPrefix.size()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string make_private_directory(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return fmt::format("cannot make {}: {}; name another wire with --port local:PATH", path,
                       std::strerror(errno));
  }
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    return fmt::format("{} is not a directory: remove it, or use --port local:PATH", path);
  }
  if (status.st_uid != geteuid() || (status.st_mode & 0022) != 0) {
    return fmt::format(
        "{} belongs to or can be written by others: remove it, or use --port "
        "local:PATH",
        path);
  }
  return {};
}

}  // namespace mprdma::tools
