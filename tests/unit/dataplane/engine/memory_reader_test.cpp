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

TEST_F(MemoryReaderTest, IsKnownAfterTwoWaits) {
  wait_silently(2);
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

TEST_F(MemoryReaderTest, WhoPollsForEachMessageIsNone) {
  for (int i = 0; i < 100; ++i) {
    wait_silently();
    reader.on_poll(now);
  }
  wait_silently();
  EXPECT_FALSE(reader.waits());
}

TEST_F(MemoryReaderTest, OnePollNowAndThenIsNoSignAndManyInARowAre) {
  wait_silently(100);
  reader.on_poll(now);
  EXPECT_FALSE(reader.waits()) << "not before its next post";
  wait_silently();
  EXPECT_TRUE(reader.waits());
  for (int i = 0; i < 10; ++i) reader.on_poll(now);
  wait_silently(2);
  EXPECT_FALSE(reader.waits());
}

}  // namespace
}  // namespace mprdma::dataplane
