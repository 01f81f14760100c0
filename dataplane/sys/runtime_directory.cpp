#include "dataplane/sys/runtime_directory.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace mprdma::dataplane {

std::string runtime_directory(const Environment& environment, unsigned uid) {
  const char* runtime = environment("XDG_RUNTIME_DIR");
  struct stat status {};
  if (runtime != nullptr && runtime[0] == '/' && stat(runtime, &status) == 0 &&
      S_ISDIR(status.st_mode) && status.st_uid == uid) {
    return std::string(runtime) + "/mprdma";
  }
  return "/tmp/mprdma-" + std::to_string(uid);
}

Status make_private_directory(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return system_status("cannot make " + path, errno);
  }
  return check_private_directory(path);
}

Status check_private_directory(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    return {ENOTDIR, path + " is not a directory: remove it"};
  }
  if (status.st_uid != geteuid() || (status.st_mode & 0022) != 0) {
    return {EPERM, path + " belongs to or can be written by others: remove it"};
  }
  return {};
}

}  // namespace mprdma::dataplane
