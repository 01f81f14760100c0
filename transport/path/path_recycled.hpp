// ACK clocking (paper 3.2) that remembers paths [deviation], as REPS does (Bonato et al., "REPS:
// Recycled Entropy Packet Spraying", 2024). An acknowledgement that finds nothing to send leaves
// its path here. A packet without an echoed path takes the newest of them that had no mark, else
// the newest, else a random one: so messages that fit the window, too, keep to paths that work and
// have room.
//
// It has to hold a window's worth: what a message of that size used, the next one finds again.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

#include "base/prng.hpp"
#include "base/units.hpp"
#include "transport/path/path_policy.hpp"
#include "transport/path/random_path.hpp"

namespace mprdma::transport {

class RecycledPaths {
 public:
  static constexpr std::string_view kName = "recycled";
  static constexpr bool kClocked = true;
  static constexpr uint32_t kBankMax = 64;

  void reset(uint16_t /*fixed_vp*/) {
    good_ = {};
    clear();
  }
  uint16_t next(Time, Prng& prng) {
    if (count_ == 0) return random_path(prng);
    const uint64_t unmarked = ~marked_ & used();
    return take(static_cast<uint32_t>(std::bit_width(unmarked != 0 ? unmarked : used())) - 1);
  }
  uint16_t explore(Prng& prng) const { return random_path(prng); }
  // The paths on which the last packets arrived, in turn; from the second attempt on random ones,
  // because those may all be the same path of the network.
  uint16_t retry(uint16_t avoid, uint32_t attempt, Prng& prng) {
    for (uint32_t tries = attempt == 0 ? kGoodMax : 0; tries > 0; --tries) {
      const uint16_t vp = good_[(newest_ - turn_++) % kGoodMax];
      if (vp != 0 && vp != avoid) return vp;
    }
    return random_path(prng);
  }

  void on_ack(const PathSample& sample) {
    if (sample.vp == 0 || sample.slow) return;
    good_[++newest_ % kGoodMax] = sample.vp;
    turn_ = 0;
  }
  void on_spare(uint16_t vp, bool ece) {
    if (count_ == kBankMax) take(0);
    vps_[count_] = vp;
    marked_ |= uint64_t{ece} << count_;
    ++count_;
  }
  void on_timeout(Time) { reset(0); }

 private:
  [[nodiscard]] uint64_t used() const {
    return count_ == kBankMax ? ~uint64_t{0} : (uint64_t{1} << count_) - 1;
  }
  uint16_t take(uint32_t at) {
    const uint16_t vp = vps_[at];
    std::copy(vps_.begin() + at + 1, vps_.begin() + count_, vps_.begin() + at);
    const uint64_t older = (uint64_t{1} << at) - 1;
    marked_ = (marked_ & older) | ((marked_ >> 1) & ~older);
    --count_;
    return vp;
  }
  void clear() {
    count_ = 0;
    marked_ = 0;
  }

  static constexpr uint32_t kGoodMax = 8;
  std::array<uint16_t, kGoodMax> good_{};  // of the last acknowledgements; 0: none
  uint32_t newest_ = 0;                    // in good_, modulo its size
  uint32_t turn_ = 0;                      // taken since the last acknowledgement
  uint32_t count_ = 0;
  uint64_t marked_ = 0;                   // of the entries below, whose acknowledgement had a mark
  std::array<uint16_t, kBankMax> vps_{};  // the oldest first
};

}  // namespace mprdma::transport
