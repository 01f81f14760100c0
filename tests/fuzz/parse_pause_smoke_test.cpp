// The fuzzer's property over a fixed set of mutated pauses, in every build.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/prng.hpp"
#include "tests/fuzz/parse_pause.hpp"

namespace mprdma::test {
namespace {

std::vector<unsigned char> seed(Prng& prng) {
  const auto quanta = static_cast<uint16_t>(prng.below(0x10000));
  wire::PauseFrame pause = wire::PauseFrame::of_link(quanta);
  if (prng.chance(2, 3)) {
    pause = wire::PauseFrame::pfc(static_cast<uint8_t>(prng.below(256)), quanta);
  }
  std::vector<unsigned char> bytes(wire::kMinFrameBytes);
  pause.store({0x02, 0, 0, 0, 0, 1}, bytes.data());
  return bytes;
}

TEST(ParsePauseFuzz, MutatedFramesEndInAPauseOrANamedDrop) {
  Prng prng(12);
  std::array<uint64_t, static_cast<size_t>(wire::PauseDrop::kCount)> seen{};
  for (int i = 0; i < 50'000; ++i) {
    std::vector<unsigned char> bytes = seed(prng);
    for (uint64_t k = prng.below(3); k > 0; --k) {
      bytes[prng.below(40)] = static_cast<unsigned char>(prng.below(256));
    }
    if (prng.chance(1, 20)) bytes.resize(prng.below(64));
    seen[static_cast<size_t>(check_parse_pause(bytes))]++;
  }
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_GT(seen[i], 0u) << i;
}

}  // namespace
}  // namespace mprdma::test
