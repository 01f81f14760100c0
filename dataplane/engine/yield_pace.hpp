// After how many polls in a row that found nothing a thread gives its core to whoever else wants
// it.
//
// With more pollers than cores that is who has the answer. An answer that is there after a short
// yield was made on this core: the peer runs there, and gets it after fewer polls from then on. So
// does a crowd, of which each one has the core for a part of a slice: the answer comes after all
// others had their turn, so that everybody's turn has to be short, whether it brings one or not. A
// short yield without an answer, or one after a slice (somebody had the core who gives it to
// nobody) or after none (nobody had it), takes that back.
//
// Of an engine, not of a thread: where several poll, one ends the pause of another, mostly too soon
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
  // Who is away for longer was so for a slice of the scheduler's, which somebody used to its end.
  static constexpr Duration kCrowdTakesMax = Duration::ms(2);

  [[nodiscard]] uint32_t polls() const { return polls_; }
  // The last yield was into a crowd.
  [[nodiscard]] bool crowded() const { return crowded_; }
  // The thread yields.
  void on_yield(Time now) { yielded_at_ = now; }
  // Nobody polls any more, or polls have been in vain for long.
  void on_end() { crowded_ = false; }
  // A poll begins; `back`: when the last yield ended; `answer`: frames were there.
  void on_poll(bool answer, Time back) {
    if (yielded_at_.is_never()) return;
    const Duration away = back - std::exchange(yielded_at_, Time::never());
    const bool peer = answer && away >= kPeerTakesMin && away <= kPeerTakesMax;
    crowded_ = away > kPeerTakesMax && away <= kCrowdTakesMax;
    polls_ = peer || crowded_ ? std::max(polls_ / 2, kPollsMin) : std::min(polls_ * 2, kPollsMax);
  }

 private:
  uint32_t polls_ = kPollsMax;
  bool crowded_ = false;
  Time yielded_at_ = Time::never();
};

}  // namespace mprdma::dataplane
