#include "dataplane/daemon/config.hpp"

#include <gtest/gtest.h>

#include "base/ipv4.hpp"
#include "tests/support/print.hpp"

namespace mprdma::dataplane::mprdmad {
namespace {

const Environment kNothing = [](const char*) -> const char* { return nullptr; };

std::string apply(const std::string& text, DaemonConfig* config) {
  return apply_daemon_toml(text, "f.toml", config).text;
}

TEST(DaemonConfig, TakesEveryKey) {
  DaemonConfig config;
  EXPECT_EQ(apply("[device]\nname='r0'\naddress='192.168.7.1/24'\nmac='02:00:00:00:00:07'\n"
                  "mtu=2048\n[port]\nspec='local:/tmp/w'\nlink_mbps=25000\npfc=true\n"
                  "pfc_priority=3\n[daemon]\nsocket='/tmp/s'\n"
                  "gateway='192.168.7.254'\nallowed_uids=[1000, 7]\nslots=1024\n"
                  "[metrics]\nlisten='127.0.0.1:9473'\n"
                  "[kernel]\ntap='rdma-tap'\nshared_address=true\n",
                  &config),
            "");
  EXPECT_EQ(complete_daemon_config(kNothing, 5, &config).text, "");
  EXPECT_EQ(config.device_name, "r0");
  EXPECT_EQ(config.ipv4, Ipv4(0xc0a80701));
  EXPECT_EQ(config.prefix_bits, 24u);
  EXPECT_EQ(config.mac, (wire::MacAddress{2, 0, 0, 0, 0, 7}));
  EXPECT_EQ(config.mtu, 2048u);
  EXPECT_EQ(config.port_spec, "local:/tmp/w");
  EXPECT_EQ(config.link_mbps, 25000u);
  EXPECT_TRUE(config.pfc);
  EXPECT_EQ(config.pfc_priority, std::optional<uint8_t>(3));
  EXPECT_EQ(config.socket, "/tmp/s");
  EXPECT_EQ(config.gateway, Ipv4(0xc0a807fe));
  EXPECT_EQ(config.uids, (std::vector<uid_t>{1000, 7}));
  EXPECT_EQ(config.slots, 1024u);
  EXPECT_EQ(config.metrics, "127.0.0.1:9473");
  EXPECT_EQ(config.tap, "rdma-tap");
  EXPECT_TRUE(config.shared_address);
}

TEST(DaemonConfig, SaysWhereAndWhatIsWrong) {
  DaemonConfig config;
  EXPECT_EQ(apply("[daemon]\nslot=4\n", &config),
            "f.toml:2:1: unknown key 'slot' in [daemon]; known: socket, gateway, allowed_uids, "
            "slots, direct_rings");
  EXPECT_EQ(
      apply("[transport]\n", &config),
      "f.toml:1:2: unknown table or key 'transport'; known tables: device, port, daemon, metrics, "
      "kernel");
  EXPECT_EQ(apply("[daemon]\nallowed_uids=[1,'x']\n", &config),
            "f.toml:2:14: daemon.allowed_uids: expected a list of user ids, like [1000, 1001]");
  EXPECT_NE(apply("[daemon]\nslots=300\n", &config), "");
  EXPECT_EQ(apply("[daemon]\ndirect_rings='some'\n", &config),
            "f.toml:2:14: daemon.direct_rings: expected \"off\", \"same-user\" or \"all\"");
  EXPECT_EQ(config.rings, RingPolicy::kSameUser);
  EXPECT_NE(apply("[daemon]\nsocket='relative'\n", &config), "");
  for (const char* bad : {"127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:1x", ":9473",
                          "127.0.0.1/8:9473", "host:9473", "9473"}) {
    EXPECT_FALSE(valid_listen_address(bad)) << bad;
  }
  EXPECT_TRUE(valid_listen_address("0.0.0.0:9473"));
}

TEST(DaemonConfig, ATapNeedsAPortAndASharedAddressATap) {
  DaemonConfig config;
  ASSERT_EQ(apply("[device]\naddress='10.0.0.1/24'\n[kernel]\ntap='t'\n", &config), "");
  EXPECT_NE(complete_daemon_config(kNothing, 5, &config).text, "");
  config.port_spec = "local:/tmp/w";
  EXPECT_EQ(complete_daemon_config(kNothing, 5, &config).text, "");
  config.tap.clear();
  config.shared_address = true;
  EXPECT_NE(complete_daemon_config(kNothing, 5, &config).text, "");
  for (const char* name : {"", "a/b", "sixteen-letters-", "a b", ".."}) {
    EXPECT_NE(apply_daemon_toml("[kernel]\ntap='" + std::string(name) + "'\n", "f", &config).text,
              "")
        << name;
  }
}

TEST(DaemonConfig, TheGatewayIsOnTheSubnet) {
  DaemonConfig config;
  EXPECT_NE(complete_daemon_config(kNothing, 5, &config).text, "");  // no address
  ASSERT_EQ(apply("[device]\naddress='10.0.0.1/24'\n[daemon]\ngateway='10.0.1.1'\n", &config), "");
  EXPECT_NE(complete_daemon_config(kNothing, 5, &config).text, "");
  config.gateway = config.ipv4;
  EXPECT_NE(complete_daemon_config(kNothing, 5, &config).text, "");
  config.gateway = Ipv4(0x0a0000fe);
  EXPECT_EQ(complete_daemon_config(kNothing, 5, &config).text, "");
  EXPECT_EQ(config.socket, "/tmp/mprdma-5/mprdmad.sock");
}

}  // namespace
}  // namespace mprdma::dataplane::mprdmad
