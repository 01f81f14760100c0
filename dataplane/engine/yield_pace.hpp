// After how many polls in a row that found nothing a thread gives its core to whoever else wants
// it.
//
// With more pollers than cores that is who has the answer. An answer that is there after a short
// yield was made on this core: the peer runs there, and gets it after fewer polls from then on. A
// yield without an answer, or with one after a long time (somebody else had the core) or after none
// (nobody had it), takes that back.
//
// Of an engine, not of a thread: where several poll, one ends the yield of another, mostly too soon
// to count.
//
// Pure; called with the lock of Progress held.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/units.hpp"

namespace mprdma::dataplane {

class YieldPace {
 public:
  static constexpr uint32_t kPollsMax = 128;
  static constexpr uint32_t kPollsMin = 16;
  // Two switches of the core, and what a peer does in between.
  static constexpr Duration kPeerTakesMin = Duration::us(1);
  static constexpr Duration kPeerTakesMax = Duration::us(20);

  [[nodiscard]] uint32_t polls() const { return polls_; }
  // The thread yields, or sleeps for a moment.
  void on_yield(Time now) { yielded_at_ = now; }
  // A poll begins; `answer`: frames were there.
  void on_poll(bool answer, Time now) {
    if (yielded_at_.is_never()) return;
    const Duration away = now - std::exchange(yielded_at_, Time::never());
    const bool peer = answer && away >= kPeerTakesMin && away <= kPeerTakesMax;
    polls_ = peer ? std::max(polls_ / 2, kPollsMin) : std::min(polls_ * 2, kPollsMax);
  }

 private:
  uint32_t polls_ = kPollsMax;
  Time yielded_at_ = Time::never();
};

}  // namespace mprdma::dataplane
