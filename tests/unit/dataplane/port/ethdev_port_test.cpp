// EthdevPort on DPDK's virtual devices: no privilege needed, but for the packet socket.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "dataplane/open_port.hpp"
#include "dataplane/port/dpdk/ethdev_device.hpp"
#include "tests/unit/dataplane/port/peer_process.hpp"
#include "tests/unit/dataplane/port/port_test_support.hpp"

namespace mprdma::dataplane {
namespace {

using testing::kill_peers;
using testing::now;
using testing::read_pattern;
using testing::send_patterns;
using testing::until;
using testing::WireDirectory;

std::unique_ptr<Port> open_device(const std::string& devargs) {
  PortResult result = open_port("ethdev:" + devargs);
  EXPECT_TRUE(result) << result.status.text;
  return std::move(result.port);
}

EthdevSpec parsed(const std::string& text) {
  EthdevSpec spec;
  const Status status = parse_ethdev_spec(text, &spec);
  EXPECT_TRUE(status.ok()) << status.text;
  return spec;
}

TEST(EthdevSpec, DefaultsFillInWhatTheUserDidNotSay) {
  const EthdevSpec spec = parsed("net_virtio_user3,path=/tmp/s,queue_size=512");
  EXPECT_EQ(spec.name, "net_virtio_user3");
  EXPECT_EQ(spec.driver, "net_virtio_user");
  EXPECT_EQ(spec.args, "path=/tmp/s,queue_size=512,queues=1,mrg_rxbuf=1,in_order=1");
  EXPECT_FALSE(spec.listens);
  EXPECT_EQ(spec.eal.memory_mb, 256u);
}

TEST(EthdevSpec, OwnOptionsFollowASemicolon) {
  const EthdevSpec spec = parsed("net_vhost0,iface=/tmp/s;mem=512;hugepages=1");
  EXPECT_TRUE(spec.listens);
  EXPECT_EQ(spec.socket_path, "/tmp/s");
  EXPECT_EQ(spec.eal.memory_mb, 512u);
  EXPECT_TRUE(spec.eal.hugepages);
  for (const char* option :
       {"memory=1", "mem=63", "hugepages=2", "vlan=4095", "vlan=", "pcp=8", "pcp=-1", "vlan=1x"}) {
    EthdevSpec bad;
    const Status status = parse_ethdev_spec(std::string("net_null0;") + option, &bad);
    EXPECT_EQ(status.error, EINVAL) << option;
    EXPECT_NE(status.text.find("mem=MB"), std::string::npos) << option;
  }
}

TEST(EthdevSpec, AVlanOrAPriorityIsATag) {
  EXPECT_FALSE(parsed("net_null0").vlan);
  const EthdevSpec both = parsed("net_null0;vlan=100;pcp=5");
  ASSERT_TRUE(both.vlan);
  EXPECT_EQ(both.vlan->vid, 100);
  EXPECT_EQ(both.vlan->pcp, 5);
  EXPECT_EQ(both.frame_bytes_max() + 4, parsed("net_null0").frame_bytes_max());
  ASSERT_TRUE(parsed("net_null0;pcp=3").vlan);
  EXPECT_EQ(parsed("net_null0;pcp=3").vlan->vid, 0) << "a tag with only a priority";
}

TEST(EthdevSpec, APciAddressTakesThePciBusIntoUse) {
  const EthdevSpec spec = parsed("0000:03:00.0,arg=1");
  EXPECT_TRUE(spec.is_pci());
  EXPECT_EQ(spec.name, "0000:03:00.0");
  EXPECT_EQ(spec.eal.pci_address, "0000:03:00.0,arg=1");
  EXPECT_TRUE(parsed("net_null0").eal.pci_address.empty());
}

// The other tests need the module, which is built where DPDK is installed.
class EthdevPortTest : public ::testing::Test {
 protected:
  void SetUp() override {
#ifndef MPRDMA_HAVE_DPDK
    GTEST_SKIP() << "built without DPDK";
#endif
  }
  [[nodiscard]] std::string virtio_user(const char* more) const {
    return "net_virtio_user0,path=" + directory_.wire() + more;
  }
  [[nodiscard]] std::string vhost(const char* more) const {
    return "net_vhost0,iface=" + directory_.wire() + more;
  }

  WireDirectory directory_;
};

TEST_F(EthdevPortTest, ErrorsSayWhatToDo) {
  const auto message = [](const std::string& devargs) {
    const PortResult result = open_port("ethdev:" + devargs);
    EXPECT_FALSE(result);
    EXPECT_NE(result.status.error, 0);
    return result.status.text;
  };
  EXPECT_NE(message(virtio_user("")).find("server=1"), std::string::npos);
  EXPECT_NE(message("net_af_packet0,iface=nosuchif").find("ip link"), std::string::npos);
  EXPECT_NE(message("net_memif0").find("local:"), std::string::npos);
  const auto holder = open_device(vhost(""));
  EXPECT_NE(message("net_vhost1,iface=" + directory_.wire()).find("another process"),
            std::string::npos);
}

TEST_F(EthdevPortTest, TheBufferThatWasFreedLastIsTheNext) {
  auto port = open_device("net_null0");
  ASSERT_NE(port, nullptr);
  TxFrame first{};
  TxFrame next{};
  ASSERT_EQ(port->tx_reserve(&first, 1), 1u);
  port->tx_abandon(&first, 1);
  ASSERT_EQ(port->tx_reserve(&next, 1), 1u);
  EXPECT_EQ(next.payload, first.payload);
  port->tx_abandon(&next, 1);
}

TEST_F(EthdevPortTest, ADeviceThatWaitsForItsPeerOpensAndClosesWithoutOne) {
  for (int i = 0; i < 2; ++i) {
    const auto port = open_device(virtio_user(",server=1"));
    ASSERT_NE(port, nullptr);
    port->service(now());
    EXPECT_FALSE(port->link_up());
    EXPECT_EQ(send_patterns(*port, 0, kBurst), kBurst);
    EXPECT_EQ(port->stats().tx_dropped, kBurst);
    EXPECT_TRUE(port->arm());
  }
}

TEST_F(EthdevPortTest, AnArmedPortIsWokenByAFrameFromAVhostUserPeer) {
  const auto a = open_device(virtio_user(",server=1"));
  const auto b = open_device(vhost(",client=1"));
  const auto service_both = [&] {
    a->service(now());
    b->service(now());
    return a->link_up() && b->link_up();
  };
  ASSERT_TRUE(until(service_both, Duration::s(10)));
  EXPECT_NE(a->info().mac, b->info().mac);
  for (const bool forth : {true, false}) {
    Port* from = forth ? a.get() : b.get();
    Port* to = forth ? b.get() : a.get();
    ASSERT_GE(to->notify_fd(), 0);
    RxFrame frame{};
    ASSERT_TRUE(until([&] {  // the queues come up a little after the link
      service_both();
      send_patterns(*from, 1, 1);
      if (to->rx_burst(&frame, 1) == 0) return false;
      to->rx_release(&frame.cookie, 1);
      return true;
    }));
    ASSERT_TRUE(until([&] {
      service_both();
      while (to->rx_burst(&frame, 1) == 1) to->rx_release(&frame.cookie, 1);
      return to->arm();
    }));
    pollfd entry{to->notify_fd(), POLLIN, 0};
    send_patterns(*from, 42, 1);
    EXPECT_EQ(poll(&entry, 1, 2000), 1);
    to->disarm();
    ASSERT_EQ(to->rx_burst(&frame, 1), 1u);
    EXPECT_EQ(read_pattern(frame), 42u);
    to->rx_release(&frame.cookie, 1);
  }
}

// The null device receives frames of zeros, which have no tag. Several pairs of virtio-user and
// vhost in one process, one after the other, are more than DPDK stands.
TEST_F(EthdevPortTest, FramesWithoutATagAreOfNoVlan) {
  for (const char* options : {"", ";vlan=0;pcp=3", ";vlan=100"}) {
    SCOPED_TRACE(options);
    const auto port = open_device(std::string("net_null0") + options);
    port->service(now());
    ASSERT_TRUE(port->link_up());
    RxFrame frame{};
    const bool other = std::string_view(options) == ";vlan=100";
    EXPECT_EQ(port->rx_burst(&frame, 1), other ? 0u : 1u);
    EXPECT_EQ(port->stats().rx_other_vlan, other ? 1u : 0u);
    if (!other) port->rx_release(&frame.cookie, 1);
    send_patterns(*port, 7, 1);
    EXPECT_EQ(port->stats().tx_bytes, testing::pattern_bytes(7)) << "without the tag";
  }
}

TEST_F(EthdevPortTest, AVirtioUserServerSurvivesKilledPeers) {
  const auto port = open_device(virtio_user(",server=1"));
  kill_peers(*port, "ethdev:" + vhost(",client=1"), 10, Duration::s(15));
  EXPECT_GE(port->stats().link_ups, 10u);
}

TEST_F(EthdevPortTest, AVhostUserClientSurvivesKilledServers) {
  const auto port = open_device(vhost(",client=1"));
  kill_peers(*port, "ethdev:" + virtio_user(",server=1"), 4, Duration::s(15));
  EXPECT_GE(port->stats().link_ups, 4u);
}

TEST_F(EthdevPortTest, PacketSocketsCarryJumboFramesOverAVethPair) {
  const pid_t pid = fork();
  if (pid == 0) {
    execl("/proc/self/exe", "unit_dataplane_ports", "--veth", nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no network namespace of our own here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace mprdma::dataplane
