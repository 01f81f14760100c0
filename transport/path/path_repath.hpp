// One path at a time, left for a random one after congestion, a loss or a timeout: the idea of PLB
// (Qureshi et al., SIGCOMM 2022) without its waiting for idle times.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "base/prng.hpp"
#include "base/units.hpp"
#include "transport/path/random_path.hpp"

namespace mprdma::transport {

class RepathedPath {
 public:
  static constexpr std::string_view kName = "repath";
  static constexpr bool kClocked = false;

  void reset(uint16_t fixed_vp) { path_ = fixed_vp, leaves_ = false; }
  uint16_t next(Time, Prng& prng) {
    if (std::exchange(leaves_, false)) path_ = random_path(prng);
    return path_;
  }
  void on_loss(uint16_t vp) { leaves_ = leaves_ || vp == 0 || vp == path_; }
  void on_timeout(Time) { leaves_ = true; }
  void on_round(bool congested) { leaves_ = leaves_ || congested; }

 private:
  uint16_t path_ = wire::kVirtualPathMin;
  bool leaves_ = false;
};

}  // namespace mprdma::transport
