#include "tools/mprdmad/daemon_files.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "dataplane/sys/clock.hpp"
#include "dataplane/sys/still_linked.hpp"

namespace mprdma::tools {

namespace {

using dataplane::clock_now;
using dataplane::is_named;

constexpr Duration kHeldAtMost = Duration::s(15);
constexpr timespec kPause{0, 5'000'000};

// Opens and locks the file without waiting. Returns -1 and errno on failure; EWOULDBLOCK also if
// the file was removed before it was locked.
int try_lock(const std::string& path, int flags, int operation) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
  if (fd < 0) return -1;
  int error = 0;
  if (flock(fd, operation | LOCK_NB) != 0) {
    error = errno;
  } else if (!is_named(fd, path)) {
    error = EWOULDBLOCK;
  }
  if (error == 0) return fd;
  close(fd);
  errno = error;
  return -1;
}

}  // namespace

int lock_file(const std::string& path, int operation) {
  const Time start = clock_now();
  for (;;) {
    const int fd = try_lock(path, O_CREAT, operation);
    if (fd >= 0 || errno != EWOULDBLOCK || clock_now() - start >= kHeldAtMost) return fd;
    nanosleep(&kPause, nullptr);
  }
}

bool DaemonFiles::nobody_counts_on_us() {
  if (users_fd_ < 0) users_fd_ = try_lock(socket_ + kUsersSuffix, 0, LOCK_EX);
  return users_fd_ >= 0 || errno != EWOULDBLOCK;
}

DaemonFiles::~DaemonFiles() {
  nobody_counts_on_us();
  const int start_fd = try_lock(socket_ + kStartSuffix, 0, LOCK_EX);
  if (users_fd_ >= 0) unlink((socket_ + kUsersSuffix).c_str());
  if (start_fd >= 0) unlink((socket_ + kStartSuffix).c_str());
  for (const int fd : {users_fd_, start_fd}) {
    if (fd >= 0) close(fd);
  }
}

}  // namespace mprdma::tools
