// Small synchronise messages where their delay is too short: over paths that another connection
// fills as well. The delay is to save time, not to cost more than waiting for the acknowledgements.
#include <gtest/gtest.h>

#include "tests/unit/switchsim/sim/scenarios.hpp"

namespace mprdma::switchsim {
namespace {

Result beside_another(transport::SyncPolicy policy, uint64_t seed) {
  Scenario scenario;
  make_testbed({.servers = 2, .path_rate = LinkRate::gbps(10)}, &scenario);
  transport::Params params = transport::Params::mp();
  params.placement = transport::PlacementPolicy::kRelaxed;
  params.sync_policy = policy;
  FlowSpec small = flow_between(scenario, "a1", "b1", params);
  small.message_bytes = 8192;
  small.post_depth = 64;
  small.synchronise_ppm = 1'000'000;
  scenario.flows = {small, flow_between(scenario, "a2", "b2", params)};
  scenario.duration = SimSpan::ms(12);
  scenario.warm_up = SimSpan::ms(2);
  scenario.seed = seed;
  return simulate(scenario);
}

TEST(SynchroniseBesideAnother, MessagesThatCameTooEarlyDoNotFillTheNetwork) {
  uint64_t too_early = 0;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const Result result = beside_another(transport::SyncPolicy::kOptimistic, seed);
    const transport::StreamStats& sender = result.flows[0].stats;
    too_early += sender.retransmitted_sync;
    EXPECT_LT(sender.retransmitted, sender.packets_sent / 20) << "seed " << seed;
    const Result waiting = beside_another(transport::SyncPolicy::kStopAndWait, seed);
    EXPECT_GT(result.flows[0].goodput_bps, waiting.flows[0].goodput_bps) << "seed " << seed;
  }
  EXPECT_GT(too_early, 0U) << "else this shows nothing";
}

}  // namespace
}  // namespace mprdma::switchsim
