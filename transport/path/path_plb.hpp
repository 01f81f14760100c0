// PLB (Qureshi et al., SIGCOMM 2022): one path at a time, left for a random one after congestion
// that lasts, or after a timeout. A round trip is congested if half of its acknowledgements or more
// had a mark, or were above the target of a window by delay (Swift), and a path is left after 12 of
// them in a row, or after three if nothing is in flight, so that no packet overtakes another: the
// defaults of Linux (tcp_plb_*). Unlike there, a path is not kept for a while after a timeout.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/prng.hpp"
#include "base/units.hpp"
#include "transport/path/random_path.hpp"

namespace mprdma::transport {

class PlbPath {
 public:
  static constexpr std::string_view kName = "plb";
  static constexpr bool kClocked = false;
  static constexpr uint32_t kRounds = 12;
  static constexpr uint32_t kIdleRounds = 3;

  void reset(uint16_t fixed_vp) { path_ = fixed_vp, rounds_ = 0; }
  uint16_t next(Time, Prng& prng) {
    if (rounds_ >= kRounds) {
      path_ = random_path(prng);
      rounds_ = 0;
    }
    return path_;
  }
  void on_timeout(Time) { rounds_ = kRounds; }
  void on_idle() {
    if (rounds_ >= kIdleRounds) rounds_ = kRounds;
  }
  void on_round(bool congested) {
    if (rounds_ < kRounds) rounds_ = congested ? rounds_ + 1 : 0;
  }

 private:
  uint16_t path_ = wire::kVirtualPathMin;
  uint32_t rounds_ = 0;  // congested ones in a row; kRounds: the next packet takes another path
};

}  // namespace mprdma::transport
