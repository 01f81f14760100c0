#include "dataplane/engine/core_follower.hpp"

#include <gtest/gtest.h>

namespace mprdma::dataplane {
namespace {

TEST(CoreFollower, MovesToTheCoreOfItsPeerAndStays) {
  CoreFollower follower;
  Time now = Time::from_ns(1);
  EXPECT_FALSE(follower.moves(now, 0, -1)) << "nobody knows where it is";
  EXPECT_FALSE(follower.moves(now, 1, 1));
  EXPECT_TRUE(follower.moves(now, 0, 1));
  for (int i = 0; i < 100; ++i) {
    now = now + Duration::ms(1);
    EXPECT_FALSE(follower.moves(now, 1, 1));
  }
  EXPECT_TRUE(follower.moves(now, 1, 0)) << "the peer has moved";
}

// The scheduler takes it away each time.
TEST(CoreFollower, AThreadThatIsTakenAwayMovesEverMoreSeldom) {
  CoreFollower follower;
  Time now = Time::from_ns(1);
  int moves = 0;
  for (int i = 0; i < 10'000; ++i) {
    if (follower.moves(now, 0, 1)) ++moves;
    now = now + Duration::ms(1);
  }
  // 9 until it is one each second.
  EXPECT_EQ(moves, 17);
}

}  // namespace
}  // namespace mprdma::dataplane
