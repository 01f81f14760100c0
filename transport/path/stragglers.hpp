// Which of the paths in use are stragglers, though nothing on them is marked or lost, and when to
// look for others [deviation].
//
// A path is a straggler if each of the last three packets on it, of those with a sample, took more
// than a quarter longer than SRTT: one or two of them may have met a queue, or a host that was
// doing something else. While a straggler is in use, a packet explores in every eighth round trip,
// and each time the next one waits for twice as long, until one finds a path that is none: most may
// be dead.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/units.hpp"

namespace mprdma::transport {

class Stragglers {
 public:
  // A packet on `vp` was acknowledged after `rtt` (zero: not measured), and packets usually are
  // after `usual`. True: the path is a straggler.
  bool judge(uint16_t vp, Duration rtt, Duration usual) {
    if (rtt == Duration::zero()) return has(vp);
    Suspect& suspect = suspects_[vp % kSuspects];
    const bool known = suspect.vp == vp;
    const bool late = rtt > usual + usual / 4;
    if (vp == explored_) {
      explored_ = 0;
      if (!late) wait_ = kFirstWait;
    }
    if (!late) {
      if (known) suspect = {};
      return false;
    }
    if (!known) {
      // The place is that of another path, which is under suspicion. It is free once that one is a
      // straggler, which is used last from now on, or does not come back.
      if (suspect.late > 0 && suspect.late < kLate && ++suspect.others < kOthersMax) return false;
      suspect = {.vp = vp};
    }
    suspect.others = 0;
    if (suspect.late < kLate) ++suspect.late;
    const bool straggles = suspect.late == kLate;
    if (straggles) {
      used_until_ = rounds_ + kInUse;
      takes_ = std::max(takes_, std::min(rtt * 2, usual * kTakesMax));
    }
    return straggles;
  }
  [[nodiscard]] bool has(uint16_t vp) const {
    const Suspect& suspect = suspects_[vp % kSuspects];
    return suspect.vp == vp && suspect.late == kLate;
  }
  // A packet explores `vp`.
  void on_explore(uint16_t vp) {
    if (seeks()) {
      rounds_ = used_until_ = 0;
      wait_ = std::min(wait_ * 2, kLastWait);
    }
    explored_ = vp;
    takes_ = takes_ - takes_ / kFadingPaths;
  }
  // What a packet may take that explores, or leaves on a straggler: twice as long as they do,
  // because the way there and the way back may both be the longer one. Zero: there were none.
  [[nodiscard]] Duration takes() const { return takes_; }
  void on_round() {
    if (rounds_ < std::max(used_until_, wait_)) ++rounds_;
  }
  // True until a packet explores.
  [[nodiscard]] bool seeks() const { return rounds_ >= wait_ && rounds_ < used_until_; }

  // Round trips that takes() has at most: a host that stops makes stragglers, too, and tells
  // nothing of paths.
  static constexpr int64_t kTakesMax = 8;

 private:
  struct Suspect {
    uint16_t vp = 0;     // 0: none
    uint8_t late = 0;    // packets in a row
    uint8_t others = 0;  // late packets on other paths with this place since
  };
  static constexpr uint32_t kSuspects = 32;
  static constexpr uint8_t kLate = 3;
  static constexpr uint8_t kOthersMax = 8;
  static constexpr uint32_t kFirstWait = 8;  // round trips
  static constexpr uint32_t kLastWait = 1024;
  // A straggler that was acknowledged so many round trips ago is not in use any more.
  static constexpr uint32_t kInUse = 4;
  static constexpr int64_t kFadingPaths = 32;

  std::array<Suspect, kSuspects> suspects_{};  // by the last bits of the path
  uint32_t rounds_ = 0;                        // since a packet was to explore
  uint32_t used_until_ = 0;                    // rounds_ at which no straggler is in use any more
  uint32_t wait_ = kFirstWait;
  uint16_t explored_ = 0;  // and not acknowledged yet; 0: none
  Duration takes_ = {};    // by the slowest straggler, faded
};
static_assert(sizeof(Stragglers) == 152);  // docs/algorithms.md

}  // namespace mprdma::transport
