// Packet sequence numbers: 24-bit serial numbers (InfiniBand Architecture Specification, volume 1,
// section 9.7.2: half of the space lies ahead of a number and half behind it).
//
// There is no operator<: an order exists only between two numbers less than 2^23 apart, and the
// names before/after remind the reader of that. Of two numbers exactly 2^23 apart each is after
// the other (distance -2^23); whoever compares a number from the wire checks a window, not this.
#pragma once

#include <cstdint>

namespace mprdma {

inline constexpr uint32_t kPsnBits = 24;
inline constexpr uint32_t kPsnMask = (1U << kPsnBits) - 1;

class Psn {
 public:
  constexpr Psn() = default;
  // Takes the low 24 bits.
  constexpr explicit Psn(uint32_t value) : value_(value & kPsnMask) {}

  constexpr uint32_t value() const { return value_; }

  constexpr Psn operator+(uint32_t count) const { return Psn(value_ + count); }
  constexpr Psn operator-(uint32_t count) const { return Psn(value_ - count); }
  constexpr Psn& operator+=(uint32_t count) { return *this = *this + count; }
  constexpr Psn& operator++() { return *this += 1; }
  constexpr Psn operator++(int) {
    const Psn before = *this;
    ++*this;
    return before;
  }
  constexpr bool operator==(const Psn&) const = default;

  // How far b lies ahead of this number: b - *this, in [-2^23, 2^23).
  constexpr int32_t distance_to(Psn b) const {
    // The left shift moves bit 23 into the sign bit; the right shift, arithmetic since C++20,
    // extends it.
    return static_cast<int32_t>((b.value_ - value_) << (32 - kPsnBits)) >> (32 - kPsnBits);
  }

  constexpr bool before(Psn b) const { return distance_to(b) > 0; }
  constexpr bool at_or_before(Psn b) const { return distance_to(b) >= 0; }
  constexpr bool after(Psn b) const { return distance_to(b) < 0; }
  constexpr bool at_or_after(Psn b) const { return distance_to(b) <= 0; }

 private:
  uint32_t value_ = 0;
};

constexpr Psn psn_max(Psn a, Psn b) {
  return a.before(b) ? b : a;
}
constexpr Psn psn_min(Psn a, Psn b) {
  return b.before(a) ? b : a;
}

}  // namespace mprdma
