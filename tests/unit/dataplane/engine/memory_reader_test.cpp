#include "dataplane/engine/memory_reader.hpp"

#include <gtest/gtest.h>

namespace mprdma::dataplane {
namespace {

class MemoryReaderTest : public ::testing::Test {
 protected:
  // A post, and then a wait in memory.
  void wait_silently(int times = 1) {
    for (int i = 0; i < times; ++i) {
      reader.on_post(now);
      now += MemoryReader::kSilence;
    }
  }

  Time now = Time() + Duration::ms(1);
  MemoryReader reader;
};

TEST_F(MemoryReaderTest, IsKnownAfterSixWaits) {
  wait_silently(6);
  EXPECT_FALSE(reader.waits());
  wait_silently();
  EXPECT_TRUE(reader.waits());
}

TEST_F(MemoryReaderTest, PostsInARowAreNoWaits) {
  for (int i = 0; i < 100; ++i) {
    reader.on_post(now);
    now += MemoryReader::kSilence - Duration::ns(1);
  }
  EXPECT_FALSE(reader.waits());
}

// As one that posts to some peers, loses its core in between, and then polls.
TEST_F(MemoryReaderTest, WhoPollsAfterSomePostsIsNone) {
  for (int i = 0; i < 100; ++i) {
    wait_silently(4);
    EXPECT_FALSE(reader.waits());
    reader.on_poll(now);
  }
}

// A poll takes the completions of many posts.
TEST_F(MemoryReaderTest, OnePollAmongManyPostsIsNoSignAndSomeInARowAre) {
  wait_silently(100);
  EXPECT_TRUE(reader.waits());
  reader.on_poll(now);
  EXPECT_FALSE(reader.waits()) << "not before its next post";
  wait_silently();
  EXPECT_TRUE(reader.waits());
  for (int i = 0; i < 4; ++i) reader.on_poll(now);
  wait_silently(3);
  EXPECT_FALSE(reader.waits());
}

}  // namespace
}  // namespace mprdma::dataplane
