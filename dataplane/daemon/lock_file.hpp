// One daemon for each socket: the holder of PATH.lock is the daemon for that socket. The kernel
// releases the lock when the process dies. PATH.blocks records the owner of each block of queue
// pair numbers for the next daemon: 128 instances in the host's byte order. An empty PATH.blocks is
// removed with the lock.
//
// Slow path; not thread safe.
#pragma once

#include <string>

#include "base/status.hpp"
#include "dataplane/daemon/qpn_blocks.hpp"

namespace mprdma::dataplane::mprdmad {

class LockFile {
 public:
  LockFile() = default;
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

  // Takes the lock. An error says why this process cannot be the daemon.
  Status acquire(const std::string& socket_path);
  // Reads PATH.blocks; all zero if there is none.
  [[nodiscard]] BlockTable::Instances load() const;
  void store(uint32_t block, uint64_t instance) const;
  // No client will return, and no late packet will come: PATH.blocks is removed with the lock.
  void forget() const;

 private:
  std::string lock_path_;
  std::string blocks_path_;
  int lock_fd_ = -1;
  int blocks_fd_ = -1;
};

}  // namespace mprdma::dataplane::mprdmad
