#include "dataplane/sys/peer_memory.hpp"

#include <algorithm>
#include <array>

#include "base/check.hpp"

namespace mprdma::dataplane {

bool PeerMemory::open(pid_t pid, const MemoryMark& mark) {
  close();
  if (pid <= 0 || mark.address == 0) return false;
  pid_ = pid;
  mark_ = mark;
  if (!read({}, {}, 0)) close();
  return is_open();
}

bool PeerMemory::read(std::span<const iovec> to, std::span<const iovec> from, size_t bytes) {
  CHECK(to.size() <= kPiecesMax && from.size() <= kPiecesMax);
  if (!is_open()) return false;
  uint64_t value = 0;
  std::array<iovec, kPiecesMax + 1> local;
  std::array<iovec, kPiecesMax + 1> remote;
  *std::copy(to.begin(), to.end(), local.begin()) = {&value, sizeof value};
  *std::copy(from.begin(), from.end(), remote.begin()) = {reinterpret_cast<void*>(mark_.address),
                                                          sizeof value};
  const ssize_t got =
      process_vm_readv(pid_, local.data(), to.size() + 1, remote.data(), from.size() + 1, 0);
  return got >= 0 && static_cast<size_t>(got) == bytes + sizeof value && value == mark_.value;
}

}  // namespace mprdma::dataplane
