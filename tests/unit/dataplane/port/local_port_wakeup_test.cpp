// No wake-up of a LocalPort is lost: a process that sleeps after arm() is woken by the next frame.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "base/prng.hpp"
#include "tests/unit/dataplane/port/port_test_support.hpp"

namespace mprdma::dataplane {
namespace {

using testing::LinkedPorts;
using testing::now;
using testing::send_patterns;

constexpr int kLostAfterMs = 5000;

class LocalPortWakeup : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(ports_.link()); }

  // Sleeps as an engine does; false if nothing woke it.
  static bool wait_for_wakeup(Port& port) {
    if (!port.arm()) return true;
    pollfd entry{port.notify_fd(), POLLIN, 0};
    const bool woken = poll(&entry, 1, kLostAfterMs) == 1;
    port.disarm();
    port.service(now());
    return woken;
  }

  static unsigned take_all(Port& port) {
    unsigned total = 0;
    RxFrame frames[kBurst];
    while (const unsigned taken = port.rx_burst(frames, kBurst)) {
      for (unsigned i = 0; i < taken; ++i) port.rx_release(&frames[i].cookie, 1);
      total += taken;
    }
    port.flush();
    return total;
  }

  LinkedPorts ports_;
  std::unique_ptr<Port>& a_ = ports_.a;
  std::unique_ptr<Port>& b_ = ports_.b;
};

// Waits a little, so that arming and sending meet in every order.
void dawdle(Prng* prng) {
  for (uint64_t i = prng->below(400); i > 0; --i)
    std::atomic_signal_fence(std::memory_order_seq_cst);
}

TEST_F(LocalPortWakeup, NoneIsLostWhenBothEndsSleepBetweenFrames) {
  constexpr uint64_t kRounds = 20'000;
  std::atomic<bool> lost = false;
  const auto play = [&](Port& port, uint64_t seed, bool serves) {
    Prng prng(seed);
    if (serves) send_patterns(port, 0, 1);
    for (uint64_t round = 0; round < kRounds && !lost;) {
      const unsigned taken = take_all(port);
      if (taken == 0) {
        dawdle(&prng);
        if (!wait_for_wakeup(port)) lost = true;
        continue;
      }
      round += taken;
      dawdle(&prng);
      send_patterns(port, round, taken);
    }
  };
  std::thread other([&] { play(*b_, 1, false); });
  play(*a_, 2, true);
  other.join();
  EXPECT_FALSE(lost);
}

TEST_F(LocalPortWakeup, NoneIsLostWhenTheSenderSleepsForRoomAndTheReaderForFrames) {
  constexpr uint64_t kFrames = 300'000;
  std::atomic<bool> lost = false;
  std::thread reader([&] {
    Prng prng(3);
    for (uint64_t taken = 0; taken < kFrames && !lost;) {
      const unsigned now_taken = take_all(*b_);
      taken += now_taken;
      dawdle(&prng);
      if (now_taken == 0 && !wait_for_wakeup(*b_)) lost = true;
    }
  });
  Prng prng(4);
  for (uint64_t sent = 0; sent < kFrames && !lost;) {
    const auto wanted = static_cast<unsigned>(std::min<uint64_t>(kBurst, kFrames - sent));
    const unsigned n = send_patterns(*a_, sent, wanted);
    sent += n;
    dawdle(&prng);
    if (n < wanted && !wait_for_wakeup(*a_)) lost = true;
  }
  reader.join();
  EXPECT_FALSE(lost);
}

// Two threads go on together.
class Rendezvous {
 public:
  void meet() {
    const uint32_t arrived = arrived_.fetch_add(1) + 1;
    const uint32_t both = (arrived + 1) / 2 * 2;
    for (uint32_t tries = 1; arrived_.load() < both; ++tries) {
      if (tries % 1024 == 0) sched_yield();
    }
  }

 private:
  std::atomic<uint32_t> arrived_ = 0;
};

void turn(int64_t turns) {
  for (; turns > 0; --turns) std::atomic_signal_fence(std::memory_order_seq_cst);
}

// One end sends a frame while the other one arms: it finds the frame, or is woken. Whoever is first
// waits a little longer the next time, until the two have met often enough. Without the full fence
// of either side, each looks before it sees what the other has stored, in hundreds of these rounds;
// but only if each has a core of its own, so that a busy machine proves less.
TEST_F(LocalPortWakeup, FrameThatLeavesWhileThePeerArmsIsFoundOrWakesIt) {
  constexpr int kMeetings = 20'000;
  constexpr Duration kMeeting = Duration::ns(300);
  constexpr int64_t kLeadMax = 2000;
  const Time limit = now() + Duration::s(3);
  Rendezvous start;
  Rendezvous end;
  std::atomic<bool> over = false;
  std::atomic<int64_t> lead = 0;  // of the one who arms
  Time sent;
  std::thread sender([&] {
    for (;;) {
      TxFrame frame{};
      EXPECT_EQ(a_->tx_reserve(&frame, 1), 1u);
      testing::write_pattern(&frame, 1);
      start.meet();
      if (over.load()) return a_->tx_abandon(&frame, 1);
      turn(-lead.load(std::memory_order_relaxed));
      sent = now();
      a_->tx_commit(&frame, 1);
      a_->flush();
      end.meet();
    }
  });
  Prng prng(5);
  int lost = 0;
  int meetings = 0;
  for (Time armed_at; meetings < kMeetings && armed_at < limit;) {
    const uint64_t wakeups_before = a_->stats().wakeups_sent;
    const int64_t now_lead = lead.load(std::memory_order_relaxed);
    start.meet();
    turn(now_lead + static_cast<int64_t>(prng.below(8)));
    armed_at = now();
    const bool sleeps = b_->arm();
    end.meet();
    meetings += std::max(armed_at - sent, sent - armed_at) < kMeeting ? 1 : 0;
    if (sleeps) {
      lost += a_->stats().wakeups_sent == wakeups_before ? 1 : 0;
      b_->disarm();
      b_->service(now());
    }
    lead.store(std::clamp(now_lead + (sleeps ? 4 : -4), -kLeadMax, kLeadMax));
    EXPECT_EQ(take_all(*b_), 1u);
  }
  over.store(true);
  start.meet();
  sender.join();
  EXPECT_EQ(lost, 0) << "of " << meetings << " meetings";
}

}  // namespace
}  // namespace mprdma::dataplane
