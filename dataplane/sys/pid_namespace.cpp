#include "dataplane/sys/pid_namespace.hpp"

#include <sys/stat.h>

#include <string>

namespace mprdma::dataplane {

uint64_t pid_namespace(pid_t pid) {
  struct stat status {};
  const std::string link = "/proc/" + std::to_string(pid) + "/ns/pid";
  return pid > 0 && stat(link.c_str(), &status) == 0 ? status.st_ino : 0;
}

}  // namespace mprdma::dataplane
