// Reads the memory of another process (process_vm_readv), which the kernel allows where the reader
// could also trace that process: in general, both are of one user.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace mprdma::dataplane {

// What a process shows to another one to be read by: its number, and where a word of its memory is.
// All 0: nothing is to be read.
struct MemoryOwner {
  uint64_t pid;
  uint64_t address;
  uint64_t value;  // of the word
};

class PeerMemory {
 public:
  // Reads the owner's word. False, and nothing else can be read: the kernel refuses, or the process
  // of this number is another one (in another PID namespace, say).
  bool open(const MemoryOwner& owner);
  void close() { pid_ = 0; }
  [[nodiscard]] bool is_open() const { return pid_ != 0; }

  // False: some bytes, or all, have not been read, and nothing more can be.
  bool read(std::span<const iovec> to, std::span<const iovec> from, size_t bytes);

 private:
  pid_t pid_ = 0;
};

}  // namespace mprdma::dataplane
