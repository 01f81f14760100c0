// What an acknowledgement allows leaves on the path that it echoes; what has no such path leaves on
// a random one (paper 3.2). The echoes wait in path_select.hpp.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/prng.hpp"
#include "transport/random_path.hpp"

namespace mprdma::transport {

class AckClockedPaths {
 public:
  static constexpr std::string_view kName = "ack-clocked";
  static constexpr bool kClocked = true;

  void reset(uint16_t /*fixed_vp*/) {}
  uint16_t next(Prng& prng) const { return random_path(prng); }
};

}  // namespace mprdma::transport
