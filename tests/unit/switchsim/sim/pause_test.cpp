// PFC under the real transport: the keys of a scenario, and their effect on the result.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "switchsim/model/buffer_layout.hpp"
#include "switchsim/sim/result/result_json.hpp"
#include "switchsim/sim/scenario/scenario_toml.hpp"
#include "switchsim/sim/simulation.hpp"

namespace mprdma::switchsim {
namespace {

// Eight to one without ECN, into a buffer of 400 KB: more than it holds, unless somebody is paused.
constexpr char kIncast[] = R"(
name = "incast"
duration_us = 5_000
sample_us = 500
end_when_idle = true
[topology]
kind = "dumbbell"
pairs = 8
red = false
switch_buffer_bytes = 400_000
pfc = true
[[flow]]
from = "l1..l8"
to = "r1"
message_bytes = 500_000
messages = 1
)";

Result run_incast(const Overrides& overrides = {}) {
  Scenario scenario;
  EXPECT_EQ(parse_scenario(kIncast, "s.toml", overrides, &scenario).text, "");
  return simulate(scenario);
}

uint64_t drops(const Result& result) {
  uint64_t sum = 0;
  for (const PortResult& port : result.ports) {
    sum += port.total.drop_queue + port.total.drop_buffer;
  }
  return sum;
}

uint64_t pauses(const Result& result) {
  uint64_t sum = 0;
  for (const PortResult& port : result.ports) sum += port.pause_sent;
  return sum;
}

std::string bytes_of(const Result& result) {
  return to_json(result, Scenario{}, "test", "revision", true).dump() + flows_csv(result) +
         ports_csv(result);
}

// Both tables describe the same work: one flow for each sender.
std::string incast_of_traffic() {
  std::string text = kIncast;
  const std::string table = "[[flow]]";
  return text.replace(text.find(table), table.size(), "[[traffic]]\nkind = \"incast\"");
}

TEST(Pause, TrafficLosesNothingEither) {
  Scenario flows;
  Scenario traffic;
  ASSERT_EQ(parse_scenario(kIncast, "s.toml", {}, &flows).text, "");
  ASSERT_EQ(parse_scenario(incast_of_traffic(), "s.toml", {}, &traffic).text, "");
  EXPECT_EQ(traffic.topology.pfc, flows.topology.pfc);
  const Result result = simulate(traffic);
  EXPECT_GT(pauses(result), 0U);
  EXPECT_EQ(drops(result), 0U);
  EXPECT_EQ(result.retransmitted(), 0U);
}

TEST(Pause, AnIncastLosesNothingAndEveryPortTellsHowLongItWasPaused) {
  const Result result = run_incast();
  EXPECT_TRUE(result.errors.empty());
  EXPECT_EQ(drops(result), 0U);
  EXPECT_EQ(result.retransmitted(), 0U);
  const PortResult& nic = *result.port_named("l1.ab");
  EXPECT_GT(nic.pause_sent, 0U);
  EXPECT_GT(nic.paused_share, 0.2);
  EXPECT_LT(nic.paused_share, 1.0);
  EXPECT_GT(nic.headroom_peak_bytes, 0U);
  EXPECT_GT(nic.pause_sent_series.back(), 0U);
  EXPECT_LE(nic.pause_sent_series.back(), nic.pause_sent);
  EXPECT_EQ(result.port_named("r1.ab")->pause_sent, 0U);  // acknowledgements only
  const auto json = to_json(result, Scenario{}, "test", "revision", true);
  EXPECT_EQ(json["ports"][0]["pause_sent"], nic.pause_sent);
  EXPECT_NE(ports_csv(result).find("l1.ab.pause_sent,l1.ab.paused_share"), std::string::npos);
}

TEST(Pause, WithoutPfcTheSameIncastLosesPacketsAndNothingIsSaidOfPauses) {
  const Result result = run_incast({"topology.pfc=false"});
  EXPECT_GT(drops(result), 0U);
  EXPECT_GT(result.retransmitted(), 0U);
  EXPECT_EQ(bytes_of(result).find("pause_sent"), std::string::npos);
}

TEST(Pause, WithTooLittleHeadroomPacketsAreLost) {
  EXPECT_GT(drops(run_incast({"topology.headroom_bytes=2000"})), 0U);
  EXPECT_EQ(drops(run_incast({"topology.headroom_bytes=hpcc"})), 0U);
}

TEST(Pause, TheSameScenarioGivesTheSameBytes) {
  EXPECT_EQ(bytes_of(run_incast()), bytes_of(run_incast()));
}

// ECN keeps the queues short, so PFC never acts and changes no packet.
TEST(Pause, WhereNobodyIsPausedNothingChanges) {
  const Overrides marked = {"topology.red=[1.0, 20_000, 40_000]", "topology.switch_buffer_bytes=0",
                            "flow[0].to=r1..r8", "topology.bottleneck_gbps=100"};
  Overrides with = marked;
  with[1] = "topology.switch_buffer_bytes=12_000_000";
  Overrides without = marked;
  without.push_back("topology.pfc=false");
  const Result paused = run_incast(with);
  EXPECT_EQ(pauses(paused), 0U);
  const Result plain = run_incast(without);
  EXPECT_GT(plain.port_named("bottleneck.ab")->total.marked, 0U);
  EXPECT_EQ(flows_csv(paused), flows_csv(plain));
  EXPECT_EQ(paused.packet_hops, plain.packet_hops);
}

// ---- The keys

Topology parsed(const Overrides& overrides) {
  Scenario scenario;
  EXPECT_EQ(parse_scenario(kIncast, "s.toml", overrides, &scenario).text, "");
  return scenario.topology;
}

TEST(Pause, OneKeyIsEnoughAndTheOthersChangeWhatItMeans) {
  const Topology plain = parsed({});
  EXPECT_TRUE(plain.pfc.on);
  EXPECT_EQ(plain.switch_buffer_bytes, 400'000U);
  EXPECT_EQ(plain.reserve_bytes, 4096U);
  EXPECT_EQ(plain.buffer_alpha_q16, 65536U / 8);
  EXPECT_EQ(plain.pfc.headroom, Headroom::kAuto);
  EXPECT_EQ(plain.pfc.hysteresis_bytes, 3000U);
  // No packet of these flows is longer than the two that the headroom counts with.
  EXPECT_GE(plain.pfc.mtu_bytes, data_wire_bytes(FlowOperation::kWrite, 1024));
  EXPECT_LT(plain.pfc.mtu_bytes, 1200U);
  const Topology other =
      parsed({"topology.buffer_alpha=0.5", "topology.reserve_bytes=0", "topology.pause_bytes=9000",
              "topology.hysteresis_bytes=1000", "topology.headroom_bytes=20_000"});
  EXPECT_EQ(other.buffer_alpha_q16, 32768U);
  EXPECT_EQ(other.reserve_bytes, 0U);
  EXPECT_EQ(other.pfc,
            (PfcConfig{true, 9000, 1000, Headroom::kBytes, 20'000, plain.pfc.mtu_bytes}));
  const Topology off = parsed({"topology.pfc=false"});
  EXPECT_FALSE(managed(off));
  EXPECT_EQ(off.switch_buffer_bytes, 400'000U);
}

TEST(Pause, AMistakeIsNamedWithFileLineAndKey) {
  struct Case {
    const char* line;  // in place of `pfc = true`
    const char* expected;
  };
  const Case cases[] = {
      {"pfc = 1", "s.toml:11:7: [topology] pfc: expected true or false"},
      {"pfc = true\nheadroom_bytes = \"much\"",
       "s.toml:12:18: [topology] headroom_bytes: expected a whole number of bytes, \"auto\" or"},
      {"pfc = true\nheadroom_bytes = -1", "s.toml:12:18: [topology] headroom_bytes: expected a"},
      {"headroom_bytes = \"auto\"", "s.toml:11:18: [topology] headroom_bytes: expected pfc = true"},
      {"pause_bytes = 5000", "s.toml:11:15: [topology] pause_bytes: expected pfc = true with it"},
      {"buffer_alpha = 65", "s.toml:11:16: [topology] buffer_alpha: expected a number in 0..64"},
      {"buffer_alpha = 0", "s.toml:11:16: [topology] buffer_alpha: expected above 0"},
      {"reserve_bytes = 0.5", "s.toml:11:17: [topology] reserve_bytes: expected a whole number"},
      {"pfc = true\nheadroom_bytes = 50_000",
       "s.toml:10:23: [topology] switch_buffer_bytes: a switch's reserves and headroom"},
  };
  for (const Case& c : cases) {
    std::string text = kIncast;
    const std::string found = "pfc = true";
    text.replace(text.find(found), found.size(), c.line);
    Scenario scenario;
    const std::string error = parse_scenario(text, "s.toml", {}, &scenario).text;
    EXPECT_EQ(error.substr(0, std::string(c.expected).size()), c.expected) << error;
  }
  Scenario scenario;
  EXPECT_NE(parse_scenario(kIncast, "s.toml", {"topology.switch_buffer_bytes=0"}, &scenario)
                .text.find("switch_buffer_bytes: expected above 0 with pfc, or pause_bytes"),
            std::string::npos);
  EXPECT_EQ(
      parse_scenario(kIncast, "s.toml",
                     {"topology.switch_buffer_bytes=0", "topology.pause_bytes=50_000"}, &scenario)
          .text,
      "");
}

}  // namespace
}  // namespace mprdma::switchsim
