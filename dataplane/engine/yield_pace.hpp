// After how many polls in a row that found nothing a thread gives its core to whoever else wants
// it, and how.
//
// With more pollers than cores that is who has the answer. An answer that is there after a short
// yield was made on this core: the peer runs there, and gets it after fewer polls from then on. So
// does a crowd, of which each one has the core for a part of a slice: the answer comes after all
// others had their turn, so that everybody's turn has to be short, whether it brings one or not. A
// short yield without an answer, or one after none (nobody had the core), takes that back.
//
// A yield that takes slices of the scheduler's has given the core to somebody who gives it to
// nobody, or has lost its turn to a crowd: Linux (EEVDF) takes the rest of its slice from who
// yields, so that the turns of forty pollers may be 8 to 10 ms apart. Where yields do so, the
// thread sleeps in their place until its frame comes (poll_sleep.hpp), as a reader of a socket
// does: who has slept is soon given the core. Now and then it yields, to see whether that still
// takes a slice.
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
  // Before a sleep: more only use a core that others want.
  static constexpr uint32_t kPollsBeforeSleep = 2;
  // Two switches of the core, and what a peer does in between.
  static constexpr Duration kPeerTakesMin = Duration::us(1);
  static constexpr Duration kPeerTakesMax = Duration::us(20);
  // Who is away for longer was so for a slice of the scheduler's.
  static constexpr Duration kCrowdTakesMax = Duration::ms(2);
  // A sleep takes less than yields that take so long on the average, of which each counts for its
  // share: one slice among many short ones makes no sleeper.
  static constexpr Duration kYieldsTakeMax = Duration::ms(1);
  static constexpr int64_t kYieldShare = 32;
  // From one yield of a thread that sleeps to the next: the least, from which it doubles as long as
  // they take slices, and the most.
  static constexpr Duration kLookMin = Duration::ms(1);
  static constexpr Duration kLookMax = Duration::ms(64);

  // Polls in vain before a yield.
  [[nodiscard]] uint32_t polls() const { return polls_; }
  // The last yield was into a crowd.
  [[nodiscard]] bool crowded() const { return crowded_; }
  // Yields take slices, some of them at least.
  [[nodiscard]] bool loses_slices() const { return yields_take_ > kYieldsTakeMax; }
  // The pause is to be a sleep.
  [[nodiscard]] bool sleeps(Time now) const { return loses_slices() && now < look_at_; }
  // The thread yields.
  void on_yield(Time now) { yielded_at_ = now; }
  // Nobody polls any more, or polls have been in vain for long. Who lost slices does so again after
  // the next yield that takes one.
  void on_end() {
    crowded_ = false;
    yields_take_ = std::min(yields_take_, kYieldsTakeMax);
  }
  // A poll begins; `back`: when the last yield ended; `answer`: frames were there.
  void on_poll(bool answer, Time back) {
    // Another thread's last yield ended before this one began.
    if (yielded_at_.is_never() || back < yielded_at_) return;
    const Duration away = back - std::exchange(yielded_at_, Time::never());
    const bool peer = answer && away >= kPeerTakesMin && away <= kPeerTakesMax;
    crowded_ = away > kPeerTakesMax && away <= kCrowdTakesMax;
    polls_ = peer || crowded_ ? std::max(polls_ / 2, kPollsMin) : std::min(polls_ * 2, kPollsMax);
    yields_take_ = yields_take_ + (away - yields_take_) / kYieldShare;
    look_after_ = away <= kCrowdTakesMax ? kLookMin : std::min(look_after_ * 2, kLookMax);
    look_at_ = back + look_after_;
  }

 private:
  uint32_t polls_ = kPollsMax;
  bool crowded_ = false;
  Duration yields_take_;
  Duration look_after_ = kLookMin;
  Time look_at_;
  Time yielded_at_ = Time::never();
};

}  // namespace mprdma::dataplane
