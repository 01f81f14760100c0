// The figures of faults and cures: with the fault taken away, or the cure, a claim of the figure
// fails. So each claim rests on what it says that it rests on.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "evaluation/figure.hpp"

namespace mprdma::figures {
namespace {

struct Removal {
  const char* name;
  const char* figure;
  switchsim::Overrides changes;  // put over all cases
  std::string missed;            // a claim that fails then
};

// "irn_fct_NoSelectiveRepeat": a test of meson has those of one paper.
std::string name_of(const Removal& removal) {
  std::string name = std::string(removal.figure) + "_" + removal.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '/' || c == '-'; }, '_');
  return name;
}

class FaultOrCure : public testing::TestWithParam<Removal> {};

TEST_P(FaultOrCure, MissesAClaimWhereItIsTakenAway) {
  const Removal& removal = GetParam();
  const Figure* figure = find_figure(removal.figure);
  ASSERT_NE(figure, nullptr);
  RunOptions options;
  options.size = Size::kCi;
  options.changes = removal.changes;
  const FigureResult result = figure->run(*figure, options);
  const auto found = std::find_if(result.claims.begin(), result.claims.end(),
                                  [&](const Claim& claim) { return claim.id == removal.missed; });
  ASSERT_NE(found, result.claims.end()) << removal.missed;
  ASSERT_TRUE(found->value.has_value());
  EXPECT_EQ(found->standing, Standing::kAsserted);
  EXPECT_FALSE(found->ok()) << removal.missed << ": " << *found->value << ", " << found->target;
}

INSTANTIATE_TEST_SUITE_P(
    All, FaultOrCure,
    testing::Values(
        Removal{"NoPacketIsDropped",
                "rocescale/livelock",
                {"link[bottleneck].drop_every=0"},
                "livelock.go-back-0.send.messages"},
        Removal{"GoBack0Everywhere",
                "rocescale/livelock",
                {"transport.preset=roce-gb0"},
                "livelock.go-back-n.send.goodput"},
        Removal{"NoSelectiveRepeatOfTheLivelock",
                "rocescale/livelock",
                {"transport.preset=roce"},
                "livelock.irn.send.goodput"},
        Removal{"NothingIsFlooded",
                "rocescale/deadlock",
                {"topology.flood=false"},
                "deadlock.flooding.deadlock"},
        Removal{"AllIsFlooded",
                "rocescale/deadlock",
                {"topology.flood=true"},
                "deadlock.dropped.deadlock"},
        Removal{"NoStorm", "rocescale/storm", {"event[0].pausing=false"}, "storm.none.blocked"},
        Removal{"AStormFromTheBeginning",
                "rocescale/storm",
                {"event[0].at_us=3_000"},
                "storm.none.before"},
        Removal{
            "NoWatchdogAtTheNic", "rocescale/storm", {"nic_watchdog_us=0"}, "storm.nic.blocked"},
        Removal{"NoWatchdogAtTheSwitch",
                "rocescale/storm",
                {"switch_watchdog_us=0"},
                "storm.switch.blocked"},
        Removal{"NoMisses",
                "rocescale/slow-receiver",
                {"receiver[0].miss_us=0"},
                "slow-receiver.static.nic"},
        Removal{"SmallPagesEverywhere",
                "rocescale/slow-receiver",
                {"receiver[0].page_bytes=4096"},
                "slow-receiver.pages.nic"},
        Removal{"AShareForEachIngress",
                "rocescale/slow-receiver",
                {"topology.pause_bytes=100_000"},
                "slow-receiver.dynamic.tor"},
        Removal{"AWideShare",
                "rocescale/slow-receiver",
                {"topology.buffer_alpha=0.0625"},
                "slow-receiver.narrow.tor"},
        Removal{
            "OnePathForAll", "rocescale/ecmp", {"transport.preset=roce"}, "ecmp.mp-1.utilisation"},
        Removal{
            "AllPathsForAll", "rocescale/ecmp", {"transport.preset=mp"}, "ecmp.roce-1.utilisation"},
        Removal{"MarksThatComeLate",
                "rocescale/latency",
                {"topology.red=[0.01, 5_000, 200_000]"},
                "latency.mp.against-roce"},
        Removal{"NoShuffle", "rocescale/latency", {"traffic[0].stop_us=0"}, "latency.roce.rise"},
        Removal{"BoundedWindows",
                "article/fairness",
                {"transport.preset=irn"},
                "fairness.pfc.advantage"},
        Removal{
            "NoControl", "article/fairness", {"transport.preset=roce"}, "fairness.mp.imbalance"},
        Removal{"ABusyPortForAll", "article/hol", {"flow[flow2].to=out1"}, "hol.mp.victim"},
        Removal{"NoPathsForAll",
                "article/hol",
                {"transport.preset=roce", "topology.pfc=true", "topology.pause_bytes=100_000",
                 "link[egress1].ab.red=false", "link[ingress2].ab.red=false"},
                "hol.mp.victim"},
        Removal{"NoPauseOfTheVictim",
                "article/hol",
                {"topology.pfc=true", "topology.pause_bytes=100_000_000"},
                "hol.pfc.victim"},
        Removal{"NoPauseOfThreeFlows",
                "article/fairness",
                {"topology.pfc=true", "topology.pause_bytes=100_000_000"},
                "fairness.pfc.advantage"},
        Removal{"NoBusyPort", "article/hol", {"link[egress1].rate_gbps=400"}, "hol.pfc.victim"},
        Removal{"NothingIsDroppedForLackOfRoom",
                "article/pause",
                {"link[egress1].queue_bytes=100_000_000", "link[ingress2].queue_bytes=100_000_000"},
                "pause.none.drops"},
        Removal{
            "NoPauseIsGlobal",
            "article/pause",
            {"topology.pfc=true", "topology.pause_bytes=100_000", "topology.global_pause=false"},
            "pause.global.other"},
        Removal{"ClassesSurviveTheRouter",
                "article/pause",
                {"topology.pfc=true", "topology.pause_bytes=100_000", "topology.priority=dscp"},
                "pause.pcp.drops"},
        Removal{"OneClass", "article/pause", {"flow[flow2].lossless=true"}, "pause.dscp.other"},
        Removal{"EveryPauseIsGlobal",
                "article/pause",
                {"topology.pfc=true", "topology.pause_bytes=100_000", "topology.global_pause=true"},
                "pause.dscp.other"},
        Removal{"ABufferWithoutLimit",
                "article/bdp",
                {"topology.switch_buffer_bytes=0"},
                "bdp.unbounded.drops"},
        Removal{"NoSelectiveRepeat", "irn/fct", {"transport.preset=roce"}, "fct.none.ratio"},
        Removal{"NoSelectiveRepeatOfTheSweep",
                "irn/sweep",
                {"transport.preset=roce"},
                "sweep.rate-10.fct"},
        Removal{"NoSelectiveRepeatOfTheTail",
                "irn/tail",
                {"transport.preset=roce", "traffic[0].stop_us=2_000"},
                "tail.none.ratio"},
        Removal{"NoSelectiveRepeatOfTheSlowdown",
                "irn/slowdown",
                {"transport.preset=roce"},
                "slowdown.none.ratio"},
        Removal{"NoMarksForDcqcn",
                "article/fairness",
                {"link[egress1].ab.red=false", "link[ingress2].ab.red=false"},
                "fairness.dcqcn.advantage"},
        Removal{"PausesForSelectiveRepeat",
                "article/fairness",
                {"transport.preset=roce", "topology.pfc=true", "topology.pause_bytes=100_000"},
                "fairness.irn.advantage"},
        Removal{"NoMarksForTheVictim",
                "article/hol",
                {"link[egress1].ab.red=false", "link[ingress2].ab.red=false"},
                "hol.dcqcn.victim"},
        Removal{"PausesForTheVictim",
                "article/hol",
                {"transport.preset=roce", "topology.pfc=true", "topology.pause_bytes=100_000"},
                "hol.irn.victim"},
        Removal{"NoSelectiveRepeatWithoutPauses",
                "irn/pfc",
                {"transport.preset=roce", "traffic[0].stop_us=2_000"},
                "pfc.irn.none.fct"},
        Removal{"PausesForAll",
                "article/fairness",
                {"topology.pfc=true", "topology.pause_bytes=100_000"},
                "fairness.none.drops"},
        Removal{
            "NothingIsDropped", "irn/pfc", {"topology.queue_bytes=unlimited"}, "pfc.roce.none.fct"},
        Removal{"NoCapOfBdp", "article/bdp", {"transport.initial_window=64"}, "bdp.640.drops"},
        Removal{"ThePatchEverywhere",
                "article/timely",
                {"transport.congestion=timely-patched"},
                "timely.timely.eight.jain"},
        Removal{"ThePatchOfTheFixPoint",
                "article/timely",
                {"transport.congestion=timely-patched"},
                "timely.timely.moved"},
        Removal{"TimelyOfTheFixPoint",
                "article/timely",
                {"transport.congestion=timely"},
                "timely.dcqcn.moved"},
        Removal{"ThePatchForDcqcn",
                "article/timely",
                {"transport.congestion=timely-patched"},
                "timely.dcqcn.growth"},
        Removal{"DcqcnForAll",
                "article/timely",
                {"transport.congestion=dcqcn-paper", "topology.red=[0.01, 5_000, 200_000]"},
                "timely.patched.growth"},
        Removal{"TimelyForAll",
                "article/timely",
                {"transport.congestion=timely"},
                "timely.dcqcn.eight.jain"},
        Removal{"CreditsBeyondTheBuffer",
                "article/credits",
                {"traffic[many].rpc_credits=32"},
                "credits.many.8.drops"},
        Removal{"CreditsForEveryCase",
                "article/credits",
                {"traffic[many].rpc_credits=8"},
                "credits.one.32.ceiling"},
        Removal{"NoLimitOfTheBuffer",
                "article/credits",
                {"topology.switch_buffer_bytes=0"},
                "credits.many.32.drops"},
        Removal{"NoRequestIsLost",
                "article/credits",
                {"link[bottleneck].ab.loss=0"},
                "credits.loss.ud-1e-3.goodput"},
        Removal{"LongTimeouts",
                "article/credits",
                {"traffic[many].rpc_timeout_us=5_000"},
                "credits.loss.fast.goodput"}),
    [](const auto& one) { return name_of(one.param); });

}  // namespace
}  // namespace mprdma::figures
