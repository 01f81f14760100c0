// A directory of a test's own, gone at the end of its scope with all that is in it: also when an
// assertion fails, and with what killed processes left there. A child of a fork, which has a copy
// of the object, leaves it alone.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace mprdma {

class TemporaryDirectory {
 public:
  TemporaryDirectory() : owner_(getpid()) {
    if (mkdtemp(path_.data()) == nullptr) throw std::system_error(errno, std::generic_category());
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    if (getpid() == owner_) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  // The path of something in it.
  [[nodiscard]] std::string path(std::string_view name) const {
    return path_ + "/" + std::string(name);
  }

 private:
  // The directory is not below TMPDIR, which may be long: tests put sockets here, and a socket's
  // path has at most 107 characters.
  std::string path_ = "/tmp/mprdma-test-XXXXXX";
  pid_t owner_;
};

}  // namespace mprdma
