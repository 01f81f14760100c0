// The fuzzer's property over a fixed set of random programmes, in every build.
#include "tests/fuzz/cm_agent.hpp"

#include <gtest/gtest.h>

#include "base/prng.hpp"

namespace mprdma::test {
namespace {

TEST(CmAgentFuzz, RandomProgrammesOfClientsAndPeersKeepWithinTheLimits) {
  Prng prng(22);
  CmProgramme::Seen all;
  for (int i = 0; i < 500; ++i) {
    std::vector<unsigned char> bytes(200 + prng.below(6000));
    for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(prng.next_u64());
    const CmProgramme::Seen seen = check_cm_programme(bytes);
    all.accepted += seen.accepted;
    all.refused += seen.refused;
    all.mads += seen.mads;
    all.events += seen.events;
  }
  EXPECT_GT(all.accepted, 1000u);
  EXPECT_GT(all.refused, 1000u);
  EXPECT_GT(all.mads, 50u);
  EXPECT_GT(all.events, 200u);
}

}  // namespace
}  // namespace mprdma::test
