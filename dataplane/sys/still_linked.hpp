// Tells whether an open file still has a name. The holder of a lock file removes it at its end, and
// a lock on a file without a name excludes no other process, so check after taking one. Any thread.
#pragma once

#include <sys/stat.h>

#include <string>

namespace mprdma::dataplane {

inline bool is_named(int fd, const std::string& path) {
  struct stat opened {};
  struct stat named {};
  return fstat(fd, &opened) == 0 && lstat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

}  // namespace mprdma::dataplane
