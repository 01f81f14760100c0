// Queue pair numbers: 24 bits on the wire (InfiniBand Architecture Specification, volume 1, section
// 9.2). A type of its own, so that no key, slot or handle is taken for one.
#pragma once

#include <compare>
#include <cstdint>

namespace mprdma {

class Qpn {
 public:
  constexpr Qpn() = default;
  constexpr explicit Qpn(uint32_t value) : value_(value) {}

  constexpr uint32_t value() const { return value_; }
  constexpr auto operator<=>(const Qpn&) const = default;

 private:
  uint32_t value_ = 0;
};

}  // namespace mprdma
