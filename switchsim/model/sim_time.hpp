// Time inside the switch model: picoseconds, because a byte at 100 Gb/s takes 80 of them and
// rounding to nanoseconds would bend every rate. 63 bits are 106 days. Distinct types, no implicit
// conversion; the transport's nanoseconds are base/units.hpp.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

#include "base/units.hpp"

namespace mprdma::switchsim {

class SimSpan {
 public:
  constexpr SimSpan() = default;
  static constexpr SimSpan ps(int64_t count) { return SimSpan(count); }
  static constexpr SimSpan ns(int64_t count) { return SimSpan(count * 1000); }
  static constexpr SimSpan us(int64_t count) { return SimSpan(count * 1'000'000); }
  static constexpr SimSpan ms(int64_t count) { return SimSpan(count * 1'000'000'000); }
  [[nodiscard]] constexpr int64_t count_ps() const { return ps_; }
  constexpr SimSpan operator+(SimSpan other) const { return SimSpan(ps_ + other.ps_); }
  constexpr SimSpan operator-(SimSpan other) const { return SimSpan(ps_ - other.ps_); }
  constexpr SimSpan operator*(int64_t factor) const { return SimSpan(ps_ * factor); }
  constexpr auto operator<=>(const SimSpan&) const = default;

 private:
  constexpr explicit SimSpan(int64_t count) : ps_(count) {}
  int64_t ps_ = 0;
};

class SimTime {
 public:
  constexpr SimTime() = default;
  static constexpr SimTime from_ps(int64_t ps) { return SimTime(ps); }
  static constexpr SimTime from(Time t) { return t.is_never() ? never() : SimTime(t.ns() * 1000); }
  static constexpr SimTime never() { return SimTime(std::numeric_limits<int64_t>::max()); }
  [[nodiscard]] constexpr int64_t ps() const { return ps_; }
  [[nodiscard]] constexpr bool is_never() const { return *this == never(); }
  // The transport's clock, rounded down.
  [[nodiscard]] constexpr Time to_time() const {
    return is_never() ? Time::never() : Time::from_ns(ps_ / 1000);
  }
  constexpr SimTime operator+(SimSpan span) const {
    return is_never() ? never() : SimTime(ps_ + span.count_ps());
  }
  constexpr SimSpan operator-(SimTime earlier) const { return SimSpan::ps(ps_ - earlier.ps_); }
  constexpr auto operator<=>(const SimTime&) const = default;

 private:
  constexpr explicit SimTime(int64_t ps) : ps_(ps) {}
  int64_t ps_ = 0;
};

// A link's speed. The time of one byte is exact in picoseconds for every rate that divides 8 Tb/s;
// others are rounded up per packet, never accumulated.
class LinkRate {
 public:
  constexpr LinkRate() = default;
  static constexpr LinkRate bps(uint64_t bits_per_second) { return LinkRate(bits_per_second); }
  static constexpr LinkRate gbps(uint64_t g) { return LinkRate(g * 1'000'000'000); }
  [[nodiscard]] constexpr uint64_t bits_per_second() const { return bps_; }
  // Requires a rate above zero.
  [[nodiscard]] constexpr SimSpan time_of(uint32_t bytes) const {
    // bits * 1e12 / rate, in two steps that fit 64 bits for any packet below 2 MB.
    const uint64_t bits = uint64_t{bytes} * 8;
    const uint64_t whole = bits * 1'000'000 / bps_;
    const uint64_t rest = bits * 1'000'000 % bps_;
    return SimSpan::ps(
        static_cast<int64_t>(whole * 1'000'000 + (rest * 1'000'000 + bps_ - 1) / bps_));
  }
  // Picoseconds of a byte; 0 if that is not a whole number, or none that 32 bits hold. Requires a
  // rate above zero.
  [[nodiscard]] constexpr uint32_t whole_ps_per_byte() const {
    constexpr uint64_t kPicosecondsBits = 8'000'000'000'000;
    const uint64_t ps = kPicosecondsBits / bps_;
    return kPicosecondsBits % bps_ == 0 && ps <= UINT32_MAX ? static_cast<uint32_t>(ps) : 0;
  }
  constexpr auto operator<=>(const LinkRate&) const = default;

 private:
  constexpr explicit LinkRate(uint64_t bits_per_second) : bps_(bits_per_second) {}
  uint64_t bps_ = 0;
};

}  // namespace mprdma::switchsim
