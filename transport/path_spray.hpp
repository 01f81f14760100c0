// Packet spraying (Dixit et al., INFOCOM 2013): every packet leaves on a virtual path of its own,
// drawn at random, and the window alone says when. Nothing is learnt of the paths, so each carries
// the same share: right where they are equal, and as slow as the slowest where they are not.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/prng.hpp"
#include "transport/random_path.hpp"

namespace mprdma::transport {

class SprayedPaths {
 public:
  static constexpr std::string_view kName = "spray";
  static constexpr bool kClocked = false;

  void reset(uint16_t /*fixed_vp*/) {}
  uint16_t next(Prng& prng) const { return random_path(prng); }
};

}  // namespace mprdma::transport
