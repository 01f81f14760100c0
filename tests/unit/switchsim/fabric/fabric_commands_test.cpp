// The requests of the control socket, and the page that lists what `show` counts.
#include "switchsim/fabric/fabric_commands.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/operations_page.hpp"
#include "tests/unit/switchsim/fabric/fabric_support.hpp"

namespace mprdma::switchsim {
namespace {

using nlohmann::json;
using testing::TwoHosts;

struct Commands : TwoHosts {
  json ask(const std::string& request) { return json::parse(answer(request, *fabric, &status)); }
  json set(const std::string& link, const std::vector<std::string>& changes) {
    return ask(json{{"command", "set"}, {"link", link}, {"changes", changes}}.dump());
  }
  json direction(size_t link, size_t which) {
    return ask(R"({"command": "show"})")["links"][link]["directions"][which];
  }
  FabricStatus status;
};

TEST(FabricCommands, ShowHasHostsLinksAndBothDirections) {
  Commands commands;
  const json shown = commands.ask(R"({"command": "show"})");
  EXPECT_EQ(shown["ok"], true);
  EXPECT_EQ(shown["hosts"].size(), 2u);
  EXPECT_EQ(shown["hosts"][1]["ip"], "10.73.0.2/24");
  ASSERT_EQ(shown["links"].size(), 6u);
  EXPECT_EQ(shown["links"][2]["name"], "path1");
  EXPECT_EQ(shown["links"][2]["directions"][0]["from"], "tor1");
  EXPECT_EQ(shown["links"][2]["directions"][1]["to"], "tor1");
  EXPECT_EQ(shown["links"][2]["directions"][0]["rate_bps"], 1'000'000'000);
}

TEST(FabricCommands, SetChangesBothDirectionsOrOne) {
  Commands commands;
  EXPECT_EQ(commands.set("path1", {"rate=100Mbps", "loss=1%"})["ok"], true);
  EXPECT_EQ(commands.direction(2, 0)["rate_bps"], 100'000'000);
  EXPECT_EQ(commands.direction(2, 1)["loss"], 0.01);
  EXPECT_EQ(commands.set("path2:ba", {"delay=1ms"})["ok"], true);
  EXPECT_EQ(commands.direction(3, 0)["delay_us"], 10.0);
  EXPECT_EQ(commands.direction(3, 1)["delay_us"], 1000.0);
  EXPECT_EQ(commands.set("path3", {"down"})["ok"], true);
  EXPECT_FALSE(commands.fabric->link_up(4));
}

TEST(FabricCommands, ARefusedSetChangesNothing) {
  Commands commands;
  const json refused = commands.set("path1", {"down", "rate=fast"});
  EXPECT_EQ(refused["ok"], false);
  EXPECT_NE(refused["error"].get<std::string>().find("rate=fast"), std::string::npos);
  EXPECT_TRUE(commands.fabric->link_up(2));
  EXPECT_NE(commands.set("path9", {"up"})["error"].get<std::string>().find("path4"),
            std::string::npos);
  EXPECT_EQ(commands.set("path1:ab", {"down"})["ok"], false);
}

TEST(FabricCommands, HostsTellAnApplicationWhatItIs) {
  Commands commands;
  const json host = commands.ask(R"({"command": "hosts"})")["hosts"][0];
  EXPECT_EQ(host["address"], "10.73.0.1/24");
  EXPECT_EQ(host["mac"], "02:4d:52:49:00:01");
  EXPECT_EQ(host["mtu"], 4096);
}

TEST(FabricCommands, AnyRequestHasAnAnswer) {
  Commands commands;
  for (const char* request :
       {"", "{", "[]", "7", "\"show\"", "{}", R"({"command": 7})", R"({"command": "up"})",
        R"({"command": "set"})", R"({"command": "set", "link": ["a"]})",
        R"({"command": "set", "link": "path1", "changes": "down"})",
        R"({"command": "set", "link": "path1", "changes": [7]})", "\xff\xfe",
        "{\"command\": \"set\", \"link\": \"\xff\"}"}) {
    EXPECT_EQ(commands.ask(request)["ok"], false) << request;
  }
  EXPECT_FALSE(commands.status.down);
  EXPECT_EQ(commands.ask(R"({"command": "down"})")["ok"], true);
  EXPECT_TRUE(commands.status.down);
}

TEST(OperationsPage, ListsEveryCounterOfTheFabric) {
  EXPECT_EQ(missing_rows<FabricCounters>(), "");
  EXPECT_EQ(missing_rows<FabricLoopCounters>(), "");
  EXPECT_EQ(missing_rows<LinkCounters>(), "");
}

}  // namespace
}  // namespace mprdma::switchsim
