// Packets below snd_una whose own acknowledgement has not come yet: the one of another packet, on
// another way back, covered them first. Their room in the window belongs to the path that their own
// acknowledgement will echo; without that rule the path whose acknowledgements come back first
// takes the credits of the others until those paths have none.
//
// An acknowledgement that does not come within one to two rounds (round trips) is lost.
#pragma once

#include <cstdint>

#include "base/psn.hpp"

namespace mprdma::transport {

class LateAcks {
 public:
  // How many are still expected.
  [[nodiscard]] uint32_t count() const { return before_ + now_; }
  // An acknowledgement covered so many packets besides the one that it names.
  void on_covered(uint32_t packets) { now_ += packets; }
  // An acknowledgement names this packet, below snd_una. False: it was not expected; a duplicate,
  // or somebody's who knows no better.
  bool take(Psn psn) {
    if (psn.before(oldest_)) return false;
    uint32_t& of_round = psn.before(round_una_) ? before_ : now_;
    if (of_round == 0) return false;
    --of_round;
    return true;
  }
  void end_round(Psn una) {
    before_ = now_;
    now_ = 0;
    oldest_ = round_una_;
    round_una_ = una;
  }
  void clear() { before_ = now_ = 0; }
  void reset(Psn first) {
    *this = LateAcks();
    round_una_ = oldest_ = first;
  }

 private:
  uint32_t before_ = 0;  // covered in the round before this one
  uint32_t now_ = 0;     // in this round
  Psn round_una_;        // snd_una when it began
  Psn oldest_;           // snd_una when the round before it began
};

}  // namespace mprdma::transport
