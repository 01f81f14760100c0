// ACK clocking (paper 3.2): a packet that an acknowledgement clocks out leaves on the path that the
// acknowledgement echoes, any other packet on a random path. gate_ack_clock.hpp stores the echoes.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/prng.hpp"
#include "base/units.hpp"
#include "transport/path/random_path.hpp"

namespace mprdma::transport {

class AckClockedPaths {
 public:
  static constexpr std::string_view kName = "ack-clocked";
  static constexpr bool kClocked = true;

  void reset(uint16_t /*fixed_vp*/) {}
  uint16_t next(Time, Prng& prng) const { return random_path(prng); }
};

}  // namespace mprdma::transport
