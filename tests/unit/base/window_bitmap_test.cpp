#include "base/window_bitmap.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/prng.hpp"

namespace mprdma {
namespace {

class WindowBitmapTest : public testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, WindowBitmapTest, testing::Values(8, 32, 64, 128, 256, 512, 4096));

TEST_P(WindowBitmapTest, PositionsAreTakenModuloTheSize) {
  const uint32_t size = GetParam();
  WindowBitmap map(size);
  map.set(0xffffff);
  EXPECT_TRUE(map.test(size - 1));
  EXPECT_TRUE(map.test(2 * size - 1));
  EXPECT_FALSE(map.test(0));
  map.clear(size - 1);
  EXPECT_FALSE(map.any());
}

// Compares every scan and range operation with a vector of bool, bit by bit.
TEST_P(WindowBitmapTest, ScansAndRangesAgreeWithAPlainVector) {
  const uint32_t size = GetParam();
  Prng prng(7);
  WindowBitmap map(size);
  std::vector<bool> model(size);
  const auto first = [&](uint32_t pos, uint32_t len, bool wanted) {
    uint32_t distance = 0;
    while (distance < len && model[(pos + distance) % size] != wanted) ++distance;
    return distance;
  };
  for (int step = 0; step < 20000; ++step) {
    const auto pos = static_cast<uint32_t>(prng.below(1U << 24));
    const auto len = static_cast<uint32_t>(prng.range(0, size));
    // Long runs of ones and of zeros alternate, so that scans cross words.
    if (prng.chance(1, 16)) {
      map.clear_range(pos, len);
      for (uint32_t i = 0; i < len; ++i) model[(pos + i) % size] = false;
    } else if (prng.chance(1, 16)) {
      for (uint32_t i = 0; i < len; ++i) {
        map.set(pos + i);
        model[(pos + i) % size] = true;
      }
    } else {
      map.set(pos);
      model[pos % size] = true;
    }
    const auto from = static_cast<uint32_t>(prng.next_u64());
    ASSERT_EQ(map.next_set(from, len), first(from, len, true)) << "step " << step;
    ASSERT_EQ(map.next_clear(from, len), first(from, len, false)) << "step " << step;
    ASSERT_EQ(map.test(from), model[from % size]);
    const uint64_t bits = map.next_64(from);
    for (uint32_t i = 0; i < 64; ++i) {
      ASSERT_EQ((bits >> i & 1) != 0, model[(from + i) % size]) << "step " << step << ", bit " << i;
    }
    ASSERT_EQ(map.count(), static_cast<uint32_t>(std::count(model.begin(), model.end(), true)));
    ASSERT_EQ(map.any(), map.count() != 0);
  }
}

TEST_P(WindowBitmapTest, ScanStopsAtItsLength) {
  const uint32_t size = GetParam();
  WindowBitmap map(size);
  map.set(10);
  EXPECT_EQ(map.next_set(5, 5), 5U);
  EXPECT_EQ(map.next_set(5, 6), 5U);
  EXPECT_EQ(map.next_set(5, 0), 0U);
  EXPECT_EQ(map.next_set(11, size), size - 1);
  map.reset();
  EXPECT_EQ(map.next_set(11, size), size);
  EXPECT_EQ(map.next_clear(11, size), 0U);
}

TEST_P(WindowBitmapTest, ACopyIsAMapOfItsOwn) {
  WindowBitmap map(GetParam());
  map.set(3);
  WindowBitmap copy = map;
  copy.set(5);
  map.clear(3);
  EXPECT_TRUE(copy.test(3));
  EXPECT_FALSE(map.any());
  map = copy;
  copy.reset();
  EXPECT_EQ(map.count(), 2U);
  const WindowBitmap moved = std::move(map);
  EXPECT_TRUE(moved.test(5));
}

}  // namespace
}  // namespace mprdma
