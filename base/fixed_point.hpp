// Fixed16: unsigned fixed point, 16 integer and 16 fraction bits, in 32 bits. The format of every
// congestion window, chosen so that software and hardware agree bit by bit.
//
// Rounding and range:
//   - addition and subtraction are exact, or saturate at kMax (65535 + 65535/65536) and at zero;
//   - everything that divides rounds down (drops bits): reciprocal(), half(), operator/;
//   - reciprocal(x).raw = floor(2^32 / x.raw); x = 0 and x = 2^-16 saturate to kMax;
//   - multiplication by an integer is exact, or saturates at kMax.
#pragma once

#include <compare>
#include <cstdint>

namespace mprdma {

class Fixed16 {
 public:
  static constexpr uint32_t kFractionBits = 16;
  static constexpr uint32_t kOneRaw = 1U << kFractionBits;
  static constexpr uint32_t kMaxRaw = UINT32_MAX;

  constexpr Fixed16() = default;
  // Saturates above 65535.
  static constexpr Fixed16 from_int(uint32_t value) {
    return saturated(static_cast<uint64_t>(value) << kFractionBits);
  }
  static constexpr Fixed16 from_raw(uint32_t raw) { return Fixed16(raw); }
  static constexpr Fixed16 max() { return Fixed16(kMaxRaw); }

  constexpr uint32_t raw() const { return raw_; }
  constexpr uint32_t floor() const { return raw_ >> kFractionBits; }
  // At most 65536, for values above 65535.
  constexpr uint32_t ceil() const {
    return floor() + static_cast<uint32_t>((raw_ & (kOneRaw - 1)) != 0);
  }

  constexpr Fixed16 operator+(Fixed16 other) const {
    return saturated(static_cast<uint64_t>(raw_) + other.raw_);
  }
  constexpr Fixed16 operator-(Fixed16 other) const {
    return Fixed16(raw_ > other.raw_ ? raw_ - other.raw_ : 0);
  }
  constexpr Fixed16 operator*(uint32_t factor) const {
    return saturated(static_cast<uint64_t>(raw_) * factor);
  }
  // Rounds down; the divisor is never zero.
  constexpr Fixed16 operator/(uint32_t divisor) const { return Fixed16(raw_ / divisor); }
  constexpr Fixed16& operator+=(Fixed16 other) { return *this = *this + other; }
  constexpr Fixed16& operator-=(Fixed16 other) { return *this = *this - other; }

  // Rounds down, see the head of this file.
  constexpr Fixed16 reciprocal() const {
    if (raw_ == 0) return max();
    return saturated((uint64_t{1} << (2 * kFractionBits)) / raw_);
  }
  constexpr Fixed16 half() const { return Fixed16(raw_ >> 1); }

  constexpr auto operator<=>(const Fixed16&) const = default;

 private:
  constexpr explicit Fixed16(uint32_t raw) : raw_(raw) {}
  static constexpr Fixed16 saturated(uint64_t raw) {
    return Fixed16(raw > kMaxRaw ? kMaxRaw : static_cast<uint32_t>(raw));
  }

  uint32_t raw_ = 0;
};

}  // namespace mprdma
