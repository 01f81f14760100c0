#include "base/window_bitmap.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/prng.hpp"

namespace mprdma {
namespace {

template <class Bitmap>
class WindowBitmapTest : public testing::Test {};
using Sizes =
    testing::Types<WindowBitmap<32>, WindowBitmap<64>, WindowBitmap<128>, WindowBitmap<256>>;
TYPED_TEST_SUITE(WindowBitmapTest, Sizes);

TYPED_TEST(WindowBitmapTest, PositionsAreTakenModuloTheSize) {
  constexpr uint32_t kSize = TypeParam::kSize;
  TypeParam map;
  map.set(0xffffff);
  EXPECT_TRUE(map.test(kSize - 1));
  EXPECT_TRUE(map.test(2 * kSize - 1));
  EXPECT_FALSE(map.test(0));
  map.clear(kSize - 1);
  EXPECT_FALSE(map.any());
}

// Compares every scan and range operation with a vector of bool, bit by bit.
TYPED_TEST(WindowBitmapTest, ScansAndRangesAgreeWithAPlainVector) {
  constexpr uint32_t kSize = TypeParam::kSize;
  Prng prng(7);
  TypeParam map;
  std::vector<bool> model(kSize);
  const auto first = [&](uint32_t pos, uint32_t len, bool wanted) {
    uint32_t distance = 0;
    while (distance < len && model[(pos + distance) % kSize] != wanted) ++distance;
    return distance;
  };
  for (int step = 0; step < 20000; ++step) {
    const auto pos = static_cast<uint32_t>(prng.below(1U << 24));
    const auto len = static_cast<uint32_t>(prng.range(0, kSize));
    // Long runs of ones and of zeros alternate, so that scans cross words.
    if (prng.chance(1, 16)) {
      map.clear_range(pos, len);
      for (uint32_t i = 0; i < len; ++i) model[(pos + i) % kSize] = false;
    } else if (prng.chance(1, 16)) {
      for (uint32_t i = 0; i < len; ++i) {
        map.set(pos + i);
        model[(pos + i) % kSize] = true;
      }
    } else {
      map.set(pos);
      model[pos % kSize] = true;
    }
    const auto from = static_cast<uint32_t>(prng.next_u64());
    ASSERT_EQ(map.next_set(from, len), first(from, len, true)) << "step " << step;
    ASSERT_EQ(map.next_clear(from, len), first(from, len, false)) << "step " << step;
    ASSERT_EQ(map.test(from), model[from % kSize]);
    ASSERT_EQ(map.count(), static_cast<uint32_t>(std::count(model.begin(), model.end(), true)));
    ASSERT_EQ(map.any(), map.count() != 0);
  }
}

TYPED_TEST(WindowBitmapTest, ScanStopsAtItsLength) {
  TypeParam map;
  map.set(10);
  EXPECT_EQ(map.next_set(5, 5), 5U);
  EXPECT_EQ(map.next_set(5, 6), 5U);
  EXPECT_EQ(map.next_set(5, 0), 0U);
  EXPECT_EQ(map.next_set(11, TypeParam::kSize), TypeParam::kSize - 1);
  map.reset();
  EXPECT_EQ(map.next_set(11, TypeParam::kSize), TypeParam::kSize);
  EXPECT_EQ(map.next_clear(11, TypeParam::kSize), 0U);
}

}  // namespace
}  // namespace mprdma
