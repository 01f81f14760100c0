#include "dataplane/nic/lock_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace mprdma::dataplane::nic {

namespace {

// A holder that leaves removes the file: a lock on a file without a name locks nobody out.
bool still_there(int fd, const std::string& path) {
  struct stat ours {};
  struct stat there {};
  return fstat(fd, &ours) == 0 && lstat(path.c_str(), &there) == 0 && ours.st_ino == there.st_ino &&
         ours.st_dev == there.st_dev;
}

}  // namespace

LockFile::~LockFile() {
  if (lock_fd_ >= 0) {
    unlink(lock_path_.c_str());
    close(lock_fd_);
  }
  if (blocks_fd_ >= 0) close(blocks_fd_);
}

std::string LockFile::take(const std::string& socket_path) {
  const std::string path = socket_path + ".lock";
  for (int attempt = 0; attempt < 10; ++attempt) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return "cannot open " + path + ": " + std::strerror(errno);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      close(fd);
      if (error != EWOULDBLOCK) return "cannot lock " + path + ": " + std::strerror(error);
      return "another mprdmad serves " + socket_path + ": end it, or choose another --socket";
    }
    if (!still_there(fd, path)) {
      close(fd);
      continue;
    }
    lock_path_ = path;
    lock_fd_ = fd;
    const std::string blocks = socket_path + ".blocks";
    blocks_fd_ = open(blocks.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (blocks_fd_ < 0) return "cannot open " + blocks + ": " + std::strerror(errno);
    return {};
  }
  return "cannot lock " + path + ": it comes and goes";
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
  // A full file at once: half of one would be taken for none.
  (void)!ftruncate(blocks_fd_, sizeof(BlockTable::Instances));
  (void)!pwrite(blocks_fd_, &instance, sizeof instance,
                static_cast<off_t>(block * sizeof instance));
}

}  // namespace mprdma::dataplane::nic
