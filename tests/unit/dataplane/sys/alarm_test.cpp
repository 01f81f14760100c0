#include "dataplane/sys/alarm.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/timerfd.h>

#include "dataplane/sys/clock.hpp"

namespace mprdma::dataplane {
namespace {

bool rings_within(const Alarm& alarm, int ms) {
  pollfd wanted{alarm.fd(), POLLIN, 0};
  return poll(&wanted, 1, ms) == 1;
}

Duration time_left(const Alarm& alarm) {
  itimerspec when{};
  timerfd_gettime(alarm.fd(), &when);
  return Duration::ns(int64_t{when.it_value.tv_sec} * 1'000'000'000 + when.it_value.tv_nsec);
}

TEST(Alarm, RingsInTimeAndIsSilentAfterwards) {
  Alarm alarm;
  const Time now = clock_now();
  alarm.ring_by(now, now + Duration::ms(1));
  EXPECT_TRUE(rings_within(alarm, 10'000));
  alarm.quit();
  EXPECT_FALSE(rings_within(alarm, 0));
  alarm.ring_by(now, now - Duration::s(1));
  EXPECT_TRUE(rings_within(alarm, 10'000)) << "a time that is over";
}

// Who sleeps again and again for a while longer programs no timer each time.
TEST(Alarm, StaysWhereItIsEarlierAndMovesWhereItIsLater) {
  Alarm alarm;
  const Time now = clock_now();
  alarm.ring_by(now, now + Duration::s(100));
  alarm.ring_by(now, now + Duration::s(200));
  EXPECT_LE(time_left(alarm), Duration::s(100));
  EXPECT_GT(time_left(alarm), Duration::s(50));
  alarm.ring_by(now, now + Duration::s(50));
  EXPECT_LE(time_left(alarm), Duration::s(50));
}

TEST(Alarm, ThatShouldHaveRungIsSetAnew) {
  Alarm alarm;
  const Time now = clock_now();
  alarm.ring_by(now, now + Duration::ms(1));
  const Time later = now + Duration::s(1);
  alarm.ring_by(later, later + Duration::s(100));
  EXPECT_GT(time_left(alarm), Duration::s(50));
}

TEST(Alarm, MovesToALaterTimeWhereItIsToldToAndStaysThere) {
  Alarm alarm;
  const Time now = clock_now();
  alarm.ring_by(now, now + Duration::s(100));
  alarm.move(now + Duration::s(200));
  EXPECT_GT(time_left(alarm), Duration::s(150));
  alarm.ring_by(now, now + Duration::s(300));
  EXPECT_LE(time_left(alarm), Duration::s(200)) << "it may ring before";
  alarm.ring_by(now, now + Duration::s(50));
  EXPECT_LE(time_left(alarm), Duration::s(50));
}

}  // namespace
}  // namespace mprdma::dataplane
