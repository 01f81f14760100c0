// The fuzzer's property over a fixed set of mutated path probes, in every build.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/prng.hpp"
#include "tests/fuzz/decode_probe_mad.hpp"

namespace mprdma::test {
namespace {

std::vector<unsigned char> seed(Prng& prng) {
  wire::ProbeMad mad;
  mad.response = prng.chance(1, 2);
  mad.transaction = prng.next_u64();
  mad.sequence = static_cast<uint32_t>(prng.next_u64());
  mad.bytes = static_cast<uint16_t>(prng.range(wire::kProbeBytesMin, wire::kProbeBytesMax));
  mad.answer_bytes = mad.response ? mad.bytes : uint16_t{wire::kProbeBytesMin};
  if (mad.response) mad.seen = {.bytes = mad.bytes, .source_port = 50'000, .hop_limit = 1};
  std::vector<unsigned char> bytes(mad.bytes);
  wire::encode_probe_mad(mad, bytes.data());
  return bytes;
}

TEST(DecodeProbeMadFuzz, MutatedDatagramsEndInAValueOrANamedDrop) {
  Prng prng(13);
  std::array<uint64_t, static_cast<size_t>(wire::MadDrop::kCount)> seen{};
  for (int i = 0; i < 20'000; ++i) {
    std::vector<unsigned char> bytes = seed(prng);
    for (uint64_t k = prng.below(4); k > 0; --k) {
      bytes[prng.below(64)] = static_cast<unsigned char>(prng.below(256));
    }
    if (prng.chance(1, 50)) bytes.resize(prng.below(4200));
    seen[static_cast<size_t>(check_decode_probe_mad(bytes))]++;
  }
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_GT(seen[i], 0u) << i;
}

}  // namespace
}  // namespace mprdma::test
