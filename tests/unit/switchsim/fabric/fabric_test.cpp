// Frames through the network: which host gets them, when and in what state; frames that no host may
// get.
#include "switchsim/fabric/fabric.hpp"

#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "switchsim/fabric/turn_pause.hpp"
#include "tests/unit/switchsim/fabric/fabric_support.hpp"

namespace mprdma::switchsim {
namespace {

using testing::Bytes;
using testing::topology_text;
using testing::TwoHosts;

uint64_t packets_on(const Fabric& fabric, LinkId link) {
  return fabric.link_counters(2 * link).packets + fabric.link_counters(2 * link + 1).packets;
}

TEST(Fabric, AFrameArrivesUnchangedAfterTheDelayOfItsPath) {
  TwoHosts net;
  const Bytes frame = net.frame(0, 50000);
  net.send(0, frame);
  net.run(Duration::us(12));  // two host links of 1 us each and 10 us do not fit
  EXPECT_TRUE(net.inbox(1).empty());
  net.run(Duration::us(50));
  ASSERT_EQ(net.inbox(1).size(), 1u);
  EXPECT_EQ(net.inbox(1)[0], frame);
  EXPECT_TRUE(net.inbox(0).empty());
  EXPECT_EQ(net.fabric->frames_in_use(), 0u);
}

TEST(Fabric, ATurnCountsTheFramesThatItTakesInAndHandsOut) {
  TwoHosts net;
  net.fabric->turn(net.now);
  EXPECT_EQ(net.fabric->frames_moved(), 0u);
  for (int i = 0; i < 3; ++i) net.send(0, net.frame(0, 50000));
  net.fabric->turn(net.now);
  EXPECT_EQ(net.fabric->frames_moved(), 3u);
  net.fabric->turn(net.now + Duration::us(100));
  EXPECT_EQ(net.inbox(1).size(), 3u);
  EXPECT_EQ(net.fabric->frames_moved(), 3u);
  net.fabric->turn(net.now + Duration::us(200));
  EXPECT_EQ(net.fabric->frames_moved(), 0u);
}

TEST(TurnPause, IsLongerWhileFramesStream) {
  const auto us = [](int64_t n) { return Duration::us(n); };
  EXPECT_EQ(turn_pause(kStreamFrames - 1, us(0)), us(25)) << "an event that is due";
  EXPECT_EQ(turn_pause(kStreamFrames - 1, us(40)), us(40));
  EXPECT_EQ(turn_pause(kStreamFrames - 1, Duration::infinite()), us(50));
  EXPECT_EQ(turn_pause(kStreamFrames, us(40)), us(50));
  EXPECT_EQ(turn_pause(kStreamFrames, us(70)), us(70));
  EXPECT_EQ(turn_pause(kStreamFrames, Duration::infinite()), us(100));
}

TEST(Fabric, VirtualPathsSpreadOverAllLinksAndEachKeepsItsOwn) {
  TwoHosts net;
  for (uint16_t vp = 0; vp < 64; ++vp) {
    net.send(0, net.frame(0, static_cast<uint16_t>(49152 + vp)));
    net.run(Duration::us(20));
  }
  net.run(Duration::ms(1));
  for (LinkId path = 2; path < 6; ++path) EXPECT_GT(packets_on(*net.fabric, path), 4u);
  const uint64_t before = packets_on(*net.fabric, 2);
  const uint64_t total = packets_on(*net.fabric, 2) + packets_on(*net.fabric, 3) +
                         packets_on(*net.fabric, 4) + packets_on(*net.fabric, 5);
  EXPECT_EQ(total, 64u);
  for (int i = 0; i < 10; ++i) net.send(0, net.frame(0, 49152));
  net.run(Duration::ms(1));
  const uint64_t more = packets_on(*net.fabric, 2) - before;
  EXPECT_TRUE(more == 0 || more == 10) << more;
}

TEST(Fabric, ADownLinkLosesItsPacketsAndArpStillPasses) {
  TwoHosts net(topology_text(1));
  LinkChange down;
  down.up = false;
  net.fabric->apply(2, down, 3);
  net.send(0, net.frame(0, 50000));
  net.send(0, net.arp_request(0));
  net.run(Duration::ms(1));
  ASSERT_EQ(net.inbox(1).size(), 1u);
  EXPECT_EQ(net.inbox(1)[0], net.arp_request(0));
  EXPECT_EQ(net.fabric->counters(0).frames_flooded, 1u);
  LinkChange up;
  up.up = true;
  net.fabric->apply(2, up, 3);
  net.send(0, net.frame(0, 50000));
  net.run(Duration::ms(1));
  EXPECT_EQ(net.inbox(1).size(), 2u);
  EXPECT_EQ(net.fabric->frames_in_use(), 0u);
}

TEST(Fabric, AHostWithoutACableGetsNoArpEither) {
  TwoHosts net;
  LinkChange down;
  down.up = false;
  net.fabric->apply(1, down, 3);
  net.send(0, net.arp_request(0));
  net.run(Duration::ms(1));
  EXPECT_TRUE(net.inbox(1).empty());
}

TEST(Fabric, AQueueAboveItsThresholdMarks) {
  TwoHosts net(topology_text(1, "red = [1.0, 2, 2]\n"));
  for (int i = 0; i < 20; ++i) net.send(0, net.frame(0, 50000));
  net.run(Duration::ms(1));
  ASSERT_EQ(net.inbox(1).size(), 20u);
  unsigned marked = 0;
  for (const Bytes& bytes : net.inbox(1)) {
    wire::DecodedFrame decoded;
    ASSERT_EQ(wire::decode_frame(bytes, decoded, true), wire::DropReason::kNone);
    marked += decoded.packet.ce;
  }
  EXPECT_GT(marked, 10u);
  EXPECT_EQ(marked, net.fabric->link_counters(4).marked);
}

TEST(Fabric, AFullHostLinkHoldsTheHostBackAndLosesNothing) {
  TwoHosts net(
      "paths = 1\n[path]\nrate = \"10Gbps\"\nqueue_kb = 5000\n"
      "[[hosts]]\nname = \"h0\"\nip = \"10.73.0.1/24\"\nrate = \"100Mbps\"\n"
      "[[hosts]]\nname = \"h1\"\nip = \"10.73.0.2/24\"\n");
  for (int i = 0; i < 400; ++i) net.send(0, net.frame(0, 50000));
  net.run(Duration::ms(1));
  EXPECT_GT(net.fabric->counters(0).back_pressure, 0u);
  EXPECT_GT(net.wires[0]->side[1].incoming.size(), 200u);  // still with the host
  EXPECT_TRUE(net.fabric->arm());                          // and no reason to stay awake
  net.fabric->disarm();
  net.run(Duration::ms(50));
  EXPECT_EQ(net.inbox(1).size(), 400u);
}

TEST(Fabric, AHostThatTakesNothingLosesItsFramesAndNobodyElses) {
  TwoHosts net;
  net.wires[1]->room = 4;
  for (int i = 0; i < 10; ++i) net.send(0, net.frame(0, 50000));
  for (int i = 0; i < 10; ++i) net.send(1, net.frame(1, 50000));
  net.run(Duration::ms(1));
  EXPECT_EQ(net.inbox(1).size(), 4u);
  EXPECT_EQ(net.inbox(0).size(), 10u);
  EXPECT_EQ(net.fabric->counters(1).drop_host_slow, 6u);
  net.fabric_ports[1]->up = false;
  net.send(0, net.frame(0, 50000));
  net.run(Duration::ms(1));
  EXPECT_EQ(net.fabric->counters(1).drop_host_away, 1u);
  EXPECT_EQ(net.fabric->frames_in_use(), 0u);
}

TEST(Fabric, FramesToNobodyAreCountedDrops) {
  TwoHosts net;
  Bytes stray = net.frame(0, 50000);
  stray[5] ^= 0xff;  // an address of nobody, but the IP address of host 1
  net.send(0, stray);
  net.run(Duration::ms(1));
  EXPECT_EQ(net.inbox(1).size(), 1u);
  stray[33] = 99;  // 10.73.0.99; the checksum follows
  wire::Ipv4Header::load(stray.data() + 14).store(stray.data() + 14);
  net.send(0, stray);
  net.send(0, net.frame(1, 50000));  // from host 0, to host 0
  net.send(0, Bytes(13));
  net.send(0, Bytes(5000));
  net.run(Duration::ms(1));
  const FabricCounters& counters = net.fabric->counters(0);
  EXPECT_EQ(counters.drop_unknown_destination, 1u);
  EXPECT_EQ(counters.drop_to_itself, 1u);
  EXPECT_EQ(counters.drop_short, 1u);
  EXPECT_EQ(counters.drop_long, 1u);
  EXPECT_EQ(net.fabric->frames_in_use(), 0u);
}

TEST(Fabric, TheIcrcIsFilledInBetweenAPortWithoutAndAPortWithIt) {
  TwoHosts net;
  net.wires[0]->can_corrupt = false;
  TwoHosts mixed;  // ports say what they are when the fabric is made
  mixed.wires[0]->can_corrupt = false;
  std::vector<std::unique_ptr<dataplane::Port>> ports;
  for (size_t i = 0; i < 2; ++i) {
    ports.push_back(
        std::make_unique<testing::MemoryPort>(mixed.wires[i], 1, mixed.config.hosts[i].mac));
  }
  mixed.fabric = std::make_unique<Fabric>(mixed.config, std::move(ports), Time());
  mixed.send(0, mixed.frame(0, 50000, false));
  mixed.run(Duration::ms(1));
  ASSERT_EQ(mixed.inbox(1).size(), 1u);
  wire::DecodedFrame decoded;
  EXPECT_EQ(wire::decode_frame(mixed.inbox(1)[0], decoded, true), wire::DropReason::kNone);
}

TEST(Fabric, AStormOfBroadcastsTakesNoBufferFromOthers) {
  TwoHosts net;
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 32; ++i) net.send(0, net.arp_request(0));
    net.fabric->turn(net.now);  // time stands still: nothing leaves
  }
  EXPECT_GT(net.fabric->counters(0).drop_flood_full, 0u);
  net.send(1, net.frame(1, 50000));
  net.inbox(0).clear();
  net.run(Duration::ms(1));
  EXPECT_EQ(net.inbox(0).size(), 1u);
}

TEST(Fabric, AnyBytesFromAHostAreDropsOrDeliveries) {
  TwoHosts net;
  Prng prng(99);
  for (int round = 0; round < 3000; ++round) {
    Bytes bytes = round % 2 == 0 ? net.frame(0, 50000) : net.arp_request(0);
    for (uint64_t hits = prng.below(8); hits > 0; --hits) {
      bytes[prng.below(std::min<uint64_t>(bytes.size(), 60))] =
          static_cast<unsigned char>(prng.next_u64());
    }
    if (prng.below(4) == 0) bytes.resize(prng.below(bytes.size() + 1));
    net.send(0, std::move(bytes));
    net.run(Duration::us(10));
  }
  net.run(Duration::ms(10));
  EXPECT_EQ(net.fabric->frames_in_use(), 0u);
  EXPECT_EQ(net.fabric->counters(0).frames_in, 3000u);
}

}  // namespace
}  // namespace mprdma::switchsim
