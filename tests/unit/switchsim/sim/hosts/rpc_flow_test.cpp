// Sessions of RPCs in the simulator: over UD queue pairs of the transport, on a network.
#include <gtest/gtest.h>

#include <string>

#include "switchsim/sim/result/result_json.hpp"
#include "switchsim/sim/scenario/scenario_toml.hpp"
#include "tests/unit/switchsim/sim/scenarios.hpp"

namespace mprdma::switchsim {
namespace {

// Ethernet, IPv4, UDP, BTH, DETH, immediate data, ICRC, FCS, preamble and gap.
constexpr uint32_t kHeaders = 14 + 20 + 8 + 12 + 8 + 4 + 4 + 4 + 8 + 12;

Scenario session(uint32_t credits, uint64_t messages) {
  Scenario scenario = lone_message(1024, LinkRate::gbps(25));
  FlowSpec& flow = scenario.flows[0];
  flow.operation = FlowOperation::kSend;
  flow.rpc_credits = credits;
  flow.post_depth = 64;
  flow.messages = messages;
  return scenario;
}

void set_loss(Scenario& scenario, uint32_t ppm) {
  PortConfig& there = scenario.topology.links[scenario.link("bottleneck")].ab;
  PortConfig& back = scenario.topology.links[scenario.link("bottleneck")].ba;
  there.loss_ppm = back.loss_ppm = ppm;
}

Result sound(const Scenario& scenario) {
  Result result = simulate(scenario);
  for (const std::string& error : result.errors) ADD_FAILURE() << error;
  return result;
}

TEST(RpcFlows, PacketsHaveTheSizeOfDatagrams) {
  EXPECT_EQ(datagram_wire_bytes(1024), kHeaders + 1024);
  EXPECT_EQ(datagram_wire_bytes(16), kHeaders + 16);
  const Scenario scenario = session(8, 1);
  EXPECT_EQ(data_wire_bytes(scenario.flows[0], 1024), kHeaders + 1024);
  EXPECT_EQ(transport_name(scenario.flows[0]), "ud");
}

TEST(RpcFlows, ALoneRequestTakesWhatItsPacketsTake) {
  const Scenario scenario = session(8, 1);
  const Result result = sound(scenario);
  SimSpan expected;
  for (const char* name : {"l1", "bottleneck", "r1"}) {
    const PortConfig& port = scenario.topology.links[scenario.link(name)].ab;
    expected = expected + port.rate.time_of(kHeaders + 1024) + port.rate.time_of(kHeaders + 16) +
               port.delay * 2;
  }
  ASSERT_EQ(result.flows[0].messages.size(), 1U);
  EXPECT_EQ(result.flows[0].messages[0].fct().count_ps(), expected.count_ps());
  EXPECT_DOUBLE_EQ(result.fct.classes[0].slowdown_mean, 1);
}

TEST(RpcFlows, CreditsAreWhatIsInTheNetworkAtMost) {
  Scenario scenario = session(4, 0);
  scenario.end_when_idle = false;
  scenario.duration = SimSpan::ms(2);
  // A packet takes longer there than the rest of the round trip: one is sent, and the others wait.
  scenario.topology.links[scenario.link("bottleneck")].ab.rate = LinkRate::bps(100'000'000);
  const Result result = sound(scenario);
  EXPECT_EQ(result.port_named("bottleneck.ab")->queue_max_bytes, 3 * (kHeaders + 1024U));
  EXPECT_EQ(result.flows[0].stats.packets_sent - result.flows[0].messages_completed, 4U);
}

TEST(RpcFlows, DeliverEachRequestOnceWhenPacketsAreLost) {
  for (const uint64_t timeout_us : {5'000, 30, 8}) {
    Scenario scenario = session(16, 500);
    scenario.flows[0].rpc_timeout = SimSpan::us(static_cast<int64_t>(timeout_us));
    scenario.duration = SimSpan::ms(1'000);
    scenario.queue_sample = SimSpan::ms(1);
    set_loss(scenario, 20'000);
    const Result result = sound(scenario);
    const FlowResult& flow = result.flows[0];
    EXPECT_EQ(flow.messages_completed, 500U) << timeout_us;
    EXPECT_EQ(flow.delivered_bytes, 500U * 1024) << timeout_us;
    EXPECT_GT(flow.stats.rto_expired, 0U) << timeout_us;
    EXPECT_EQ(flow.stats.packets_sent, 500 + flow.stats.retransmitted) << timeout_us;
    EXPECT_GT(flow.sender.drop_out_of_sequence, 0U) << timeout_us;
    EXPECT_GT(flow.receiver.drop_out_of_sequence, 0U) << timeout_us;
    EXPECT_GT(flow.receiver.drop_duplicate, 0U) << timeout_us;
  }
}

TEST(RpcFlows, NothingIsSentAgainOnACleanNetwork) {
  const Result result = sound(session(32, 5'000));
  EXPECT_EQ(result.flows[0].messages_completed, 5'000U);
  EXPECT_EQ(result.retransmitted(), 0U);
  EXPECT_EQ(result.timeouts(), 0U);
  EXPECT_EQ(result.flows[0].ooo.max(), 0U);
}

// Responses that are longer than requests wait at the server, and copies ask for still more.
TEST(RpcFlows, LongResponsesToManyCopiesAreBounded) {
  Scenario scenario = session(64, 300);
  scenario.flows[0].message_bytes = 16;
  scenario.flows[0].rpc_response_bytes = 1024;
  scenario.flows[0].rpc_timeout = SimSpan::us(2);
  scenario.duration = SimSpan::ms(500);
  PortConfig& there = scenario.topology.links[scenario.link("bottleneck")].ab;
  PortConfig& back = scenario.topology.links[scenario.link("bottleneck")].ba;
  there.queue_bytes_max = back.queue_bytes_max = 20'000;
  const Result result = sound(scenario);
  EXPECT_EQ(result.flows[0].messages_completed, 300U);
  EXPECT_GT(result.flows[0].receiver.drop_duplicate, 0U);
}

// A timeout far below the round trip, and queues without end: the run ends and says what is wrong.
TEST(RpcFlows, CopiesWithoutEndAreAnError) {
  Scenario scenario = session(64, 0);
  scenario.flows[0].rpc_timeout = SimSpan::us(1);
  scenario.end_when_idle = false;
  scenario.duration = SimSpan::ms(20);
  PortConfig& there = scenario.topology.links[scenario.link("bottleneck")].ab;
  there.queue_bytes_max = UINT64_MAX;
  there.rate = LinkRate::gbps(1);
  const Result result = simulate(scenario);
  ASSERT_EQ(result.errors.size(), 1U);
  EXPECT_NE(result.errors[0].find("found the pool empty"), std::string::npos) << result.errors[0];
}

TEST(RpcFlows, ADeadLinkIsSurvived) {
  Scenario scenario = session(8, 1'000);
  const LinkId link = scenario.link("bottleneck");
  scenario.duration = SimSpan::ms(100);
  scenario.events = {{.at = SimTime() + SimSpan::us(100), .link = link, .up = false},
                     {.at = SimTime() + SimSpan::us(12'000), .link = link, .up = true}};
  const Result result = sound(scenario);
  EXPECT_EQ(result.flows[0].messages_completed, 1'000U);
  EXPECT_EQ(result.timeouts(), 3U);  // at 5, 10 and 15 ms
}

TEST(RpcFlows, RunsAreTheSameBitByBit) {
  Scenario scenario = session(16, 500);
  scenario.duration = SimSpan::ms(1'000);
  set_loss(scenario, 10'000);
  const auto text = [&] { return to_json(simulate(scenario), scenario, "", "", true).dump(); };
  EXPECT_EQ(text(), text());
}

// ---- The scenario

constexpr char kText[] = R"([topology]
kind = "dumbbell"
[[flow]]
from = "l1"
to = "r1"
operation = "send"
message_bytes = 512
rpc_credits = 4
rpc_response_bytes = 64
rpc_timeout_us = 250
)";

TEST(RpcScenario, ReadsItsKeys) {
  Scenario scenario;
  const Status status = parse_scenario(kText, "s.toml", {}, &scenario);
  ASSERT_TRUE(status.ok()) << status.text;
  EXPECT_EQ(scenario.flows[0].rpc_credits, 4U);
  EXPECT_EQ(scenario.flows[0].rpc_response_bytes, 64U);
  EXPECT_EQ(scenario.flows[0].rpc_timeout, SimSpan::us(250));
}

TEST(RpcScenario, RefusesWhatDatagramsCannotDo) {
  struct Case {
    const char* change;
    const char* expected;
  };
  const Case cases[] = {
      {"flow[0].rpc_credits=4097", "rpc_credits: expected a whole number in 0..4096"},
      {"flow[0].operation=write", "only SENDs have credits"},
      {"flow[0].message_bytes=1025", "message_bytes is above the path_mtu of 1024"},
      {"flow[0].at=[[1, 1025]]", "1025 bytes are above the path_mtu of 1024"},
      {"flow[0].rpc_response_bytes=1025", "rpc_response_bytes is above the path_mtu of 1024"},
      {"flow[0].rpc_timeout_us=0", "a time that is not above 0"},
      {"flow[0].receives=false", "a server of RPCs posts receives"},
      {"flow[0].synchronise_share=0.5", "datagrams have no synchronise flag"},
  };
  for (const Case& c : cases) {
    Scenario scenario;
    const std::string text = parse_scenario(kText, "s.toml", {c.change}, &scenario).text;
    EXPECT_NE(text.find("s.toml:"), std::string::npos) << c.change << ": " << text;
    EXPECT_NE(text.find(c.expected), std::string::npos) << c.change << ": " << text;
  }
  const std::string traffic = std::string(kText) +
                              "[[traffic]]\nkind = \"pairs\"\nfrom = \"l1\"\nto = \"r1\"\n"
                              "operation = \"send\"\nrpc_credits = 8\ncdf = \"googlerpc2008\"\n";
  Scenario scenario;
  const std::string text = parse_scenario(traffic, "s.toml", {}, &scenario).text;
  EXPECT_NE(text.find("message_bytes with rpc_credits"), std::string::npos) << text;
}

}  // namespace
}  // namespace mprdma::switchsim
