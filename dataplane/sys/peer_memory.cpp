#include "dataplane/sys/peer_memory.hpp"

#include <limits>

namespace mprdma::dataplane {

bool PeerMemory::open(const MemoryOwner& owner) {
  close();
  if (owner.pid == 0 || owner.pid > static_cast<uint64_t>(std::numeric_limits<pid_t>::max())) {
    return false;
  }
  pid_ = static_cast<pid_t>(owner.pid);
  uint64_t value = 0;
  const iovec to{&value, sizeof value};
  const iovec from{reinterpret_cast<void*>(owner.address), sizeof value};
  if (!read({&to, 1}, {&from, 1}, sizeof value)) return false;
  if (value != owner.value) close();
  return is_open();
}

bool PeerMemory::read(std::span<const iovec> to, std::span<const iovec> from, size_t bytes) {
  if (!is_open()) return false;
  const ssize_t got = process_vm_readv(pid_, to.data(), to.size(), from.data(), from.size(), 0);
  if (got >= 0 && static_cast<size_t>(got) == bytes) return true;
  close();
  return false;
}

}  // namespace mprdma::dataplane
