#include "dataplane/daemon/lock_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "dataplane/sys/still_linked.hpp"

namespace mprdma::dataplane::mprdmad {

LockFile::~LockFile() {
  if (blocks_fd_ >= 0) {
    struct stat status {};
    if (fstat(blocks_fd_, &status) == 0 && status.st_size == 0) unlink(blocks_path_.c_str());
    close(blocks_fd_);
  }
  if (lock_fd_ >= 0) {
    unlink(lock_path_.c_str());
    close(lock_fd_);
  }
}

Status LockFile::acquire(const std::string& socket_path) {
  const std::string path = socket_path + ".lock";
  for (int attempt = 0; attempt < 10; ++attempt) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return system_status("cannot open " + path, errno);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      close(fd);
      if (error != EWOULDBLOCK) return system_status("cannot lock " + path, error);
      return {EADDRINUSE,
              "another mprdmad serves " + socket_path + ": end it, or choose another --socket"};
    }
    if (!is_named(fd, path)) {
      close(fd);
      continue;
    }
    lock_path_ = path;
    lock_fd_ = fd;
    blocks_path_ = socket_path + ".blocks";
    blocks_fd_ = open(blocks_path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (blocks_fd_ < 0) return system_status("cannot open " + blocks_path_, errno);
    return {};
  }
  return {EAGAIN, "cannot lock " + path + ": it comes and goes"};
}

BlockTable::Instances LockFile::load() const {
  BlockTable::Instances instances{};
  if (blocks_fd_ >= 0) {
    const ssize_t count = pread(blocks_fd_, instances.data(), sizeof instances, 0);
    if (count != sizeof instances) instances = {};
  }
  return instances;
}

void LockFile::store(uint32_t block, uint64_t instance) const {
  if (blocks_fd_ < 0) return;
  // Writes the full size at once: a shorter file would be taken for none.
  (void)!ftruncate(blocks_fd_, sizeof(BlockTable::Instances));
  (void)!pwrite(blocks_fd_, &instance, sizeof instance,
                static_cast<off_t>(block * sizeof instance));
}

void LockFile::forget() const {
  if (blocks_fd_ >= 0) (void)!ftruncate(blocks_fd_, 0);
}

}  // namespace mprdma::dataplane::mprdmad
