// Round trips of a connection of the standard, whose packets carry no time: some packets that ask
// for an acknowledgement are remembered, and the first acknowledgement of one gives a sample. It
// includes what the responder waits before it acknowledges.
//
// A copy and its original are acknowledged alike, so nothing that was sent before a repetition
// gives a sample (Karn and Partridge, SIGCOMM 1987).
#pragma once

#include <array>
#include <cstdint>

#include "base/psn.hpp"
#include "base/units.hpp"

namespace mprdma::transport {

class RoundTrips {
 public:
  void forget() { count_ = 0; }
  // A new packet leaves that asks for an acknowledgement. While too many wait, it is not timed.
  void note(Time now, Psn psn) {
    if (count_ == kTimedMax) return;
    timed_[(first_ + count_) % kTimedMax] = {psn, now};
    ++count_;
  }
  // Everything up to `acked` is acknowledged. Returns the sample of the newest packet among it;
  // zero if none was timed.
  Duration take(Time now, Psn acked) {
    Duration sample;
    for (; count_ > 0 && timed_[first_].psn.at_or_before(acked); --count_) {
      sample = now - timed_[first_].sent;
      first_ = (first_ + 1) % kTimedMax;
    }
    return sample;
  }

 private:
  static constexpr uint32_t kTimedMax = 16;
  struct Timed {
    Psn psn;
    Time sent;
  };
  std::array<Timed, kTimedMax> timed_{};
  uint32_t first_ = 0;
  uint32_t count_ = 0;
};

}  // namespace mprdma::transport
