// Layout of queue pair numbers, for code that allocates them or steers packets by them: the low 14
// bits are a slot (which is also its doorbell bit), the high 10 bits the slot's generation.
#pragma once

#include <cstdint>

#include "abi/mprdma_abi.h"
#include "base/qpn.hpp"

namespace mprdma::dataplane {

inline constexpr uint32_t kSlotBits = 14;
inline constexpr uint32_t kSlots = 1u << kSlotBits;
inline constexpr uint32_t kGenerations = 1u << (24 - kSlotBits);
static_assert(kSlots == MPRDMA_ABI_MAX_QPS);

constexpr uint32_t slot_of(Qpn qpn) {
  return qpn.value() & (kSlots - 1);
}
constexpr uint32_t generation_of(Qpn qpn) {
  return qpn.value() >> kSlotBits;
}
constexpr Qpn make_qpn(uint32_t generation, uint32_t slot) {
  return Qpn(generation << kSlotBits | slot);
}

// The numbers that a process may allocate: a range of generations of every slot.
struct QpBlock {
  uint32_t first_generation = 0;
  uint32_t generations = kGenerations;
  bool operator==(const QpBlock&) const = default;

  [[nodiscard]] constexpr bool valid() const {
    return generations > 0 && generations <= kGenerations &&
           first_generation <= kGenerations - generations;
  }
  [[nodiscard]] constexpr bool owns(Qpn qpn) const {
    return generation_of(qpn) - first_generation < generations;
  }
};

}  // namespace mprdma::dataplane
