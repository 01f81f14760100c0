// Packet spraying (Dixit et al., INFOCOM 2013): every packet leaves on a virtual path of its own,
// drawn at random, and the window alone decides when. The policy learns nothing about paths, so
// each carries the same share: good when paths are equal, as slow as the slowest when they are not.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/prng.hpp"
#include "base/units.hpp"
#include "transport/path/random_path.hpp"

namespace mprdma::transport {

class SprayedPaths {
 public:
  static constexpr std::string_view kName = "spray";
  static constexpr bool kClocked = false;

  void reset(uint16_t /*fixed_vp*/) {}
  uint16_t next(Time, Prng& prng) const { return random_path(prng); }
};

}  // namespace mprdma::transport
