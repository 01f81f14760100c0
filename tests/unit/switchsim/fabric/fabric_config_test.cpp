// Topology files: the fabric that they describe, and the messages about mistakes in them.
#include "switchsim/fabric/fabric_config.hpp"

#include <gtest/gtest.h>

namespace mprdma::switchsim {
namespace {

constexpr const char* kHosts =
    "[[hosts]]\nname = \"h0\"\nip = \"10.73.0.1/24\"\n"
    "[[hosts]]\nname = \"h1\"\nip = \"10.73.0.2/24\"\n";

std::string parse(const std::string& text, FabricConfig* out) {
  return parse_fabric(text, "t.toml", out).text;
}

std::string error_of(const std::string& text) {
  FabricConfig config;
  return parse(text, &config);
}

TEST(FabricConfig, PathsMakeTwoSwitchesAndLinksBetweenThem) {
  FabricConfig config;
  ASSERT_EQ(parse(std::string("paths = 4\n[path]\nrate = \"200Mbps\"\nloss = \"1%\"\n") + kHosts,
                  &config),
            "");
  EXPECT_EQ(config.switches, (std::vector<std::string>{"tor1", "tor2"}));
  ASSERT_EQ(config.topology.links.size(), 6u);
  EXPECT_EQ(config.topology.links[0].name, "h0");
  EXPECT_EQ(config.topology.links[0].b, 2u);
  EXPECT_EQ(config.topology.links[1].b, 3u);
  EXPECT_EQ(config.topology.links[2].name, "path1");
  EXPECT_EQ(config.topology.links[5].name, "path4");
  EXPECT_EQ(config.topology.links[5].ba.rate, LinkRate::bps(200'000'000));
  EXPECT_EQ(config.topology.links[5].ba.loss_ppm, 10'000u);
  EXPECT_FALSE(config.reroute);
}

TEST(FabricConfig, HostsHaveTheEthernetAddressThatMprdmaRunGivesThem) {
  FabricConfig config;
  ASSERT_EQ(parse(std::string("paths = 1\n[path]\nrate = \"1Gbps\"\n") + kHosts, &config), "");
  EXPECT_EQ(config.hosts[1].mac, (wire::MacAddress{0x02, 0x4d, 0x52, 0x49, 0x00, 0x02}));
}

TEST(FabricConfig, TheTwoEndsOfAPortNameTheSameSocket) {
  FabricConfig config;
  ASSERT_EQ(parse(std::string("paths = 1\n[path]\nrate = \"1Gbps\"\n") + kHosts, &config), "");
  config.hosts[0].path = "/r/h0.sock";
  EXPECT_EQ(config.hosts[0].fabric_port(0), "local:/r/h0.sock,role=listen");
  EXPECT_EQ(config.hosts[0].application_port(), "local:/r/h0.sock,role=dial");
  config.hosts[1].kind = PortKind::kVhost;
  config.hosts[1].path = "/r/h1.sock";
  EXPECT_EQ(config.hosts[1].fabric_port(1), "ethdev:net_vhost1,iface=/r/h1.sock,client=1");
  EXPECT_EQ(config.hosts[1].application_port(), "ethdev:net_virtio_user0,path=/r/h1.sock,server=1");
}

TEST(FabricConfig, LinksCanBeWrittenOutOneByOne) {
  FabricConfig config;
  ASSERT_EQ(parse("switches = [\"a\", \"b\"]\nreroute_ms = 5\n"
                  "[[hosts]]\nname = \"x\"\nip = \"10.0.0.1/8\"\nswitch = \"a\"\n"
                  "[[hosts]]\nname = \"y\"\nip = \"10.0.0.2/8\"\nswitch = \"b\"\nport = \"vhost\"\n"
                  "[[links]]\nname = \"l\"\na = \"a\"\nb = \"b\"\nrate = \"1Gbps\"\n"
                  "red = [1.0, 20, 60]\nqueue_kb = 100\ndelay_us = 2.5\n",
                  &config),
            "");
  const LinkConfig& link = config.topology.links.at(2);
  EXPECT_EQ(link.ab.red.kmax_bytes, 60'000u);
  EXPECT_EQ(link.ab.queue_bytes_max, 100'000u);
  EXPECT_EQ(link.ab.delay, SimSpan::ns(2500));
  EXPECT_TRUE(config.reroute);
  EXPECT_EQ(config.hosts[1].kind, PortKind::kVhost);
}

TEST(FabricConfig, AnErrorNamesFileLineAndKey) {
  const struct {
    std::string text;
    const char* says;
  } kWrong[] = {
      {"paths = \n", "t.toml:1:"},
      {std::string("pahts = 4\nswitches = [\"a\"]\n") + kHosts, "t.toml:1:1: unknown key 'pahts'"},
      {std::string("paths = 4\n[path]\nrate = \"200\"\n") + kHosts, "t.toml:3:8: [path] rate"},
      {std::string("paths = 4\n[path]\nspeed = 1\nrate = \"1Gbps\"\n") + kHosts,
       "t.toml:3:1: unknown key 'speed'"},
      {std::string("paths = 4\n") + kHosts, "[path]"},
      {"paths = 4\n[path]\nrate = \"1Gbps\"\n[[hosts]]\nname = \"h0\"\nip = \"10.0.0.1/8\"\n",
       "t.toml:4"},
      {"paths = 1\n[path]\nrate = \"1Gbps\"\n[[hosts]]\nname = \"h\"\nip = \"10.0.0.1/8\"\n"
       "[[hosts]]\nname = \"h\"\nip = \"10.0.0.2/8\"\n",
       "t.toml:8:8: [[hosts]] name"},
      {"paths = 1\n[path]\nrate = \"1Gbps\"\n[[hosts]]\nname = \"h\"\nip = \"10.0.0.1/8\"\n"
       "[[hosts]]\nname = \"g\"\nip = \"10.0.0.1/8\"\n",
       "t.toml:9:6: [[hosts]] ip"},
      {std::string("paths = 1\nswitches = [\"a\"]\n[path]\nrate = \"1Gbps\"\n") + kHosts,
       "exclude each other"},
      {std::string("paths = 1\n[path]\nrate = \"1Gbps\"\n") + kHosts + "port = \"memif\"\n",
       "[[hosts]] port"},
      {std::string("paths = 1\n[path]\nrate = \"1Gbps\"\n") + kHosts + "path = \"/a,b\"\n",
       "[[hosts]] path"},
      {"switches = [\"a\", \"b\"]\n"
       "[[hosts]]\nname = \"x\"\nip = \"10.0.0.1/8\"\nswitch = \"a\"\n"
       "[[hosts]]\nname = \"y\"\nip = \"10.0.0.2/8\"\nswitch = \"b\"\n",
       "no links lead from x to y"},
  };
  for (const auto& [text, says] : kWrong) {
    EXPECT_NE(error_of(text).find(says), std::string::npos) << text << "\n-> " << error_of(text);
  }
}

TEST(FabricConfig, TheSampleTopologiesLoad) {
  FabricConfig config;
  EXPECT_EQ(
      load_fabric(MPRDMA_SOURCE_ROOT "/switchsim/scenarios/fabric-four-paths.toml", &config).text,
      "");
  EXPECT_EQ(
      load_fabric(MPRDMA_SOURCE_ROOT "/switchsim/scenarios/fabric-leaf-spine.toml", &config).text,
      "");
}

}  // namespace
}  // namespace mprdma::switchsim
