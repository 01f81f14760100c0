// Flows of the mode `roce` in the simulator: go-back-N on one path, with and without a rate.
#include <gtest/gtest.h>

#include <string>

#include "switchsim/sim/result/result_json.hpp"
#include "switchsim/sim/scenario/scenario_toml.hpp"
#include "tests/unit/switchsim/sim/scenarios.hpp"

namespace mprdma::switchsim {
namespace {

using transport::Congestion;
using transport::Params;

constexpr FlowOperation kOperations[] = {FlowOperation::kWrite, FlowOperation::kSend,
                                         FlowOperation::kRead};

// Two directions at once, all operations; ends when all is done.
Scenario messages(const Params& params) {
  Scenario scenario;
  make_testbed({.red = {.kmin_bytes = 20'000, .kmax_bytes = 40'000}}, &scenario);
  for (int i = 0; i < 6; ++i) {
    const std::string number = std::to_string(i % 5 + 1);
    const bool forth = i % 2 == 0;
    FlowSpec flow =
        flow_between(scenario, (forth ? "a" : "b") + number, (forth ? "b" : "a") + number, params);
    flow.name = "flow" + std::to_string(i);
    flow.operation = kOperations[i % 3];
    flow.message_bytes = 200'001;
    flow.messages = 10;
    flow.timeout = 8;
    scenario.flows.push_back(flow);
  }
  scenario.duration = SimSpan::ms(500);
  scenario.end_when_idle = true;
  return scenario;
}

void expect_all_delivered(const Scenario& scenario) {
  const Result result = simulate(scenario);
  for (const std::string& error : result.errors) ADD_FAILURE() << error;
  for (const FlowResult& flow : result.flows) {
    EXPECT_EQ(flow.delivered_bytes, 2'000'010U) << flow.name;
    EXPECT_EQ(flow.completed_bytes, 2'000'010U) << flow.name;
  }
}

TEST(RoceFlows, DeliverEachByteOnce) {
  expect_all_delivered(messages(Params::roce()));
  expect_all_delivered(messages(Params::roce_with(Congestion::kDcqcnPaper)));
  expect_all_delivered(messages(Params::roce_with(Congestion::kDcqcnTuned)));
  expect_all_delivered(messages(Params::roce_with(Congestion::kTimelyPatched)));
}

TEST(RoceFlows, DeliverEachByteOnceWhenPathsLosePackets) {
  for (const Congestion congestion : {Congestion::kNone, Congestion::kDcqcnPaper}) {
    Scenario scenario = messages(Params::roce_with(congestion));
    for (const LinkId path : scenario.paths) {
      scenario.topology.links[path].ab.loss_ppm = 5'000;
      scenario.topology.links[path].ba.loss_ppm = 5'000;
    }
    expect_all_delivered(scenario);
  }
}

// The last packet needs no window, so: all packets on the slowest link, and once over each hop.
TEST(RoceFlows, ALoneMessageTakesWhatItsPacketsTake) {
  Scenario scenario = lone_message(1'024'000);
  scenario.flows[0].params = Params::roce_with(Congestion::kDcqcnPaper);
  const Result result = simulate(scenario);
  ASSERT_EQ(result.flows[0].messages_completed, 1U);
  const uint32_t wire = data_wire_bytes(FlowOperation::kWrite, 1024, transport::Protocol::kRoce);
  const double bytes_us = 1000.0 * wire * 8 / 40e3;
  const double took_us = static_cast<double>(result.flows[0].messages[0].fct().count_ps()) / 1e6;
  EXPECT_NEAR(took_us - bytes_us, 12, 0.5) << "beyond the packets, one round trip";
  EXPECT_EQ(result.flows[0].transport, "dcqcn-paper");
}

TEST(RoceFlows, OnePathEachWhichMayBeChosen) {
  Scenario scenario = permutation(Params::roce());
  scenario.flows[0].pinned_link = scenario.link("path3");
  const Result result = simulate(scenario);
  EXPECT_GT(result.flows[0].path_bytes[2], 0U);
  for (const FlowResult& flow : result.flows) {
    uint32_t used = 0;
    for (const uint64_t bytes : flow.path_bytes) used += bytes > 0 ? 1 : 0;
    EXPECT_EQ(used, 1U) << flow.name;
    EXPECT_EQ(flow.ooo.max(), 0U) << "one path does not reorder";
  }
  Scenario other = scenario;
  other.seed = 2;
  EXPECT_EQ(simulate(scenario).goodput_bps, result.goodput_bps);
  EXPECT_NE(simulate(other).goodput_bps, result.goodput_bps) << "other paths are drawn";
}

// Each loss costs all packets under way: at 1 % loss, with a window that fills the path, they are
// most of the traffic.
TEST(RoceFlows, GoBackNWastesWhatIsBehindALoss) {
  Scenario scenario = permutation(Params::roce());
  scenario.flows.resize(1);
  scenario.flows[0].timeout = 8;
  scenario.flows[0].pinned_link = scenario.link("path1");
  scenario.topology.links[scenario.link("path1")].ab.loss_ppm = 10'000;
  const Result result = simulate(scenario);
  const FlowResult& flow = result.flows[0];
  EXPECT_GT(flow.stats.retransmitted_nack, 0U);
  EXPECT_GT(flow.receiver.drop_out_of_sequence, flow.packets_received / 5);
  EXPECT_GT(flow.ooo.max(), 20U);
  EXPECT_LT(flow.goodput_bps, 0.8 * result.ceiling_bps);
}

TEST(RoceFlows, DcqcnSharesABottleneckWithoutLoss) {
  Scenario scenario;
  make_dumbbell(
      {.pairs = 2, .red = {.kmin_bytes = 5'000, .kmax_bytes = 200'000, .pmax_ppm = 10'000}},
      &scenario);
  for (const char* number : {"1", "2"}) {
    scenario.flows.push_back(flow_between(scenario, std::string("l") + number,
                                          std::string("r") + number,
                                          Params::roce_with(Congestion::kDcqcnPaper)));
  }
  // alpha falls in 14 ms; until then the cuts are deep.
  scenario.duration = SimSpan::ms(60);
  scenario.warm_up = SimSpan::ms(40);
  const Result result = simulate(scenario);
  EXPECT_GT(result.goodput_bps, 0.95 * result.ceiling_bps);
  EXPECT_GT(result.jain, 0.95);
  EXPECT_EQ(result.retransmitted(), 0U);
  for (const FlowResult& flow : result.flows) {
    EXPECT_GT(flow.receiver.cnps_sent, 0U);
    EXPECT_EQ(flow.sender.cnps_received, flow.receiver.cnps_sent);
    EXPECT_GT(flow.stats.rate_bps, 0U);
  }
}

std::string parse(const std::string& transport, Scenario* out) {
  return parse_scenario("[topology]\nkind = \"dumbbell\"\n[[flow]]\nfrom = \"l1\"\nto = \"r1\"\n" +
                            ("[flow.transport]\n" + transport),
                        "s.toml", {}, out)
      .text;
}

TEST(RoceFlows, AreAskedForInToml) {
  Scenario scenario;
  const auto params = [&] { return scenario.flows[0].params; };
  ASSERT_EQ(parse("preset = \"roce\"\nwindow_max = 1000\n", &scenario), "");
  EXPECT_EQ(params().protocol, transport::Protocol::kRoce);
  EXPECT_EQ(params().window_max, 1000U);
  EXPECT_EQ(transport_name(params()), "roce");
  ASSERT_EQ(parse("mode = \"roce\"\nwindow_max = 16\n", &scenario), "");
  EXPECT_EQ(params().window_max, 16U);
  ASSERT_EQ(parse("mode = \"roce\"\ncongestion = \"dcqcn-tuned\"\n", &scenario), "");
  EXPECT_EQ(params().window_max, 1024U);
  EXPECT_EQ(transport_name(params()), "dcqcn-tuned");
  ASSERT_EQ(parse("mode = \"roce\"\ncongestion = \"timely\"\ntimely_high_us = 200\n", &scenario),
            "");
  EXPECT_EQ(params().window_max, 1024U);
  EXPECT_EQ(params().timely_high, Duration::us(200));
  EXPECT_EQ(transport_name(params()), "timely");
  ASSERT_EQ(parse("preset = \"dcqcn-paper\"\n", &scenario), "");
  EXPECT_EQ(params().congestion, Congestion::kDcqcnPaper);
  ASSERT_EQ(parse("preset = \"dcqcn-paper\"\nmode = \"roce\"\ncongestion = \"none\"\n", &scenario),
            "");
  EXPECT_EQ(params().congestion, Congestion::kNone);
}

TEST(RoceFlows, MistakesInTomlAreSaid) {
  Scenario scenario;
  EXPECT_EQ(parse("congestion = \"cubic\"\n", &scenario),
            "s.toml:7:14: [flow.transport] congestion: expected one of \"none\", \"dcqcn-paper\", "
            "\"dcqcn-tuned\", \"timely\", \"timely-patched\"");
  EXPECT_EQ(parse("preset = \"mp-paper\"\nmode = \"roce\"\n", &scenario),
            "s.toml:8:8: [flow.transport] mode: expected the mode of the preset, or none");
  EXPECT_NE(parse("window_max = 5000\n", &scenario), "") << "the maps of mp have a width";
}

}  // namespace
}  // namespace mprdma::switchsim
