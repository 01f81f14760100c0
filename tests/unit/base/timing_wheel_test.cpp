#include "base/timing_wheel.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/prng.hpp"

namespace mprdma {
namespace {

Time at_us(int64_t us) {
  return Time::from_ns(us * 1000);
}

constexpr Duration kTick = Duration::ns(int64_t{1} << TimingWheel::kTickShift);

TEST(TimingWheel, FiresNeverEarlyAndAtMostATickLate) {
  Prng prng(1);
  for (const uint64_t span_us : {100u, 10'000u, 1'000'000u, 1'000'000'000u}) {
    TimingWheel wheel(at_us(12345));
    std::vector<TimerNode> nodes(200);
    std::map<TimerNode*, Time> wanted;
    for (TimerNode& node : nodes) {
      wanted[&node] = at_us(12345 + static_cast<int64_t>(prng.below(span_us)) + 5);
      wheel.schedule(node, wanted[&node]);
    }
    Time now = at_us(12345);
    size_t fired = 0;
    while (!wheel.empty()) {
      const Time next = wheel.next_deadline();
      ASSERT_FALSE(next.is_never());
      now = std::max(now + Duration::ns(1), next);
      wheel.advance(now, [&](TimerNode& node) {
        EXPECT_LE(wanted[&node], now);
        EXPECT_LE(now - wanted[&node], kTick);
        ++fired;
      });
    }
    EXPECT_EQ(fired, nodes.size());
  }
}

TEST(TimingWheel, LateAdvanceFiresEverythingThatIsDue) {
  TimingWheel wheel(Time{});
  std::vector<TimerNode> nodes(5);
  const int64_t us[] = {3, 300, 30'000, 3'000'000, 300'000'000};
  for (size_t i = 0; i < nodes.size(); ++i) wheel.schedule(nodes[i], at_us(us[i]));
  std::vector<TimerNode*> fired;
  wheel.advance(at_us(400'000'000), [&](TimerNode& node) { fired.push_back(&node); });
  ASSERT_EQ(fired.size(), 5u);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(fired[i], &nodes[i]) << "in the order of deadlines";
}

TEST(TimingWheel, CancelledTimerDoesNotFire) {
  TimingWheel wheel(Time{});
  TimerNode kept;
  TimerNode cancelled;
  wheel.schedule(kept, at_us(500));
  wheel.schedule(cancelled, at_us(500));
  wheel.cancel(cancelled);
  wheel.cancel(cancelled);
  int fired = 0;
  wheel.advance(at_us(1000), [&](TimerNode& node) {
    EXPECT_EQ(&node, &kept);
    ++fired;
  });
  EXPECT_EQ(fired, 1);
  EXPECT_TRUE(wheel.empty());
}

TEST(TimingWheel, CallbackMayCancelOthersThatAreDueAndScheduleItself) {
  TimingWheel wheel(Time{});
  std::vector<TimerNode> nodes(10);
  for (TimerNode& node : nodes) wheel.schedule(node, at_us(100));
  int fired = 0;
  wheel.advance(at_us(200), [&](TimerNode& node) {
    ++fired;
    for (TimerNode& other : nodes) wheel.cancel(other);
    wheel.schedule(node, at_us(10'000));
  });
  EXPECT_EQ(fired, 1);
  wheel.advance(at_us(20'000), [&](TimerNode&) { ++fired; });
  EXPECT_EQ(fired, 2);
}

TEST(TimingWheel, TimerThatIsAlwaysDueCannotHoldTheLoopForEver) {
  TimingWheel wheel(Time{});
  TimerNode node;
  wheel.schedule(node, Time{});
  int fired = 0;
  wheel.advance(at_us(100), [&](TimerNode& n) {
    ++fired;
    wheel.schedule(n, Time{});
  });
  EXPECT_GT(fired, 0);
  EXPECT_LT(fired, 30);
}

TEST(TimingWheel, EarlierDeadlineMovesATimerLaterOneLeavesIt) {
  TimingWheel wheel(Time{});
  TimerNode node;
  wheel.schedule_no_later(node, at_us(1000));
  wheel.schedule_no_later(node, at_us(50'000));
  EXPECT_LE(wheel.next_deadline(), at_us(1000) + kTick);
  wheel.schedule_no_later(node, at_us(200));
  EXPECT_LE(wheel.next_deadline(), at_us(200) + kTick);
  wheel.schedule_no_later(node, Time::never());
  EXPECT_FALSE(wheel.empty());
}

TEST(TimingWheel, FarDeadlineBeyondTheLastLevelComesInItsTime) {
  TimingWheel wheel(Time{});
  TimerNode node;
  const Time deadline = Time{} + Duration::s(8800);  // the standard's longest timeout
  wheel.schedule(node, deadline);
  Time fired = Time::never();
  while (fired.is_never()) {
    const Time next = wheel.next_deadline();
    ASSERT_FALSE(next.is_never());
    wheel.advance(next, [&](TimerNode&) { fired = next; });
  }
  EXPECT_GE(fired, deadline);
  EXPECT_LE(fired, deadline + kTick);
}

}  // namespace
}  // namespace mprdma
