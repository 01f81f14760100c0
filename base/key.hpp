// Keys of memory: the L_Key of a work request's pieces and the R_Key of a packet (InfiniBand
// Architecture Specification, volume 1, section 3.5.3). One type for both, as one registration's
// keys are the same number here. It is trivial, so that an array of pieces is not zeroed before it
// is filled; a member that must begin as 0 says `{}`.
#pragma once

#include <compare>
#include <cstdint>

namespace mprdma {

class Key {
 public:
  constexpr Key() = default;
  constexpr explicit Key(uint32_t value) : value_(value) {}

  constexpr uint32_t value() const { return value_; }
  constexpr auto operator<=>(const Key&) const = default;

 private:
  uint32_t value_;
};

}  // namespace mprdma
