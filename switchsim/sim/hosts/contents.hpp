// What the packets of a network carry: the decoded headers, by packet number. Memory of numbers
// that are never used is never touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>

#include "wire/packet.hpp"

namespace mprdma::switchsim {

class Contents {
 public:
  explicit Contents(uint32_t packets) : slots_(std::make_unique_for_overwrite<Slot[]>(packets)) {}

  void put(uint32_t packet, const wire::Packet& header) {
    new (slots_[packet].bytes) wire::Packet(header);
  }
  // For a look at it soon.
  void prefetch(uint32_t packet) const {
    __builtin_prefetch(slots_[packet].bytes);
    __builtin_prefetch(slots_[packet].bytes + 64);
  }
  // Requires put() before.
  wire::Packet& operator[](uint32_t packet) {
    return *std::launder(reinterpret_cast<wire::Packet*>(slots_[packet].bytes));
  }

 private:
  static_assert(std::is_trivially_destructible_v<wire::Packet>);
  struct alignas(64) Slot {
    std::byte bytes[sizeof(wire::Packet)];
  };
  std::unique_ptr<Slot[]> slots_;
};

}  // namespace mprdma::switchsim
