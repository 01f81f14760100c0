// Reads the memory of another process (process_vm_readv), which the kernel allows where the reader
// could also trace that process: in general, both are of one user.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace mprdma::dataplane {

// A word of a process's memory by which another one recognises it. All 0: there is none.
struct MemoryMark {
  uint64_t address;
  uint64_t value;
};

class PeerMemory {
 public:
  static constexpr size_t kPiecesMax = 32;  // at each side of a read()

  // Reads the mark. False, and nothing else can be read: the kernel refuses, or the process does
  // not have this mark. `pid`: as the kernel has told it, not the process itself.
  bool open(pid_t pid, const MemoryMark& mark);
  void close() { pid_ = 0; }
  [[nodiscard]] bool is_open() const { return pid_ != 0; }

  // False: some bytes, or all, have not been read. Each call reads the mark, too: the number may
  // mean another process by now, or another program.
  bool read(std::span<const iovec> to, std::span<const iovec> from, size_t bytes);

 private:
  pid_t pid_ = 0;
  MemoryMark mark_{};
};

}  // namespace mprdma::dataplane
