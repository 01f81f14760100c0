// One daemon for each socket: who holds the lock of PATH.lock is the one. The kernel releases it
// when the process dies. PATH.blocks holds who has had which block of queue pair numbers, for the
// next daemon: 128 instances in the host's byte order. An empty one goes with the lock.
//
// Slow path; not thread safe.
#pragma once

#include <string>

#include "dataplane/nic/block_table.hpp"

namespace mprdma::dataplane::nic {

class LockFile {
 public:
  LockFile() = default;
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

  // Empty, or why this process cannot be the one.
  std::string take(const std::string& socket_path);
  // All zero where there is nothing to read.
  [[nodiscard]] BlockTable::Instances load() const;
  void store(uint32_t block, uint64_t instance) const;
  // Nobody comes back, and no late packet comes: PATH.blocks goes with the lock.
  void forget() const;

 private:
  std::string lock_path_;
  std::string blocks_path_;
  int lock_fd_ = -1;
  int blocks_fd_ = -1;
};

}  // namespace mprdma::dataplane::nic
