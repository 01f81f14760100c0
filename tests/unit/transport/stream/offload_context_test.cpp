#include "transport/stream/offload_context.hpp"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

#include "base/prng.hpp"
#include "tests/support/page.hpp"

namespace mprdma::transport {
namespace {

TEST(OffloadContext, EveryFieldSurvivesPackingAndNoneRunsIntoAnother) {
  Prng prng(1);
  const auto draw = [&](auto& value, size_t bytes) {
    using Value = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<Value, PsnMap>) {
      for (uint64_t& word : value.words) word = prng.next_u64();
    } else {
      value = static_cast<Value>(prng.next_u64() >> (64 - 8 * bytes));
    }
  };
  for (int i = 0; i < 100; ++i) {
    OffloadContext context;
#define DRAW(name, type, bytes, what) draw(context.name, bytes);
    MPRDMA_OFFLOAD_CONTEXT(DRAW)
#undef DRAW
    const auto packed = context.pack();
    EXPECT_EQ(OffloadContext::unpack(packed), context);
    EXPECT_EQ(packed.size(), OffloadContext::kBytes);
  }
}

TEST(OffloadContext, BytesAreLittleEndianInTheOrderOfTheList) {
  OffloadContext context;
  context.window_raw = 0x04030201;
  context.owed_raw = 0x070605;
  context.received_high = uint64_t{0x99} << 56;
  const auto packed = context.pack();
  for (uint8_t i = 0; i < 7; ++i) EXPECT_EQ(packed[i], i + 1);
  EXPECT_EQ(packed.back(), 0x99);
}

// A failure prints the rows that the page should hold.
TEST(OffloadContext, IsItemisedInTheDocument) {
  Page page("algorithms.md");
#define ROW(name, type, bytes, what) page.want("| `" #name "` | " #bytes " | " what " |");
  MPRDMA_OFFLOAD_CONTEXT(ROW)
#undef ROW
  page.want("| **all** | **" + std::to_string(OffloadContext::kBytes) + "** | |");
  EXPECT_EQ(page.missing(), "");
}

}  // namespace
}  // namespace mprdma::transport
