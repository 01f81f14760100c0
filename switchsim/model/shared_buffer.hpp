// The memory of one switch, shared by all its ports: admits a packet that has to wait if the switch
// has room, and keeps the books by the port that it came by. The books by the port that it leaves
// by are the queues themselves (OutputPort); Network::check() holds the two and the total together.
//
// A packet that is forwarded at once takes nothing: only what waits is counted, so a limit of B
// bytes stands for a buffer of B plus one packet for each port.
#pragma once

#include <cstdint>

#include "base/check.hpp"

namespace mprdma::switchsim {

class SharedBuffer {
 public:
  explicit SharedBuffer(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  [[nodiscard]] bool has_room(uint32_t bytes) const { return bytes_ + bytes <= bytes_max_; }

  // `of_ingress` is what waits here of the port that the packet came by.
  void take(uint64_t& of_ingress, uint32_t bytes) {
    bytes_ += bytes;
    of_ingress += bytes;
    if (bytes_ > bytes_peak_) bytes_peak_ = bytes_;
  }
  void give_back(uint64_t& of_ingress, uint32_t bytes) {
    DCHECK(bytes_ >= bytes && of_ingress >= bytes);
    bytes_ -= bytes;
    of_ingress -= bytes;
  }

  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  [[nodiscard]] uint64_t bytes_peak() const { return bytes_peak_; }

 private:
  uint64_t bytes_max_;
  uint64_t bytes_ = 0;
  uint64_t bytes_peak_ = 0;
};

}  // namespace mprdma::switchsim
