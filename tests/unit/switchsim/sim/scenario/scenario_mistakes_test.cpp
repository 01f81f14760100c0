// What is wrong with a scenario as a whole is named with file, line and key too, and what would
// take all memory, or for ever, is refused before it is tried.
#include <gtest/gtest.h>

#include <string>

#include "switchsim/sim/scenario/scenario_toml.hpp"

namespace mprdma::switchsim {
namespace {

constexpr char kExplicit[] = R"(duration_us = 1_000
warm_up_us = 10
[topology]
kind = "explicit"
hosts = ["x", "y"]
switches = ["s", "t"]
[[link]]
a = "x"
b = "s"
[[link]]
a = "t"
b = "y"
[[link]]
name = "middle"
a = "s"
b = "t"
[[flow]]
name = "f"
from = "x"
to = "y"
[[event]]
at_us = 500
link = "middle"
up = false
)";

constexpr char kSmall[] = R"([topology]
kind = "testbed"
servers = 2
[[flow]]
from = "a1..a2"
to = "b1..b2"
)";

struct Case {
  const char* find;
  const char* line;      // in its place
  const char* expected;  // begin of the error
};

void expect_refused(const std::string& good, const Case& c) {
  std::string text = good;
  const size_t at = text.find(c.find);
  ASSERT_NE(at, std::string::npos) << c.find;
  text.replace(at, std::string(c.find).size(), c.line);
  Scenario scenario;
  const std::string error = parse_scenario(text, "s.toml", {}, &scenario).text;
  EXPECT_EQ(error.substr(0, std::string(c.expected).size()), c.expected) << error;
}

TEST(ScenarioMistakes, OfTheWholeAreNamedWithFileLineAndKey) {
  Scenario scenario;
  ASSERT_EQ(parse_scenario(kExplicit, "s.toml", {}, &scenario).text, "");
  const Case cases[] = {
      {"duration_us = 1_000", "duration_us = 0", "s.toml:1:15: the scenario duration_us: "},
      {"warm_up_us = 10", "warm_up_us = 1_000", "s.toml:2:14: the scenario warm_up_us: expected"},
      {"warm_up_us = 10", "sample_us = 0", "s.toml:2:13: the scenario sample_us: a sampling"},
      {"warm_up_us = 10", "queue_sample_us = 0", "s.toml:2:19: the scenario queue_sample_us: a "},
      {"[\"x\", \"y\"]", "[\"x\", \"y\", \"x\"]",
       "s.toml:5:9: [topology] hosts: two hosts or switches named 'x'"},
      {"[\"s\", \"t\"]", "[\"s\", \"t\", \"s\"]",
       "s.toml:6:12: [topology] switches: two hosts or switches named 's'"},
      {"[\"s\", \"t\"]", "[\"s\", \"t\", \"x\"]",
       "s.toml:6:12: [topology] switches: two hosts or switches named 'x'"},
      {"[\"x\", \"y\"]", "[\"x\", \"y\", \"z\"]", "s.toml:5:9: [topology] hosts: host 'z' has 0 "},
      {"b = \"t\"", "b = \"s\"", "s.toml:16:5: [[link]] b: link 'middle': it leads to where"},
      {"[[flow]]", "[[link]]\nname = \"x-s\"\na = \"s\"\nb = \"t\"\n[[flow]]",
       "s.toml:18:8: [[link]] name: link 'x-s': another link has"},
      {"b = \"t\"", "b = \"t\"\n[[flow]]\nname = \"f\"\nfrom = \"x\"\nto = \"y\"",
       "s.toml:22:8: [[flow]] name: flow 'f': another flow has this name"},
      {"to = \"y\"", "to = \"x\"", "s.toml:20:6: [[flow]] to: flow 'f': from a host to itself"},
      {"to = \"y\"", "to = \"y\"\nthink_us = 1\npost_depth = 0", "s.toml:22:14: [[flow]] post_d"},
      {"at_us = 500", "at_us = 1_001", "s.toml:22:9: [[event]] at_us: event at 1001 us: after"},
      {"link = \"middle\"", "link = []", "s.toml:23:8: [[event]] link: expected the name of a "},
      {"up = false", "", "s.toml:21:1: [[event]]: expected what changes: up, "},
  };
  for (const Case& c : cases) expect_refused(kExplicit, c);
  expect_refused(kSmall, {"[[flow]]\nfrom = \"a1..a2\"\nto = \"b1..b2\"\n", "",
                          "s.toml:1:1: the scenario flow: no flow"});
}

// A link that is down for some time is still a link: the outage is part of the simulation.
TEST(ScenarioMistakes, AFlowWithoutAWayIsNamed) {
  const std::string middle = "[[link]]\nname = \"middle\"\na = \"s\"\nb = \"t\"\n";
  const std::string event = "[[event]]\nat_us = 500\nlink = \"middle\"\nup = false\n";
  std::string parted = kExplicit;
  parted.erase(parted.find(middle), middle.size());
  parted.erase(parted.find(event), event.size());
  expect_refused(parted, {"", "", "s.toml:16:6: [[flow]] to: flow 'f': no way from 'x' to 'y'"});
  for (const char* kind : {"pairs", "permutation", "all-to-all", "poisson"}) {
    const std::string load = std::string(kind) == "poisson" ? "load = 0.5\n" : "";
    const std::string table = "[[traffic]]\nkind = \"" + std::string(kind) + "\"\n" + load;
    std::string text = parted;
    text.replace(text.find("[[flow]]\nname = \"f\"\n"), 20, table);
    Scenario scenario;
    const std::string error = parse_scenario(text, "s.toml", {}, &scenario).text;
    EXPECT_NE(error.find("no way from 'x' to 'y'"), std::string::npos) << error;
    EXPECT_NE(error.find("[[traffic]] to: traffic '" + std::string(kind)), std::string::npos);
  }
}

TEST(ScenarioMistakes, WhatIsTooLargeIsRefusedBeforeItIsMade) {
  const char* const topology = "kind = \"testbed\"\nservers = 2\n";
  const Case cases[] = {
      {topology, "kind = \"leaf-spine\"\nleaves = 1000\nhosts_per_leaf = 1000\n",
       "s.toml:3:10: [topology] leaves: expected at most 200000 hosts in all, not 1000000"},
      {topology,
       "kind = \"three-tier\"\npods = 1000\ntors = 200\naggs = 250\ncores = 250\nhosts_per_tor = "
       "1\n",
       "s.toml:3:8: [topology] pods: expected at most 500000 links in all, not 50450000"},
      {topology,
       "kind = \"three-tier\"\npods = 1000\ntors = 100\naggs = 1\ncores = 1\nhosts_per_tor = 1\n",
       "s.toml:3:8: [topology] pods: expected at most 50000000 pairs of a switch and one that"},
      {topology, "kind = \"fat-tree\"\nk = 64\noversubscription = 16\n",
       "s.toml:4:20: [topology] oversubscription: expected at most 200000 hosts"},
      {"[topology]", "sample_us = 0.001\nduration_us = 3.6e9\n[topology]",
       "s.toml:1:13: the scenario sample_us: expected at least "},
      {"[topology]", "queue_sample_us = 1e-6\n[topology]",
       "s.toml:1:19: the scenario queue_sample_us: expected at least "},
      {"servers = 2", "servers = 2\nbase_rtt_us = 0.74",
       "s.toml:4:15: [topology] base_rtt_us: expected at least 0.75, which serialisation takes"},
      {"servers = 2", "servers = 2\naccess_gbps = 0.1",
       "s.toml:1:1: [topology] base_rtt_us: expected at least "},
  };
  for (const Case& c : cases) expect_refused(kSmall, c);
  Scenario scenario;
  EXPECT_EQ(parse_scenario(kSmall, "s.toml", {"topology.base_rtt_us=0.75"}, &scenario).text, "");
  EXPECT_EQ(parse_scenario(kSmall, "s.toml",
                           {"topology.access_gbps=0.1", "topology.link_delay_us=1"}, &scenario)
                .text,
            "");
}

// A value at its limit is accepted.
TEST(ScenarioMistakes, WhatIsNamedAsEnoughIsTaken) {
  for (const char* key : {"sample_us", "queue_sample_us"}) {
    const std::string line = std::string(key) + "=1e-3";
    Overrides overrides = {"duration_us=3.6e9", "sample_us=1e6", "queue_sample_us=1e6", line};
    Scenario scenario;
    const std::string error = parse_scenario(kSmall, "s.toml", overrides, &scenario).text;
    const std::string before = "expected at least ";
    const size_t at = error.find(before);
    ASSERT_NE(at, std::string::npos) << error;
    const size_t end = error.find(':', at);
    overrides.back() =
        std::string(key) + "=" + error.substr(at + before.size(), end - at - before.size());
    EXPECT_EQ(parse_scenario(kSmall, "s.toml", overrides, &scenario).text, "") << overrides.back();
  }
}

}  // namespace
}  // namespace mprdma::switchsim
