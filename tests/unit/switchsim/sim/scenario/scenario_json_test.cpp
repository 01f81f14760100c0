// The scenario in a result: everything that is needed to make it again.
#include "switchsim/sim/scenario/scenario_json.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "switchsim/sim/result/result_json.hpp"
#include "switchsim/sim/scenario/scenario_toml.hpp"
#include "switchsim/sim/simulation.hpp"

namespace mprdma::switchsim {
namespace {

constexpr char kScenario[] = R"(
name = "s"
duration_us = 100
[topology]
kind = "dumbbell"
[[flow]]
from = "l1..l2"
to = "r1..r2"
[[flow]]
name = "other"
from = "l1"
to = "r2"
transport = { preset = "mp-paper", path_mtu = 2048 }
)";

// Parameters that are all different from the defaults of their preset.
const Overrides kStrange = {"transport.window_slots=64",
                            "transport.initial_window=17",
                            "transport.window_max=200",
                            "transport.loss_trigger=40",
                            "transport.reorder_delta=20",
                            "transport.limit_growth=false",
                            "transport.loss_shrinks_window=false",
                            "transport.timeout_shrinks_window=false",
                            "transport.adapt_timeout=false",
                            "transport.loss_by_time=false",
                            "transport.recovery=gap",
                            "transport.ack_map=false",
                            "transport.tail_probe=false",
                            "transport.timeout_tries=5",
                            "transport.path_window_reduction=false",
                            "transport.window_give_back=false",
                            "transport.window_spacing=false",
                            "transport.sync_wait_is_backlog=false",
                            "transport.rto_floor_us=333",
                            "transport.rto_ceiling_us=4444.5",
                            "transport.probe_floor_us=55",
                            "transport.initial_rtt_us=6.5",
                            "transport.base_rtt_us=11",
                            "transport.window_rtt_us=15",
                            "transport.target_delay_us=12",
                            "transport.timely_low_us=13",
                            "transport.timely_high_us=140",
                            "transport.window_control=dctcp",
                            "transport.path_policy=single",
                            "transport.path_probe_per_mille=7",
                            "transport.path_probe_interval_us=777",
                            "transport.rto_low_us=77",
                            "transport.rto_high_us=88",
                            "transport.own_ack_credit=false",
                            "transport.restart=idle",
                            "transport.placement=relaxed",
                            "transport.sync_policy=stop-and-wait",
                            "transport.sync_alpha=2.5"};
const Overrides kStrangeRoce = {"transport.congestion=dcqcn-tuned", "transport.mode=roce",
                                "transport.window_max=2000", "transport.go_back_0=true"};

Scenario parsed(const Overrides& overrides) {
  Scenario scenario;
  EXPECT_EQ(parse_scenario(kScenario, "s.toml", overrides, &scenario).text, "");
  return scenario;
}

nlohmann::ordered_json params_with(const Overrides& overrides) {
  return params_json(parsed(overrides).flows[0].params);
}

TEST(ScenarioJson, EveryParameterIsThereAndGivesTheSameTransportWhenItIsReadAgain) {
  const nlohmann::ordered_json usual = params_with({});
  std::set<std::string> changed;
  for (const Overrides& strange : {kStrange, kStrangeRoce}) {
    const nlohmann::ordered_json params = params_with(strange);
    Overrides again;
    for (const auto& [key, value] : params.items()) {
      if (value != usual[key]) changed.insert(key);
      again.push_back("transport." + key + "=" + value.dump());
    }
    EXPECT_EQ(params_with(again), params);
  }
  for (const auto& [key, value] : usual.items()) {
    EXPECT_EQ(changed.count(key), 1U) << key << " was not changed: the test does not see it";
  }
}

TEST(ScenarioJson, SetsOfParametersThatDifferAreToldApart) {
  const nlohmann::ordered_json constants = constants_json(parsed({"seed=3"}));
  EXPECT_EQ(constants["scenario_text"], kScenario);
  EXPECT_EQ(constants["overrides"], nlohmann::ordered_json::array({"seed=3"}));
  const nlohmann::ordered_json& transport = constants["transport"];
  ASSERT_EQ(transport.size(), 2U);
  EXPECT_EQ(transport[0]["flows"], 2);
  EXPECT_EQ(transport[0]["path_mtu"], 1024);
  EXPECT_EQ(transport[1]["first_flow"], "other");
  EXPECT_EQ(transport[1]["path_mtu"], 2048);
  EXPECT_EQ(transport[1]["recovery"], "paper");
}

TEST(ScenarioJson, TrafficIsThereAsTheSeedHasDrawnIt) {
  const char* const text = R"(
duration_us = 100
[topology]
kind = "leaf-spine"
leaves = 2
hosts_per_leaf = 4
[transport]
initial_window = 20
[[traffic]]
kind = "permutation"
[[traffic]]
kind = "poisson"
load = 0.5
message_bytes = 1000
transport = { preset = "roce" }
)";
  Scenario scenario;
  ASSERT_EQ(parse_scenario(text, "s.toml", {}, &scenario).text, "");
  const nlohmann::ordered_json first = constants_json(scenario);
  EXPECT_EQ(first["transport"].size(), 2U);
  EXPECT_EQ(first["transport"][0]["traffic"], nlohmann::ordered_json::array({"permutation"}));
  EXPECT_EQ(first["transport"][1]["traffic"], nlohmann::ordered_json::array({"poisson"}));
  EXPECT_EQ(first["traffic"][0]["flows"], 8);
  EXPECT_TRUE(first["traffic"][0]["bytes"].is_null());  // without end
  const nlohmann::ordered_json& poisson = first["traffic"][1];
  EXPECT_EQ(poisson["bytes"], 1000 * poisson["messages"].get<uint64_t>());
  const auto messages = [&](uint64_t seed) {
    scenario.seed = seed;
    uint64_t count = 0;
    const Simulation simulation(scenario);
    for (const FlowSpec& flow : simulation.scenario().flows) count += flow.timed_messages.size();
    EXPECT_EQ(constants_json(scenario)["traffic"][1]["messages"], count);
    return count;
  };
  EXPECT_NE(messages(1), messages(2));
  EXPECT_FALSE(first.contains("sizes"));
}

// The scenario is made from the result alone.
TEST(ScenarioJson, AResultCanBeMadeAgainFromWhatItSays) {
  Scenario scenario = parsed({"flow[other].message_bytes=5000"});
  scenario.seed = 5;
  const auto json = [](const Scenario& s) { return to_json(simulate(s), s, "c", "r", true); };
  const nlohmann::ordered_json first = json(scenario);
  Scenario again;
  ASSERT_EQ(parse_scenario(first["constants"]["scenario_text"], "again.toml",
                           first["constants"]["overrides"], &again)
                .text,
            "");
  again.seed = first["seed"];
  EXPECT_EQ(json(again).dump(), first.dump());
}

}  // namespace
}  // namespace mprdma::switchsim
