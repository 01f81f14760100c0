// Time as the pure code sees it: integers handed in by the host, never a clock.
//
// Duration is a signed span, Time a point; both count nanoseconds in 64 bits. A Time counts from
// an epoch that the host chooses (boot, start of a simulation) and is only ever compared with
// times of the same host. All arithmetic saturates, so that "never" stays never:
//   Time::never() + d == Time::never(), and no timer wraps round into the past.
// Neither type converts implicitly from or to a number.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace mprdma {

namespace detail {

inline constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();
inline constexpr int64_t kInt64Min = std::numeric_limits<int64_t>::min();

constexpr int64_t saturating_add(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return b > 0 ? kInt64Max : kInt64Min;
  return sum;
}

constexpr int64_t saturating_sub(int64_t a, int64_t b) {
  int64_t difference = 0;
  if (__builtin_sub_overflow(a, b, &difference)) return b < 0 ? kInt64Max : kInt64Min;
  return difference;
}

constexpr int64_t saturating_mul(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return (a < 0) == (b < 0) ? kInt64Max : kInt64Min;
  return product;
}

}  // namespace detail

class Duration {
 public:
  constexpr Duration() = default;
  static constexpr Duration ns(int64_t count) { return Duration(count); }
  static constexpr Duration us(int64_t count) { return ns(detail::saturating_mul(count, 1000)); }
  static constexpr Duration ms(int64_t count) { return us(detail::saturating_mul(count, 1000)); }
  static constexpr Duration s(int64_t count) { return ms(detail::saturating_mul(count, 1000)); }
  static constexpr Duration zero() { return Duration(0); }
  // Longer than any other span; it absorbs like Time::never().
  static constexpr Duration infinite() { return Duration(detail::kInt64Max); }

  constexpr int64_t count_ns() const { return ns_; }

  constexpr Duration operator-() const { return Duration(detail::saturating_sub(0, ns_)); }
  constexpr Duration operator+(Duration other) const {
    if (*this == infinite()) return *this;
    return Duration(detail::saturating_add(ns_, other.ns_));
  }
  constexpr Duration operator-(Duration other) const {
    if (*this == infinite()) return *this;
    return Duration(detail::saturating_sub(ns_, other.ns_));
  }
  constexpr Duration operator*(int64_t factor) const {
    return Duration(detail::saturating_mul(ns_, factor));
  }
  // Truncates towards zero; the divisor is never zero. Infinity divided stays infinite.
  constexpr Duration operator/(int64_t divisor) const {
    if (*this == infinite()) return *this;
    return Duration(ns_ / divisor);
  }
  constexpr Duration& operator+=(Duration other) { return *this = *this + other; }
  constexpr Duration& operator-=(Duration other) { return *this = *this - other; }

  constexpr auto operator<=>(const Duration&) const = default;

 private:
  constexpr explicit Duration(int64_t count) : ns_(count) {}

  int64_t ns_ = 0;
};

constexpr Duration operator*(int64_t factor, Duration d) {
  return d * factor;
}

class Time {
 public:
  // The epoch.
  constexpr Time() = default;
  static constexpr Time from_ns(int64_t ns_since_epoch) { return Time(ns_since_epoch); }
  // Later than everything; a deadline that is not set.
  static constexpr Time never() { return Time(detail::kInt64Max); }

  constexpr int64_t ns() const { return ns_; }
  constexpr bool is_never() const { return *this == never(); }

  constexpr Time operator+(Duration d) const {
    if (is_never()) return *this;
    return Time(detail::saturating_add(ns_, d.count_ns()));
  }
  constexpr Time operator-(Duration d) const {
    if (is_never()) return *this;
    return Time(detail::saturating_sub(ns_, d.count_ns()));
  }
  constexpr Time& operator+=(Duration d) { return *this = *this + d; }
  constexpr Time& operator-=(Duration d) { return *this = *this - d; }

  // The span since an earlier time; infinite when this is never and the other is not.
  constexpr Duration operator-(Time earlier) const {
    if (is_never() && !earlier.is_never()) return Duration::infinite();
    return Duration::ns(detail::saturating_sub(ns_, earlier.ns_));
  }

  constexpr auto operator<=>(const Time&) const = default;

 private:
  constexpr explicit Time(int64_t ns_since_epoch) : ns_(ns_since_epoch) {}

  int64_t ns_ = 0;
};

}  // namespace mprdma
