// How often the helper looks at an application that polls.
#include "dataplane/engine/helper_beat.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "dataplane/sys/clock.hpp"
#include "tests/unit/dataplane/engine/program.hpp"
#include "tests/unit/dataplane/port/port_test_support.hpp"

namespace mprdma::dataplane {
namespace {

TEST(HelperBeat, GrowsWithTheTimeThatTheApplicationPollsAndNotWithTheLooks) {
  HelperBeat beat;
  Time now = Time::from_ns(1'000'000'000);
  beat.on_silence(now);
  EXPECT_EQ(beat.get(), HelperBeat::kMin);
  const Time start = now;
  for (int looks = 0; looks < 20; ++looks) {
    now += beat.get();  // and then the helper finds that it still does
    beat.on_polling(now);
    EXPECT_LE(beat.get(), (now - start) * 2) << looks;
    EXPECT_LE(beat.get(), HelperBeat::kMax);
  }
  EXPECT_EQ(beat.get(), HelperBeat::kMax);
  beat.on_silence(now);
  EXPECT_EQ(beat.get(), HelperBeat::kMin);
  for (int looks = 0; looks < 20; ++looks) beat.on_polling(now += Duration::us(1));
  EXPECT_EQ(beat.get(), HelperBeat::kMin) << "woken by something else";
}

// Its polls put the looks off. The most that there can be follow from the helper's turns, each of
// which may have found the application between two polls, and begun with short beats again, and
// from the times at which this thread had to wait for a core. The polls find something to do, as
// those that find nothing for long have pauses.
TEST(HelperBeat, AThreadThatPollsIsHardlyLookedAt) {
  testing::LinkedPorts ports;
  testing::Program a(std::move(ports.a), 0, Duration::s(1));
  testing::Program b(std::move(ports.b), 1, Duration::s(1));
  ASSERT_TRUE(testing::connect(a, b));
  ASSERT_EQ(a.progress.start(), 0);
  const auto counters = [&] {
    return a.progress.command([&](Time) { return a.host.worker->counters(); });
  };
  const EngineCounters before = counters();
  const Time start = clock_now();
  Time last = start;
  uint64_t gaps = 0;
  for (Time now = start; now - start < Duration::ms(200); now = clock_now()) {
    if (now - std::exchange(last, now) > Progress::kPutsOff / 4) ++gaps;
    a.post(b);
    while (a.completions() == 0 && clock_now() - start < Duration::s(20)) {
      a.progress.poll();
      b.progress.poll();
    }
  }
  const EngineCounters after = counters();
  a.progress.stop();
  const uint64_t turns = after.helper_wakeups - before.helper_wakeups + 1;
  EXPECT_LE(after.helper_looks - before.helper_looks, 8 + 4 * turns + 2 * gaps);
}

}  // namespace
}  // namespace mprdma::dataplane
