// The fuzzer's property over a fixed set of random programmes, in every build; also with a peer
// that writes while the owner reads.
#include "tests/fuzz/local_ring.hpp"

#include <gtest/gtest.h>

#include "base/prng.hpp"

namespace mprdma::test {
namespace {

TEST(LocalRingFuzz, RandomProgrammesOfAPeerEndInFramesOrCountedDrops) {
  Prng prng(21);
  uint64_t taken = 0;
  uint64_t malformed = 0;
  unsigned violated = 0;
  for (int i = 0; i < 300; ++i) {
    std::vector<unsigned char> bytes(100 + prng.below(3000));
    for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(prng.next_u64());
    const RingProgramme::Seen seen = check_ring_programme(bytes);
    taken += seen.taken;
    malformed += seen.malformed;
    violated += seen.violated ? 1 : 0;
  }
  EXPECT_GT(taken, 100u);
  EXPECT_GT(malformed, 100u);
  EXPECT_GT(violated, 10u);
}

}  // namespace
}  // namespace mprdma::test
