// Properties of every simulation: payload is conserved, the same seed gives the same bytes, nothing
// is sent twice without need, faults are survived.
#include "switchsim/sim/simulation.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "switchsim/sim/result/result_json.hpp"
#include "tests/unit/switchsim/sim/scenarios.hpp"

namespace mprdma::switchsim {
namespace {

std::string bytes_of(const Result& result) {
  return to_json(result, Scenario{}, "test", "revision", true).dump() + flows_csv(result) +
         ports_csv(result);
}

void expect_sound(const Result& result) {
  for (const std::string& error : result.errors) ADD_FAILURE() << error;
}

// Every message arrives, each byte once, whatever the operation and the network.
void expect_conserved(const Scenario& scenario) {
  const Result result = simulate(scenario);
  expect_sound(result);
  for (const FlowResult& flow : result.flows) {
    EXPECT_GT(flow.posted_bytes, 0U) << flow.name;
    EXPECT_EQ(flow.delivered_bytes, flow.posted_bytes) << flow.name;
    EXPECT_EQ(flow.completed_bytes, flow.posted_bytes) << flow.name;
    EXPECT_EQ(flow.messages.size(), flow.messages_posted) << flow.name;
  }
}

// All operations, odd sizes, both directions at once.
Scenario mixed_messages(const transport::Params& params) {
  Scenario scenario;
  make_testbed({.red = {.kmin_bytes = 20'000, .kmax_bytes = 40'000}}, &scenario);
  const uint64_t sizes[] = {1, 1023, 65'537, 300'001};
  for (int i = 0; i < 12; ++i) {
    const std::string number = std::to_string(i % 5 + 1);
    const bool forth = i % 2 == 0;
    FlowSpec flow =
        flow_between(scenario, (forth ? "a" : "b") + number, (forth ? "b" : "a") + number, params);
    flow.name = "flow" + std::to_string(i);
    flow.operation = static_cast<FlowOperation>(i % 3);
    flow.message_bytes = sizes[i % 4];
    flow.messages = 20;
    flow.start = SimTime() + SimSpan::us(7 * i);
    scenario.flows.push_back(flow);
  }
  scenario.duration = SimSpan::ms(500);
  scenario.end_when_idle = true;
  return scenario;
}

TEST(Conservation, PayloadDeliveredIsPayloadPosted) {
  expect_conserved(mixed_messages(transport::Params::mp()));
  expect_conserved(mixed_messages(transport::Params::mp_single()));
}

TEST(Conservation, HoldsWhenEveryPathLosesPacketsInBothDirections) {
  Scenario scenario = mixed_messages(transport::Params::mp());
  for (const LinkId path : scenario.paths) {
    scenario.topology.links[path].ab.loss_ppm = 10'000;
    scenario.topology.links[path].ba.loss_ppm = 10'000;
  }
  expect_conserved(scenario);
}

TEST(Conservation, HoldsWhenHostsDelayAcknowledgementsByChance) {
  Scenario scenario = mixed_messages(transport::Params::mp());
  scenario.ack_delay = SimSpan::us(1);
  scenario.ack_jitter = SimSpan::us(4);
  expect_conserved(scenario);
}

TEST(Determinism, TheSameScenarioGivesTheSameBytes) {
  const Scenario scenario = permutation();
  const std::string first = bytes_of(simulate(scenario));
  EXPECT_EQ(first, bytes_of(simulate(scenario)));
  Scenario other = scenario;
  other.seed = 2;
  EXPECT_NE(first, bytes_of(simulate(other)));
}

TEST(Determinism, ASimulationIsIndependentOfOthersInTheProcess) {
  const Scenario scenario = permutation();
  const std::string alone = bytes_of(simulate(scenario));
  Simulation one(scenario);
  Simulation two(mixed_messages(transport::Params::mp()));
  for (bool more = true; more;) {
    two.run_until(two.now() + SimSpan::us(13));
    more = one.run_until(one.now() + SimSpan::us(17));
  }
  EXPECT_EQ(alone, bytes_of(one.result()));
}

TEST(Determinism, RunsOnSeveralThreadsGiveWhatTheyGiveAlone) {
  std::vector<Scenario> scenarios(4, permutation());
  for (size_t i = 0; i < scenarios.size(); ++i) scenarios[i].seed = i;
  const std::vector<Result> results = simulate_all(scenarios, 3);
  ASSERT_EQ(results.size(), scenarios.size());
  for (size_t i = 0; i < scenarios.size(); ++i) {
    EXPECT_EQ(bytes_of(results[i]), bytes_of(simulate(scenarios[i]))) << "seed " << i;
  }
}

void expect_no_retransmission(const Scenario& scenario) {
  const Result result = simulate(scenario);
  expect_sound(result);
  EXPECT_GT(result.goodput_bps, 0);
  EXPECT_EQ(result.retransmitted(), 0U);
  EXPECT_EQ(result.spurious(), 0U);
  EXPECT_EQ(result.timeouts(), 0U);
}

TEST(CleanNetwork, NothingIsSentTwice) {
  expect_no_retransmission(permutation(transport::Params::mp()));
  expect_no_retransmission(permutation(transport::Params::mp_figures()));
  expect_no_retransmission(permutation(transport::Params::mp_single()));
  expect_no_retransmission(mixed_messages(transport::Params::mp()));
}

TEST(CleanNetwork, FiveFlowsFillFourPaths) {
  const Result result = simulate(permutation());
  EXPECT_GE(result.goodput_bps, 0.97 * 4 * result.ceiling_bps);
  EXPECT_LE(result.goodput_bps, 1.001 * 4 * result.ceiling_bps);
  for (const FlowResult& flow : result.flows) {
    for (const uint64_t bytes : flow.path_bytes) EXPECT_GT(bytes, 0U) << flow.name;
  }
}

TEST(CleanNetwork, ALoneFlowReachesTheCeiling) {
  Scenario scenario = permutation();
  scenario.flows.resize(1);
  const Result result = simulate(scenario);
  EXPECT_NEAR(result.goodput_bps / result.ceiling_bps, 1, 0.002);
}

// (1 - F) / w = F / 2: the window grows by 1/w for each unmarked acknowledgement and shrinks by a
// half for each marked one.
TEST(CleanNetwork, TheMarkingRatioIsTheFixPointOfTheWindow) {
  Scenario scenario;
  make_dumbbell({.pairs = 4, .red = {.kmin_bytes = 20'000, .kmax_bytes = 400'000}}, &scenario);
  for (int i = 1; i <= 4; ++i) {
    const std::string number = std::to_string(i);
    scenario.flows.push_back(flow_between(scenario, "l" + number, "r" + number));
  }
  scenario.duration = SimSpan::ms(20);
  scenario.warm_up = SimSpan::ms(5);
  scenario.sample = SimSpan::us(100);
  const Result result = simulate(scenario);
  expect_sound(result);
  for (const FlowResult& flow : result.flows) {
    const double marked =
        static_cast<double>(flow.ce_received) / static_cast<double>(flow.packets_received);
    EXPECT_NEAR(marked * (flow.window_mean + 2) / 2, 1, 0.1) << flow.name;
  }
  // The queue at which RED marks this share, on its slope.
  const PortResult& port = *result.port_named("bottleneck.ab");
  EXPECT_NEAR(port.queue_mean_bytes, 20'000 + 380'000 * port.mark_ratio, 4000);
}

TEST(Faults, ACutPathIsLeftAndUsedAgain) {
  Scenario scenario = permutation();
  scenario.flows.resize(1);
  scenario.duration = SimSpan::ms(30);
  scenario.events.push_back(
      {.at = SimTime() + SimSpan::ms(5), .link = scenario.link("path2"), .up = false});
  scenario.events.push_back(
      {.at = SimTime() + SimSpan::ms(10), .link = scenario.link("path2"), .up = true});
  const Result result = simulate(scenario);
  expect_sound(result);
  const FlowResult& flow = result.flows[0];
  const std::vector<uint64_t>& series = flow.path_bytes_series[1];
  const auto point = [&](int ms) { return static_cast<size_t>(ms * 4); };
  EXPECT_GT(series[point(5)], 0U);
  EXPECT_LE(series[point(10)] - series[point(6)], 100U * 1024) << "only probes";
  EXPECT_GT(result.goodput_bps_between(0, SimTime() + SimSpan::ms(6), SimTime() + SimSpan::ms(10)),
            0.9 * result.ceiling_bps);
  EXPECT_GT(flow.stats.retransmitted, 0U);
}

TEST(Faults, ARateThatChangesIsMetAndAccounted) {
  Scenario scenario;
  make_dumbbell({.pairs = 1, .red = {.kmin_bytes = 20'000, .kmax_bytes = 40'000}}, &scenario);
  scenario.flows.push_back(flow_between(scenario, "l1", "r1"));
  scenario.duration = SimSpan::ms(8);
  scenario.sample = SimSpan::us(500);
  scenario.events.push_back({.at = SimTime() + SimSpan::ms(4),
                             .link = scenario.link("bottleneck"),
                             .direction = Direction::kAb,
                             .rate = LinkRate::gbps(10)});
  const Result result = simulate(scenario);
  expect_sound(result);
  const SimTime middle = SimTime() + SimSpan::ms(5);
  EXPECT_NEAR(result.goodput_bps_between(0, middle, result.end) / result.ceiling_bps, 0.25, 0.01);
  EXPECT_NEAR(result.port_named("bottleneck.ab")->utilisation, 1, 0.02);
}

TEST(Faults, ADeadNetworkEndsInAnErrorCompletion) {
  Scenario scenario = lone_message(1 << 20);
  scenario.flows[0].timeout = 8;  // 1 ms
  scenario.flows[0].retry_cnt = 1;
  scenario.duration = SimSpan::ms(100);
  scenario.events.push_back(
      {.at = SimTime() + SimSpan::us(20), .link = scenario.link("bottleneck"), .up = false});
  const Result unexpected = simulate(scenario);
  ASSERT_EQ(unexpected.errors.size(), 1U);
  EXPECT_NE(unexpected.errors[0].find("l1-r1: completion status 12"), std::string::npos);
  scenario.flows[0].may_fail = true;
  const Result expected = simulate(scenario);
  EXPECT_TRUE(expected.errors.empty());
  EXPECT_TRUE(expected.flows[0].failed);
}

TEST(Traffic, APinnedFlowTakesItsPath) {
  for (size_t path = 0; path < 4; ++path) {
    Scenario scenario = permutation(transport::Params::mp_single());
    scenario.flows.resize(2);
    scenario.flows[1].operation = FlowOperation::kRead;
    for (FlowSpec& flow : scenario.flows) flow.pinned_link = scenario.paths[path];
    const Result result = simulate(scenario);
    for (const FlowResult& flow : result.flows) {
      for (size_t other = 0; other < 4; ++other) {
        EXPECT_EQ(flow.path_bytes[other] > 0, other == path) << flow.name << " " << other;
      }
    }
  }
}

TEST(Traffic, AFlowPinnedToALinkThatItCannotCrossIsAnError) {
  Scenario scenario = permutation(transport::Params::mp_single());
  scenario.flows.resize(1);
  scenario.flows[0].pinned_link = scenario.link("a5");
  const Result result = simulate(scenario);
  ASSERT_EQ(result.errors.size(), 1U);
  EXPECT_NE(result.errors[0].find("no path crosses"), std::string::npos);
}

// Hosts 0 and 1 at the ends of a chain of switches; the last link is that of host 1.
Scenario chain(uint32_t switches) {
  Scenario scenario;
  scenario.topology.hosts = 2;
  scenario.topology.switches = switches;
  scenario.host_names = {"a", "b"};
  const auto add = [&scenario](NodeId a, NodeId b) {
    LinkConfig link;
    link.a = a;
    link.b = b;
    link.name = std::to_string(a) + "-" + std::to_string(b);
    link.ab.rate = link.ba.rate = LinkRate::gbps(40);
    scenario.topology.links.push_back(link);
  };
  add(0, 2);
  for (uint32_t i = 1; i < switches; ++i) add(1 + i, 2 + i);
  add(1 + switches, 1);
  FlowSpec flow;
  flow.name = "chain";
  flow.from = 0;
  flow.to = 1;
  flow.message_bytes = 4096;
  flow.messages = 1;
  scenario.flows.push_back(flow);
  scenario.end_when_idle = true;
  return scenario;
}

TEST(Traffic, APathMayBeAsLongAsTheNetwork) {
  Scenario scenario = chain(40);
  scenario.flows[0].params = transport::Params::mp_single();
  scenario.flows[0].pinned_link = 40;
  scenario.paths = {40};
  ASSERT_EQ(validate(scenario).text, "");
  const Result result = simulate(scenario);
  EXPECT_TRUE(result.errors.empty()) << result.errors.front();
  EXPECT_EQ(result.flows[0].path_bytes.at(0), 4096U);
}

// Switches take a broken link out of their routes 500 us after it broke. Payload is counted for the
// path that it takes: for the other ones after that time, not after the break.
TEST(Traffic, PayloadIsCountedForThePathOfTheRoutesThen) {
  Scenario scenario = permutation(transport::Params::mp_single());
  scenario.flows.resize(1);
  scenario.warm_up = SimSpan();
  scenario.duration = SimSpan::ms(8);
  scenario.flows[0].pinned_link = scenario.paths[0];
  scenario.reroute = true;
  scenario.reroute_after = SimSpan::us(500);
  scenario.events.push_back(
      {.at = SimTime() + SimSpan::ms(1), .link = scenario.paths[0], .up = false});
  const Result result = simulate(scenario);
  const auto& bytes = result.flows[0].path_bytes;
  const uint64_t others = bytes[1] + bytes[2] + bytes[3];
  // 1 ms on the path before the break, at most 7 ms on another one after it.
  EXPECT_GT(others, bytes[0]);
}

TEST(Traffic, FlowsJoinAndLeave) {
  Scenario scenario = permutation();
  scenario.flows.resize(1);
  scenario.flows[0].message_bytes = 16'384;
  scenario.flows[0].start = SimTime() + SimSpan::ms(1);
  scenario.flows[0].stop = SimTime() + SimSpan::ms(2);
  const Result result = simulate(scenario);
  const FlowResult& flow = result.flows[0];
  EXPECT_EQ(flow.messages.front().posted, SimTime() + SimSpan::ms(1));
  EXPECT_LT(flow.messages.back().posted, SimTime() + SimSpan::ms(2));
  EXPECT_LT(flow.messages.back().completed, SimTime() + SimSpan::us(2100));
  EXPECT_EQ(flow.completed_bytes, flow.posted_bytes);
}

TEST(Traffic, AClosedLoopThinksBetweenMessages) {
  Scenario scenario = lone_message(64);
  scenario.flows[0].messages = 5;
  scenario.flows[0].post_depth = 1;
  scenario.flows[0].think = SimSpan::us(30);
  const Result result = simulate(scenario);
  const std::vector<MessageRecord>& messages = result.flows[0].messages;
  ASSERT_EQ(messages.size(), 5U);
  for (size_t i = 1; i < messages.size(); ++i) {
    EXPECT_EQ(messages[i].posted - messages[i - 1].completed, SimSpan::us(30));
    EXPECT_EQ(messages[i].fct(), messages[0].fct());
  }
}

TEST(Traffic, TimedMessagesArePostedAtTheirTimeHoweverManyWait) {
  Scenario scenario = lone_message(1);
  FlowSpec& flow = scenario.flows[0];
  flow.messages = 0;
  for (int i = 0; i < 600; ++i) {
    flow.timed_messages.push_back({SimTime() + SimSpan::ns(100 * i), 1024});
  }
  const Result result = simulate(scenario);
  const std::vector<MessageRecord>& messages = result.flows[0].messages;
  ASSERT_EQ(messages.size(), 600U);
  for (size_t i = 0; i < messages.size(); ++i) {
    EXPECT_EQ(messages[i].posted, flow.timed_messages[i].at);
  }
  // Each packet takes 228 ns of the wire, so they pile up.
  EXPECT_GT(messages.back().fct(), SimSpan::us(70));
}

TEST(Traffic, ManyQueuePairsShareANicEvenly) {
  Scenario scenario;
  make_dumbbell({.pairs = 3}, &scenario);
  for (int i = 1; i <= 3; ++i) {
    scenario.flows.push_back(flow_between(scenario, "l1", "r" + std::to_string(i)));
  }
  scenario.duration = SimSpan::ms(2);
  scenario.warm_up = SimSpan::us(500);
  const Result result = simulate(scenario);
  EXPECT_GT(result.jain, 0.999);
  EXPECT_NEAR(result.goodput_bps / result.ceiling_bps, 1, 0.005);
}

TEST(Interruption, AStoppedRunTellsHowThingsStand) {
  const std::atomic<bool> stop = true;
  RunOptions options;
  options.stop = &stop;
  const Result result = simulate(permutation(), options);
  EXPECT_FALSE(result.complete);
  ASSERT_EQ(result.errors.size(), 1U);  // the warm-up was not over
  EXPECT_NE(result.errors[0].find("nothing was measured"), std::string::npos);
  Simulation simulation(permutation());
  EXPECT_TRUE(simulation.run_until(SimTime() + SimSpan::ms(2)));
  const Result half = simulation.result();
  EXPECT_FALSE(half.complete);
  EXPECT_EQ(half.end, SimTime() + SimSpan::ms(2));
  EXPECT_GT(half.goodput_bps, 0);
  EXPECT_TRUE(half.errors.empty());
}

TEST(JainIndex, IsThatOfTheFormula) {
  const auto of = [](const std::vector<double>& values) { return jain_index(values); };
  EXPECT_EQ(of({5, 5, 5, 5}), 1);
  EXPECT_EQ(of({7, 0, 0, 0}), 0.25);
  EXPECT_DOUBLE_EQ(of({1, 2, 3}), 36.0 / (3 * 14));
  EXPECT_DOUBLE_EQ(of({1e9, 2e9, 3e9}), of({1, 2, 3}));
  EXPECT_EQ(of({0, 0}), 0);  // nothing flows: nobody is served fairly
  EXPECT_EQ(of({}), 0);
}

TEST(JainIndex, OfADeadNetworkIsNone) {
  Scenario scenario = permutation();
  for (const LinkId path : scenario.paths) scenario.events.push_back({.link = path, .up = false});
  const Result result = simulate(scenario);
  EXPECT_EQ(result.goodput_bps, 0);
  EXPECT_EQ(result.jain, 0);
}

// A thousandth of this run's time is 40 ms: about 8 million events.
TEST(Interruption, IsNoticedWithinSomeEventsHoweverLongTheRunIs) {
  Scenario scenario = permutation();
  scenario.duration = SimSpan::ms(40'000);
  scenario.queue_sample = SimSpan::ms(20'000);
  scenario.sample = SimSpan::ms(20'000);
  std::atomic<bool> stop = false;
  std::vector<uint64_t> seen;
  RunOptions options;
  options.stop = &stop;
  options.on_progress = [&](const Progress& progress) {
    seen.push_back(progress.events);
    stop = seen.size() == 2;
  };
  const Result result = simulate(scenario, options);
  EXPECT_FALSE(result.complete);
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_GT(seen[0], 100'000U);
  EXPECT_LT(seen[1], 1'000'000U);
}

// One path of four loses packets; hosts that sleep make the round trip long. What the sender sends
// after a lost packet, until the copy comes, fits the default L. With an L of 128 the receiver
// drops so much of it that twice as much is sent again as is lost.
TEST(Retransmission, TheReceiveWindowHoldsWhatIsSentAfterALostPacket) {
  Scenario scenario;
  make_testbed({.servers = 1,
                .access = LinkRate::gbps(10),
                .path_rate = LinkRate::gbps(1),
                .base_rtt = SimSpan::us(300),
                .path_mtu = 4096,
                .red = {.kmin_bytes = 60'000, .kmax_bytes = 120'000}},
               &scenario);
  FlowSpec flow = flow_between(scenario, "a1", "b1");
  flow.path_mtu = 4096;
  flow.params.window_rtt = Duration::zero();  // it would raise L
  scenario.flows.push_back(flow);
  PortConfig& lossy = scenario.topology.links[scenario.paths[2]].ab;
  lossy.loss_ppm = 10'000;
  scenario.duration = SimSpan::ms(500);
  const auto run = [&] {
    const Result result = simulate(scenario);
    expect_sound(result);
    return std::pair(result.retransmitted(), result.port_named("path3.ab")->counters.drop_loss);
  };
  const auto [again, lost] = run();
  EXPECT_GT(lost, 100U);
  EXPECT_LT(again, lost + lost / 5);
  scenario.flows[0].params.window_slots = 128;
  const auto [narrow_again, narrow_lost] = run();
  EXPECT_GT(narrow_again, 2 * narrow_lost);
}

TEST(Interruption, HowOftenARunIsLookedAtChangesNoByte) {
  Scenario scenario = mixed_messages(transport::Params::mp());
  for (const bool end_when_idle : {false, true}) {
    scenario.end_when_idle = end_when_idle;
    Simulation whole(scenario);
    whole.run();
    Simulation parts(scenario);
    while (parts.run_until(parts.now() + SimSpan::ns(7'300), 50)) {
    }
    EXPECT_TRUE(bytes_of(whole.result()) == bytes_of(parts.result()));
    EXPECT_TRUE(bytes_of(whole.result()) == bytes_of(simulate(scenario)));
  }
}

TEST(Validate, RefusesWhatCannotBe) {
  const auto error_of = [](void (*change)(Scenario&)) {
    Scenario scenario = permutation();
    change(scenario);
    return validate(scenario).text;
  };
  EXPECT_EQ(error_of([](Scenario&) {}), "");
  EXPECT_EQ(error_of([](Scenario& s) { s.flows.clear(); }),
            "no flow: a table [[flow]] or [[traffic]] is missing");
  EXPECT_NE(error_of([](Scenario& s) { s.flows[0].to = s.flows[0].from; }), "");
  EXPECT_NE(error_of([](Scenario& s) { s.flows[0].to = 99; }), "");
  EXPECT_NE(error_of([](Scenario& s) { s.flows[1].name = s.flows[0].name; }), "");
  EXPECT_NE(error_of([](Scenario& s) { s.flows[0].pinned_link = 0; }), "");
  EXPECT_NE(error_of([](Scenario& s) { s.warm_up = s.duration; }), "");
  EXPECT_NE(error_of([](Scenario& s) { s.topology.links[0].ab.rate = LinkRate(); }), "");
  EXPECT_NE(error_of([](Scenario& s) {
              s.topology.links.pop_back(), s.topology.links.erase(s.topology.links.begin());
            }),
            "");
  EXPECT_NE(error_of([](Scenario& s) { s.events.push_back({.link = 99}); }), "");
}

}  // namespace
}  // namespace mprdma::switchsim
