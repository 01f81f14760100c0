#include "tools/running_fabrics.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "dataplane/sys/runtime_directory.hpp"

namespace mprdma::tools {

namespace {

constexpr std::string_view kFabricPrefix = "fabric-";

// The process that runs a fabric holds the lock in its directory.
bool runs(const std::string& directory) {
  const int fd = open((directory + "/lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  struct flock asked {};
  asked.l_type = F_WRLCK;
  const bool held = fcntl(fd, F_OFD_GETLK, &asked) == 0 && asked.l_type != F_UNLCK;
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
  // A fabric that another user put there would get the frames of our programs.
  if (!dataplane::check_private_directory(runtime_directory).ok()) return names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(runtime_directory, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kFabricPrefix) || !runs(entry.path())) continue;
    names.push_back(name.substr(kFabricPrefix.size()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace mprdma::tools
