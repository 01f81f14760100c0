// REPS (Bonato et al., "REPS: Recycled Entropy Packet Spraying for Adaptive Load Balancing and
// Failure Mitigation"): the window alone decides when a packet leaves. Its path is that of an
// acknowledgement without a mark, which is used once, the oldest first; where there is none, a
// random one. So packets spread as with spraying, and leave a path that marks them. After a timeout
// new packets draw no new paths for a while: those that brought acknowledgements last are used
// again, in turn, because a path that is dead brings none ("freezing").
//
// The paper's cache has eight entries. What it leaves to the sender: how long paths are frozen, and
// the path of a copy.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/prng.hpp"
#include "base/units.hpp"
#include "transport/path/path_policy.hpp"
#include "transport/path/random_path.hpp"

namespace mprdma::transport {

class RepsPaths {
 public:
  static constexpr std::string_view kName = "reps";
  static constexpr bool kClocked = false;
  static constexpr uint32_t kKept = 8;
  static constexpr Duration kFrozen = Duration::ms(1);  // own value: some timeouts

  void reset(uint16_t /*fixed_vp*/) { *this = {}; }
  uint16_t next(Time now, Prng& prng) {
    if (fresh_ > 0) return paths_[(taken_ - fresh_--) % kKept];
    if (now >= frozen_until_ || taken_ == 0) return random_path(prng);
    return paths_[again_++ % (taken_ < kKept ? taken_ : kKept)];
  }
  void on_ack(const PathSample& sample) {
    if (sample.vp == 0 || sample.ece) return;
    paths_[taken_++ % kKept] = sample.vp;
    if (fresh_ < kKept) ++fresh_;
    if (taken_ == 2 * kKept) taken_ = kKept;  // the same place
  }
  // A copy leaves on one of the paths that brought acknowledgements last, but that of the packet
  // that was lost; where there is none, and from the second attempt on, on a random one.
  uint16_t retry(uint16_t avoid, uint32_t attempt, Prng& prng) {
    const uint32_t kept = taken_ < kKept ? taken_ : kKept;
    for (uint32_t tries = attempt == 0 ? kept : 0; tries > 0; --tries) {
      const uint16_t vp = paths_[again_++ % kept];
      if (vp != avoid) return vp;
    }
    return random_path(prng);
  }
  // What came before may be of the path that died.
  void on_timeout(Time now) {
    frozen_until_ = now + kFrozen;
    fresh_ = 0;
  }

 private:
  std::array<uint16_t, kKept> paths_{};
  uint32_t taken_ = 0;  // acknowledgements whose path stands in paths_; from kKept on modulo kKept
  uint32_t fresh_ = 0;  // the newest of them, which were not used yet
  uint32_t again_ = 0;
  Time frozen_until_;
};

}  // namespace mprdma::transport
