// A scenario file: its content is what runs, and a mistake in it is reported with file, line and
// key.
#include "switchsim/sim/scenario/scenario_toml.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace mprdma::switchsim {
namespace {

constexpr char kGood[] = R"(
name = "good"
seed = 7
duration_us = 2_000
warm_up_us = 500.5

[topology]
kind = "testbed"
servers = 3
path_gbps = 10
red = [0.5, 10_000, 20_000]

[transport]
preset = "mp-figures"
reorder_delta = 16
rto_floor_us = 500

[[link]]
name = "path4"
ab = { rate_gbps = 1, loss = 0.01 }

[[flow]]
name = "all"
from = "a1..a3"
to = "b1..b3"

[[flow]]
name = "pinned"
from = "a1"
to = "b1"
operation = "send"
pinned = "path4"
transport = { preset = "mp-single" }

[[event]]
at_us = 1_000
link = ["path1", "path2"]
up = false
)";

std::string error_of(const std::string& text, const Overrides& overrides = {}) {
  Scenario scenario;
  return parse_scenario(text, "s.toml", overrides, &scenario).text;
}

Scenario parsed(const Overrides& overrides = {}) {
  Scenario scenario;
  EXPECT_EQ(parse_scenario(kGood, "s.toml", overrides, &scenario).text, "");
  return scenario;
}

TEST(ScenarioToml, SaysWhatIsRun) {
  const Scenario s = parsed();
  EXPECT_EQ(s.name, "good");
  EXPECT_EQ(s.seed, 7U);
  EXPECT_EQ(s.duration, SimSpan::ms(2));
  EXPECT_EQ(s.warm_up, SimSpan::ns(500'500));
  EXPECT_EQ(s.topology.hosts, 6U);
  ASSERT_EQ(s.paths.size(), 4U);
  const LinkConfig& path4 = s.topology.links[s.link("path4")];
  EXPECT_EQ(path4.ab.rate, LinkRate::gbps(1));
  EXPECT_EQ(path4.ab.loss_ppm, 10'000U);
  EXPECT_EQ(path4.ba.rate, LinkRate::gbps(10));
  EXPECT_EQ(path4.ab.red, (RedConfig{10'000, 20'000, 500'000, false}));
  ASSERT_EQ(s.flows.size(), 4U);
  EXPECT_EQ(s.flows[2].name, "all3");
  EXPECT_EQ(s.flows[2].from, s.host("a3"));
  EXPECT_EQ(s.flows[2].params.window_slots, 64U);
  EXPECT_EQ(s.flows[2].params.reorder_delta, 16U);
  EXPECT_EQ(s.flows[2].params.rto_floor, Duration::us(500));
  EXPECT_EQ(s.flows[3].operation, FlowOperation::kSend);
  EXPECT_EQ(s.flows[3].pinned_link, s.link("path4"));
  EXPECT_EQ(s.flows[3].params.path_policy, transport::PathPolicy::kSingle);
  ASSERT_EQ(s.events.size(), 2U);
  EXPECT_EQ(s.events[1].link, s.link("path2"));
  EXPECT_EQ(s.events[1].up, false);
}

TEST(ScenarioToml, OverridesChangeAnyKey) {
  const Scenario s = parsed({"seed=9", "transport.preset=mp-paper", "link[path4].ab.loss=0.5",
                             "flow[*].message_bytes=4096", "flow[1].transport.window_max=64",
                             "topology.servers=3", "flow[pinned].stop_us=100",
                             "flow[*].synchronise_share=0.25", "flow[1].turn_packets=16"});
  EXPECT_EQ(s.seed, 9U);
  EXPECT_EQ(s.flows[0].params.recovery, transport::Recovery::kPaper);
  EXPECT_EQ(s.topology.links[s.link("path4")].ab.loss_ppm, 500'000U);
  EXPECT_EQ(s.flows[0].message_bytes, 4096U);
  EXPECT_EQ(s.flows[3].message_bytes, 4096U);
  EXPECT_EQ(s.flows[3].params.window_max, 64U);
  EXPECT_EQ(s.flows[3].stop, SimTime() + SimSpan::us(100));
  EXPECT_EQ(s.flows[0].synchronise_ppm, 250'000U);
  EXPECT_EQ(s.flows[3].turn_packets, 16U);
}

TEST(ScenarioToml, AMistakeIsNamedWithFileLineAndKey) {
  struct Case {
    const char* line;  // in place of `find`
    const char* find;
    const char* expected;  // begin of the error
  };
  const Case cases[] = {
      {"sed = 7", "seed = 7", "s.toml:3:1: unknown key 'sed' in the scenario; known: name,"},
      {"seed = \"7\"", "seed = 7", "s.toml:3:8: the scenario seed: expected a whole number"},
      {"seed = -1", "seed = 7", "s.toml:3:8: the scenario seed: expected a whole number in 0.."},
      {"kind = \"mesh\"", "kind = \"testbed\"", "s.toml:8:8: [topology] kind: expected one of"},
      {"sever = 3", "servers = 3", "s.toml:9:1: unknown key 'sever' in [topology]"},
      {"path_gbps = \"fast\"", "path_gbps = 10", "s.toml:10:13: [topology] path_gbps: expected a"},
      {"red = [0.5, 2, 1]", "red = [0.5, 10_000, 20_000]", "s.toml:11:7: [topology] red: expected"},
      {"preset = \"tcp\"", "preset = \"mp-figures\"", "s.toml:14:10: [transport] preset: expected"},
      {"reorder_delta = 1", "reorder_delta = 16", "s.toml:15:17: [transport] reorder_delta: exp"},
      {"window_max = 2", "reorder_delta = 16", "s.toml:15:14: [transport]: window_max is below"},
      {"window_control = \"reno\"", "reorder_delta = 16",
       "s.toml:15:18: [transport] window_control: expected one of \"mp\", \"dctcp\""},
      {"mode = \"roce\"\nwindow_control = \"dctcp\"", "preset = \"mp-figures\"",
       "s.toml:15:18: [transport]: window_control has to be \"mp\", \"aimd\" or \"swift\" with"},
      {"path_policy = \"best\"", "reorder_delta = 16",
       "s.toml:15:15: [transport] path_policy: expected one of \"single\", \"ack-clocked\", \"re"},
      {"mode = \"roce\"\npath_policy = \"spray\"", "preset = \"mp-figures\"",
       "s.toml:15:15: [transport]: path_policy has to be \"single\" with mode = \"roce\""},
      {"name = \"path9\"", "name = \"path4\"", "s.toml:19:8: [[link]] name: expected the name of"},
      {"ab = { rate = 1 }", "ab = { rate_gbps = 1, loss = 0.01 }", "s.toml:20:8: unknown key 'ra"},
      {"to = \"b1..b2\"", "to = \"b1..b3\"", "s.toml:25:6: [[flow]] to: expected as many hosts"},
      {"from = \"c1\"", "from = \"a1\"\n", "s.toml:29:8: [[flow]] from: expected names of hosts"},
      {"pinned = \"p\"", "pinned = \"path4\"", "s.toml:32:10: [[flow]] pinned: expected the name"},
      {"", "transport = { preset = \"mp-single\" }", "s.toml:32:10: [[flow]] pinned: expected tr"},
      {"at_us = -5", "at_us = 1_000", "s.toml:36:9: [[event]] at_us: expected a number in 0.."},
      {"up = 0", "up = false", "s.toml:38:6: [[event]] up: expected true or false"},
      {"= 3", "seed = 7", "s.toml:3:1: "},
  };
  for (const Case& c : cases) {
    std::string text = kGood;
    const size_t at = text.find(c.find);
    ASSERT_NE(at, std::string::npos) << c.find;
    const std::string end = std::string(c.find).ends_with("\n") ? "\n" : "";
    text.replace(at, std::string(c.find).size(), c.line + end);
    const std::string error = error_of(text);
    EXPECT_EQ(error.substr(0, std::string(c.expected).size()), c.expected) << error;
  }
}

TEST(ScenarioToml, WindowControlsAndPathPoliciesAreTheListsThatTheTransportHas) {
  const Scenario s = parsed({"transport.window_control=dctcp", "transport.path_policy=spray"});
  EXPECT_EQ(s.flows[0].params.window_control, cc::WindowControl::kDctcp);
  EXPECT_EQ(s.flows[0].params.path_policy, transport::PathPolicy::kSpray);
}

TEST(ScenarioToml, WhatAnOverrideBreaksIsNamedToo) {
  EXPECT_NE(error_of(kGood, {"flow[0].colour=red"}).find("unknown key 'colour'"),
            std::string::npos);
  EXPECT_NE(error_of(kGood, {"flow[9].to=b1"}).find("no such table"), std::string::npos);
  EXPECT_NE(error_of(kGood, {"nonsense"}).find("expected key=value"), std::string::npos);
  EXPECT_NE(error_of(kGood, {"seed=true"}).find("expected a whole number"), std::string::npos);
}

TEST(ScenarioToml, AnExplicitTopologyIsWhatItsLinksSay) {
  constexpr char kText[] = R"(
[topology]
kind = "explicit"
hosts = ["x", "y"]
switches = ["s"]
[[link]]
a = "x"
b = "s"
rate_gbps = 25
delay_us = 2
[[link]]
name = "last"
a = "s"
b = "y"
queue_bytes = 5000
[[flow]]
from = "x"
to = "y"
)";
  Scenario s;
  ASSERT_EQ(parse_scenario(kText, "s.toml", {}, &s).text, "");
  ASSERT_EQ(s.topology.links.size(), 2U);
  EXPECT_EQ(s.topology.links[0].name, "x-s");
  EXPECT_EQ(s.topology.links[0].ba.rate, LinkRate::gbps(25));
  EXPECT_EQ(s.topology.links[0].ab.delay, SimSpan::us(2));
  EXPECT_EQ(s.topology.links[1].b, 1U);
  EXPECT_EQ(s.topology.links[1].ab.queue_bytes_max, 5000U);
  EXPECT_NE(error_of(kText, {"link[1].b=z"}).find("the name of a host or switch"),
            std::string::npos);
  EXPECT_NE(error_of(kText, {"link[1].a=x"}).find("host 'x' has 2 links"), std::string::npos);
  for (const std::string& name : {std::string("a\"b"), std::string("a\\b"), std::string(65, 'a')}) {
    EXPECT_NE(error_of(kText, {"topology.hosts=['" + name + "', 'y']"}).find("names of 1 to 64"),
              std::string::npos);
  }
}

TEST(ScenarioToml, AFileThatCannotBeReadIsAnErrorThatSaysWhy) {
  Scenario scenario;
  EXPECT_EQ(load_scenario("no-such.toml", {}, &scenario).text,
            "no-such.toml: cannot be read: No such file or directory");
  EXPECT_EQ(load_scenario("/dev/zero", {}, &scenario).text,
            "/dev/zero: cannot be read: not a regular file");
  EXPECT_EQ(load_scenario("/", {}, &scenario).text, "/: cannot be read: not a regular file");
  // The only mistake of an empty file is that it says nothing.
  EXPECT_EQ(load_scenario("/dev/null", {}, &scenario).text,
            "/dev/null: cannot be read: not a regular file");
  EXPECT_NE(error_of("").find("the scenario topology: expected a table [topology]"),
            std::string::npos);
}

// A range of hosts has to end, even if its last number is the largest that there is.
TEST(ScenarioToml, ARangeOfHostsEndsAtTheFirstThatIsNone) {
  const std::pair<const char*, const char*> cases[] = {
      {"a1..a4294967295", "'a4' is none"},
      {"a4294967290..a4294967295", "'a4294967290' is none"},
      {"a1..a18446744073709551615", "'a4' is none"},
      {"a18446744073709551615..a18446744073709551615", "'a18446744073709551615' is none"},
      {"a1zzz..a2", "'a1zzz..a2' is none"},
      {"a1..a2zzz", "'a1..a2zzz' is none"},
      {"a01..a3", "'a01..a3' is none"},
      {"a3..a1", "'a3..a1' is none"},
  };
  for (const auto& [range, expected] : cases) {
    const std::string error = error_of(kGood, {fmt::format("flow[0].from='{}'", range)});
    EXPECT_NE(error.find(expected), std::string::npos) << range << ": " << error;
  }
}

TEST(ScenarioToml, NoListTakesWhatIsNoNumberOrTooLarge) {
  for (const char* line :
       {"topology.red=[nan, 1, 2]", "topology.red=[inf, 1, 2]", "flow[1].at=[[nan, 5]]",
        "flow[1].at=[[inf, 5]]", "flow[1].at=[[1e300, 5]]", "flow[1].at=[[-1, 5]]",
        "flow[1].at=[[1, 0]]", "flow[1].at=[[1, 1073741825]]", "flow[1].at=[[2, 5], [1, 5]]"}) {
    EXPECT_NE(error_of(kGood, {line}).find(": expected "), std::string::npos) << line;
  }
  EXPECT_EQ(parsed({"flow[1].at=[[1, 5], [1, 1073741824]]"}).flows[3].timed_messages.size(), 2U);
}

TEST(ScenarioToml, ANameIsThatOfAFile) {
  for (const char* line : {"name=''", "name='.'", "name='..'", "name='../evil'", "name='/evil'",
                           "name='a/b'", "name=\"\\u0001\"", "name=\"\\u0000x\""}) {
    EXPECT_NE(error_of(kGood, {line}).find("name: expected a name that a file can have"),
              std::string::npos)
        << line;
  }
  EXPECT_NE(error_of(kGood, {"name=" + std::string(201, 'x')}).find("a name that a file can have"),
            std::string::npos);
  EXPECT_EQ(parsed({"name='..x y'"}).name, "..x y");
}

}  // namespace
}  // namespace mprdma::switchsim
