#include "switchsim/model/event_wheel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/prng.hpp"

namespace mprdma::switchsim {
namespace {

constexpr uint32_t kEvents = 3000;

// The wheel beside an ordered map, driven by the same random calls.
class Pair {
 public:
  Pair(uint64_t seed, SimSpan horizon, uint32_t buckets)
      : prng_(seed), horizon_ps_(horizon.count_ps()), wheel_(kEvents, horizon, buckets) {
    for (EventId id = 0; id < kEvents; ++id) wheel_.create(id);
    at_.assign(kEvents, reference_.end());
  }

  void insert(EventId id, int64_t ps) {
    wheel_.insert(id, SimTime::from_ps(ps));
    at_[id] = reference_.emplace(std::pair(ps, sequence_++), id);
  }

  void cancel(EventId id) {
    wheel_.cancel(id);
    reference_.erase(at_[id]);
    at_[id] = reference_.end();
  }

  // Draws a time between now and far beyond the horizon, often that of another event.
  int64_t draw_time() {
    switch (prng_.below(5)) {
      case 0:
        return now_ps_ + static_cast<int64_t>(prng_.below(4));
      case 1:
        return reference_.empty() ? now_ps_ : std::max(now_ps_, reference_.rbegin()->first.first);
      case 2:
        return now_ps_ + static_cast<int64_t>(prng_.below(50 * horizon_ps_));
      default:
        return now_ps_ + static_cast<int64_t>(prng_.below(horizon_ps_));
    }
  }

  void change() {
    const auto id = static_cast<EventId>(prng_.below(kEvents));
    ASSERT_EQ(wheel_.pending(id), at_[id] != reference_.end());
    if (!wheel_.pending(id)) {
      insert(id, draw_time());
    } else if (prng_.chance(1, 2)) {
      ASSERT_EQ(wheel_.time_of(id).ps(), at_[id]->first.first);
      cancel(id);
    } else {  // move
      cancel(id);
      insert(id, draw_time());
    }
  }

  void pop_some() {
    const int64_t limit = now_ps_ + static_cast<int64_t>(prng_.below(horizon_ps_ / 8));
    EventId id = 0;
    SimTime time;
    while (!reference_.empty() && reference_.begin()->first.first <= limit) {
      ASSERT_TRUE(wheel_.pop_until(SimTime::from_ps(limit), id, time));
      ASSERT_EQ(id, reference_.begin()->second);
      ASSERT_EQ(time.ps(), reference_.begin()->first.first);
      at_[id] = reference_.end();
      reference_.erase(reference_.begin());
      now_ps_ = time.ps();
      if (prng_.chance(1, 4)) change();
      ++popped_;
    }
    ASSERT_FALSE(wheel_.pop_until(SimTime::from_ps(limit), id, time));
    now_ps_ = limit;
    if (prng_.chance(1, 2)) wheel_.advance(SimTime::from_ps(limit));
  }

  void compare() {
    ASSERT_EQ(wheel_.count(), reference_.size());
    const int64_t next =
        reference_.empty() ? SimTime::never().ps() : reference_.begin()->first.first;
    ASSERT_EQ(wheel_.next().ps(), next);
  }

  // The known future events are in the order of the map, and only gaps may be missing.
  void compare_upcoming() {
    auto at = reference_.begin();
    for (uint32_t ahead = 0; wheel_.upcoming(ahead) != EventWheel::kNone; ++ahead) {
      while (at != reference_.end() && at->second != wheel_.upcoming(ahead)) ++at;
      ASSERT_NE(at, reference_.end()) << ahead;
      ++at;
      known_max_ = std::max(known_max_, ahead + 1);
    }
  }

  void run(int rounds) {
    for (int round = 0; round < rounds && !testing::Test::HasFatalFailure(); ++round) {
      for (uint64_t i = prng_.below(40); i > 0; --i) change();
      compare();
      if (prng_.chance(1, 2)) pop_some();
      compare();
      if (round % 8 == 0) compare_upcoming();
    }
    EXPECT_GT(popped_, rounds / 2);
    EXPECT_GE(known_max_, EventWheel::kKnownAhead);
  }

 private:
  Prng prng_;
  int64_t horizon_ps_;
  EventWheel wheel_;
  // The key is (time, sequence number): all different, but a multimap keeps nothing to itself.
  std::multimap<std::pair<int64_t, uint64_t>, EventId> reference_;
  std::vector<decltype(reference_)::iterator> at_;
  int64_t now_ps_ = 0;
  uint64_t sequence_ = 0;
  int popped_ = 0;
  uint32_t known_max_ = 0;
};

TEST(EventWheel, IsAnOrderedMapUnderRandomInsertCancelMoveAndPop) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    Pair(seed, SimSpan::ns(1), 64).run(2000);
    Pair(seed, SimSpan::us(1), 256).run(2000);
    Pair(seed, SimSpan::us(100), 4096).run(2000);
  }
}

TEST(EventWheel, EventsOfTheSameInstantComeInTheOrderOfInsertion) {
  EventWheel wheel(kEvents, SimSpan::us(1), 1024);
  for (EventId id = 0; id < kEvents; ++id) wheel.create(id);
  // The first ones lie beyond the horizon and wait in the heap, the others in the wheel.
  const SimTime at = SimTime::from_ps(5'000'000);
  for (EventId id = 0; id < 1000; ++id) wheel.insert(id, at);
  wheel.advance(SimTime::from_ps(4'500'000));
  for (EventId id = 1000; id < kEvents; ++id) wheel.insert(id, at);
  for (EventId expected = 0; expected < kEvents; ++expected) {
    EventId id = 0;
    SimTime time;
    ASSERT_TRUE(wheel.pop_until(at, id, time));
    ASSERT_EQ(id, expected);
    ASSERT_EQ(time, at);
  }
}

TEST(EventWheel, WhatIsInsertedWhileItsInstantIsHandledComesLast) {
  EventWheel wheel(4, SimSpan::us(1), 64);
  for (EventId id = 0; id < 4; ++id) wheel.create(id);
  const SimTime at = SimTime::from_ps(500);
  wheel.insert(0, at);
  wheel.insert(1, at);
  EventId id = 0;
  SimTime time;
  ASSERT_TRUE(wheel.pop_until(at, id, time));
  wheel.insert(2, at);
  wheel.insert(3, at + SimSpan::ps(1));
  for (const EventId expected : {1U, 2U}) {
    ASSERT_TRUE(wheel.pop_until(at, id, time));
    EXPECT_EQ(id, expected);
  }
  EXPECT_FALSE(wheel.pop_until(at, id, time));
  EXPECT_EQ(wheel.next(), at + SimSpan::ps(1));
}

TEST(EventWheel, LookingAheadDoesNotHideWhatIsInsertedBefore) {
  EventWheel wheel(3, SimSpan::us(1), 64);
  for (EventId id = 0; id < 3; ++id) wheel.create(id);
  wheel.insert(0, SimTime::from_ps(900'000));
  EventId id = 0;
  SimTime time;
  EXPECT_FALSE(wheel.pop_until(SimTime::from_ps(1000), id, time));
  EXPECT_EQ(wheel.next().ps(), 900'000);
  wheel.insert(1, SimTime::from_ps(2000));
  EXPECT_EQ(wheel.next().ps(), 2000);
  ASSERT_TRUE(wheel.pop_until(SimTime::from_ps(2000), id, time));
  EXPECT_EQ(id, 1U);
}

TEST(EventWheel, ADenseWheelKnowsWhatComesAndASparseOneDoesNotRunAhead) {
  EventWheel wheel(kEvents, SimSpan::ns(4), 4096);  // a bucket is a picosecond
  for (EventId id = 0; id < kEvents; ++id) wheel.create(id);
  // The events are ten apart, the last one two thousand.
  const auto time_of = [](EventId id) {
    return SimTime::from_ps(10 + 10 * int64_t{std::min(id, 200U)} +
                            2000 * (int64_t{std::max(id, 200U)} - 200));
  };
  for (EventId id = 0; id < 202; ++id) wheel.insert(id, time_of(id));
  EventId popped = 0;
  SimTime time;
  for (EventId id = 0; id < 202; ++id) {
    ASSERT_TRUE(wheel.pop_until(SimTime::never(), popped, time));
    ASSERT_EQ(popped, id);
    ASSERT_EQ(time, time_of(id));
    const uint32_t near = id < 200 ? 200 - id : 0;
    for (uint32_t ahead = 0; ahead < std::min(near, EventWheel::kKnownAhead - 1); ++ahead) {
      ASSERT_EQ(wheel.upcoming(ahead), id + 1 + ahead);
    }
    if (near < EventWheel::kKnownAhead) {
      ASSERT_EQ(wheel.upcoming(near), EventWheel::kNone);
    }
  }
}

// The array of known events has room for all events, and for no more.
TEST(EventWheel, EveryEventMayBeAtTheSameInstantAndMove) {
  constexpr uint32_t kFew = 40;
  EventWheel wheel(kFew, SimSpan::us(1), 64);
  for (EventId id = 0; id < kFew; ++id) wheel.create(id);
  const SimTime at = SimTime::from_ps(500);
  for (EventId id = 0; id < kFew; ++id) wheel.insert(id, at);
  for (uint32_t round = 0; round < 10 * kFew; ++round) {
    EventId id = 0;
    SimTime time;
    ASSERT_TRUE(wheel.pop_until(at, id, time));
    ASSERT_EQ(id, round % kFew);
    wheel.insert(id, at);
    ASSERT_EQ(wheel.upcoming(0), (round + 1) % kFew);
    ASSERT_EQ(wheel.upcoming(kFew - 1), id);
  }
}

}  // namespace
}  // namespace mprdma::switchsim
