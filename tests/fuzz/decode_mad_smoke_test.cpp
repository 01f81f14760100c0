// The fuzzer's property over a fixed set of mutated management datagrams, in every build.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/prng.hpp"
#include "tests/fuzz/decode_mad.hpp"

namespace mprdma::test {
namespace {

std::vector<unsigned char> seed(Prng& prng) {
  wire::PairMad mad;
  mad.response = prng.chance(1, 2);
  mad.transaction = prng.next_u64();
  mad.info = {.ordered = prng.chance(1, 2),
              .abilities = 0x2e,
              .window_slots = static_cast<uint16_t>(8u << prng.below(5)),
              .sender_qpn = Qpn(static_cast<uint32_t>(prng.below(1 << 24))),
              .receiver_qpn = Qpn(static_cast<uint32_t>(prng.below(1 << 24)))};
  std::vector<unsigned char> bytes(wire::kMadBytes);
  wire::encode_pair_mad(mad, std::span<unsigned char, wire::kMadBytes>(bytes));
  return bytes;
}

TEST(DecodeMadFuzz, MutatedDatagramsEndInAValueOrANamedDrop) {
  Prng prng(11);
  std::array<uint64_t, static_cast<size_t>(wire::MadDrop::kCount)> seen{};
  for (int i = 0; i < 50'000; ++i) {
    std::vector<unsigned char> bytes = seed(prng);
    for (uint64_t k = prng.below(4); k > 0; --k) {
      bytes[prng.below(64)] = static_cast<unsigned char>(prng.below(256));
    }
    if (prng.chance(1, 50)) bytes.resize(prng.below(300));
    seen[static_cast<size_t>(check_decode_mad(bytes))]++;
  }
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_GT(seen[i], 0u) << i;
}

}  // namespace
}  // namespace mprdma::test
