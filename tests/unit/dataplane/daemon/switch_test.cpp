// Steering, policing, groups, and what becomes of a port without room.
#include "dataplane/daemon/switch.hpp"

#include <gtest/gtest.h>

#include "base/ipv4.hpp"
#include "tests/unit/dataplane/daemon/switch_bed.hpp"

namespace mprdma::dataplane::mprdmad {
namespace {

TEST(Switch, SendsWhatIsForOthersToTheWireByteForByte) {
  SwitchBed bed;
  bed.add(3);
  const Bytes frame = make_frame({.payload_bytes = 4096});
  bed.client_sends(3, frame);
  bed.run();
  EXPECT_EQ(bed.wire_gets(), std::vector<Bytes>{frame});
  EXPECT_EQ(bed.of(3).nic_frames_in, 1u);
  EXPECT_EQ(bed.sw.wire_counters().nic_frames_out, 1u);
}

TEST(Switch, SteersFromTheWireByQueuePairNumber) {
  SwitchBed bed;
  for (const uint32_t block : {0u, 1u, 127u}) bed.add(block);
  for (const uint32_t block : {0u, 1u, 127u}) {
    const Bytes frame = make_frame(from_peer({.dest_qpn = qpn_in(block)}));
    bed.wire_sends(frame);
    bed.run();
    for (const uint32_t other : {0u, 1u, 127u}) {
      EXPECT_EQ(bed.client_gets(other),
                block == other ? std::vector<Bytes>{frame} : std::vector<Bytes>{});
    }
  }
  bed.wire_sends(make_frame(from_peer({.dest_qpn = qpn_in(5)})));
  bed.wire_sends(make_frame(from_peer({.dest_qpn = Qpn(0)})));
  bed.wire_sends(make_frame(from_peer({.dest_qpn = wire::kMulticastQpn})));
  bed.run();
  EXPECT_EQ(bed.sw.wire_counters().nic_drop_unknown_qp, 3u);
}

TEST(Switch, RefusesFromTheWireWhatIsNotForUsOrInOurName) {
  SwitchBed bed;
  bed.add(1);
  FrameSpec spec = from_peer({.dest_qpn = qpn_in(1)});
  spec.dst_ip = kFarIp;
  bed.wire_sends(make_frame(spec));
  spec = from_peer({.dest_qpn = qpn_in(1)});
  spec.dst_mac = kPeerMac;
  bed.wire_sends(make_frame(spec));
  spec = from_peer({.dest_qpn = qpn_in(1)});
  spec.src_ip = kOurIp;
  bed.wire_sends(make_frame(spec));
  Bytes bad = make_frame(from_peer({.dest_qpn = qpn_in(1)}));
  bad[18] ^= 0xff;  // IP header
  bed.wire_sends(bad);
  bed.run();
  EXPECT_TRUE(bed.client_gets(1).empty());
  const StationCounters counters = bed.sw.wire_counters();
  EXPECT_EQ(counters.nic_drop_not_ours, 2u);
  EXPECT_EQ(counters.nic_drop_forged, 1u);
  EXPECT_EQ(counters.nic_drop_malformed, 1u);
}

TEST(Switch, BringsClientsOfOneHostTogetherWithAndWithoutAWire) {
  for (const bool with_wire : {true, false}) {
    SwitchBed bed(with_wire);
    bed.add(1);
    bed.add(2);
    const Bytes frame = make_frame({.dest_qpn = qpn_in(2), .dst_ip = kOurIp, .dst_mac = kOurMac});
    bed.client_sends(1, frame);
    bed.client_sends(1, make_frame({.dest_qpn = qpn_in(9), .dst_ip = kOurIp}));
    bed.run();
    EXPECT_EQ(bed.client_gets(2), std::vector<Bytes>{frame});
    EXPECT_TRUE(bed.wire_gets().empty());
    EXPECT_EQ(bed.of(1).nic_hairpin, 1u);
    EXPECT_EQ(bed.of(1).nic_drop_unknown_qp, 1u);
  }
}

TEST(Switch, NobodySpeaksInAnotherName) {
  SwitchBed bed;
  bed.add(1);
  bed.add(2);
  using wire::Opcode;
  const Bytes forged[] = {
      make_frame({.src_ip = kFarIp}),
      make_frame({.src_mac = kPeerMac}),
      make_frame({.opcode = Opcode::kUdSendOnly, .src_qpn = qpn_in(2)}),
      make_frame({.opcode = Opcode::kUdSendOnly, .src_qpn = Qpn(0)}),
      // A frame to queue pair 1 from another one, and from queue pair 1 to another one.
      make_frame({.dest_qpn = Qpn(1)}),
      make_frame({.dest_qpn = Qpn(1), .opcode = Opcode::kUdSendOnly, .src_qpn = qpn_in(1)}),
      make_frame({.dest_qpn = Qpn(8), .opcode = Opcode::kUdSendOnly, .src_qpn = Qpn(1)}),
      make_frame(management(pair_mad(qpn_in(2), Qpn(9)))),
  };
  for (const Bytes& frame : forged) bed.client_sends(1, frame);
  bed.run();
  EXPECT_EQ(bed.of(1).nic_drop_forged, std::size(forged));
  EXPECT_TRUE(bed.wire_gets().empty());

  const Bytes good[] = {
      make_frame({.opcode = Opcode::kUdSendOnly, .src_qpn = qpn_in(1)}),
      make_frame(management(pair_mad(qpn_in(1), Qpn(9)))),
  };
  for (const Bytes& frame : good) bed.client_sends(1, frame);
  bed.run();
  EXPECT_EQ(bed.wire_gets(), std::vector<Bytes>(std::begin(good), std::end(good)));
}

// Only an answer may have a status. A peer that does not know the question answers with it, and
// names no queue pair.
TEST(Switch, AQuestionWithAStatusIsNobodys) {
  SwitchBed bed;
  bed.add(1);
  bed.add(2);
  Bytes question = pair_mad(qpn_in(2), Qpn(9));
  question[5] = wire::kMadStatusUnsupportedAttribute;
  bed.client_sends(1, make_frame(management(question)));
  bed.client_sends(2, make_frame(management(question)));
  bed.run();
  EXPECT_TRUE(bed.wire_gets().empty());
  EXPECT_EQ(bed.of(1).nic_drop_malformed, 1u);
  EXPECT_EQ(bed.of(2).nic_drop_malformed, 1u);

  Bytes answer = pair_mad(Qpn(0), Qpn(0), true, 5);
  answer[5] = wire::kMadStatusUnsupportedAttribute;
  bed.client_sends(1, make_frame(management(answer)));
  bed.run();
  EXPECT_EQ(bed.wire_gets().size(), 1u);
}

TEST(Switch, ConnectionManagementIsTheDaemonsAlone) {
  SwitchBed bed;
  bed.add(1);
  Bytes mad(wire::kMadBytes);
  mad[0] = 1;
  mad[1] = 7;  // the class
  mad[2] = 2;
  bed.client_sends(1, make_frame(management(mad)));
  bed.run();
  EXPECT_EQ(bed.of(1).nic_drop_malformed, 1u);
  EXPECT_TRUE(bed.wire_gets().empty());
  EXPECT_TRUE(bed.management.mads.empty());
}

TEST(Switch, OtherProtocolsAndCutFramesGoNowhere) {
  SwitchBed bed;
  bed.add(1);
  const Bytes whole = make_frame({});
  for (size_t bytes = 14; bytes < whole.size(); ++bytes) {
    bed.client_sends(1, Bytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(bytes)));
  }
  Bytes other = whole;
  other[36] ^= 1;  // UDP destination port
  bed.client_sends(1, other);
  other = whole;
  other[12] = 0x86;  // an EtherType that nobody knows
  bed.client_sends(1, other);
  bed.run();
  EXPECT_TRUE(bed.wire_gets().empty());
  EXPECT_EQ(bed.of(1).nic_drop_malformed, whole.size() - 14);
  EXPECT_EQ(bed.of(1).nic_drop_not_ours, 2u);
}

TEST(Switch, AGroupIsTheWireAndEveryOtherClient) {
  SwitchBed bed;
  for (const uint32_t block : {1u, 2u, 3u}) bed.add(block);
  const FrameSpec group = {.dest_qpn = wire::kMulticastQpn,
                           .opcode = wire::Opcode::kUdSendOnly,
                           .src_qpn = qpn_in(1),
                           .dst_ip = Ipv4(0xef010203),
                           .dst_mac = kGroupMac};
  const std::vector<Bytes> frame{make_frame(group)};
  bed.client_sends(1, frame[0]);
  bed.run();
  EXPECT_TRUE(bed.client_gets(1).empty());
  EXPECT_EQ(bed.client_gets(2), frame);
  EXPECT_EQ(bed.client_gets(3), frame);
  EXPECT_EQ(bed.wire_gets(), frame);
  EXPECT_EQ(bed.of(1).nic_multicast_copies, 2u);

  FrameSpec theirs = group;
  theirs.src_ip = kPeerIp;
  theirs.src_mac = kPeerMac;
  bed.wire_sends(make_frame(theirs));
  bed.run();
  for (const uint32_t block : {1u, 2u, 3u}) EXPECT_EQ(bed.client_gets(block).size(), 1u);

  // A packet of a connection to a broadcast address, and a group address behind a unicast Ethernet
  // address.
  bed.client_sends(1, make_frame({.dest_qpn = Qpn(9), .dst_mac = wire::kBroadcastMac}));
  FrameSpec half = group;
  half.dst_mac = kPeerMac;
  bed.client_sends(1, make_frame(half));
  bed.run();
  EXPECT_EQ(bed.of(1).nic_drop_malformed, 2u);
  EXPECT_TRUE(bed.wire_gets().empty());
}

TEST(Switch, AClientThatDoesNotReadLosesItsOwnFramesOnly) {
  SwitchBed bed;
  for (const uint32_t block : {1u, 2u, 3u}) bed.add(block);
  bed.clients[2]->room = 40;
  for (int i = 0; i < 500; ++i) {
    bed.client_sends(1, make_frame({.dest_qpn = qpn_in(2), .dst_ip = kOurIp}));
    bed.client_sends(1, make_frame({.dest_qpn = qpn_in(3), .dst_ip = kOurIp}));
  }
  bed.run();
  EXPECT_EQ(bed.client_gets(3).size(), 500u);
  EXPECT_EQ(bed.client_gets(2).size(), 40u);
  EXPECT_EQ(bed.of(2).nic_drop_full, 460u);
  EXPECT_EQ(bed.of(1).nic_drop_full, 0u);
}

TEST(Switch, AFullWireHoldsItsSendersBackForAWhileAndLosesNothing) {
  SwitchBed bed;
  bed.add(1);
  bed.add(2);
  bed.wire->room = 64;
  for (int i = 0; i < 200; ++i) bed.client_sends(1, make_frame({}));
  size_t arrived = 0;
  for (int i = 0; i < 100; ++i) {
    bed.run();
    arrived += bed.wire_gets().size();
  }
  EXPECT_EQ(arrived, 200u);
  EXPECT_GT(bed.of(1).nic_back_pressure, 0u);
  EXPECT_EQ(bed.sw.wire_counters().nic_drop_full, 0u);

  // The wire takes nothing: frames for other clients of the host pass in the end.
  bed.wire->room = 0;
  for (int i = 0; i < 100; ++i) bed.client_sends(1, make_frame({}));
  bed.client_sends(1, make_frame({.dest_qpn = qpn_in(2), .dst_ip = kOurIp}));
  for (int i = 0; i < 100; ++i) {
    bed.run();
    bed.now += Duration::ms(1);
  }
  EXPECT_EQ(bed.client_gets(2).size(), 1u);
  EXPECT_GT(bed.sw.wire_counters().nic_drop_full, 0u);
}

TEST(Switch, AClientsLastWordsAreDelivered) {
  SwitchBed bed;
  bed.add(1);
  for (int i = 0; i < 100; ++i) bed.client_sends(1, make_frame({}));
  bed.sw.remove_client(1, bed.now);
  EXPECT_EQ(bed.wire_gets().size(), 100u);
  EXPECT_EQ(bed.sw.total().nic_frames_in, 100u);
  // The block of the client is free again.
  bed.add(1);
  bed.run();
}

TEST(Switch, QuietPortsSleepAndWakeForFrames) {
  SwitchBed bed;
  bed.add(1);
  bed.client_sends(1, make_frame({}));
  bed.run();
  EXPECT_FALSE(bed.sw.arm_idle_ports(bed.now));  // too early
  bed.now += Duration::ms(1);
  EXPECT_TRUE(bed.sw.arm_idle_ports(bed.now));
  EXPECT_TRUE(bed.clients[1]->side[0].armed);
  bed.client_sends(1, make_frame({}));
  EXPECT_EQ(bed.clients[1]->notifications, 1u);
  bed.sw.wake_client(1, bed.now);
  bed.run();
  EXPECT_EQ(bed.wire_gets().size(), 2u);
  // The regular service may take the wake-up before the loop sees it.
  bed.now += Duration::ms(1);
  EXPECT_TRUE(bed.sw.arm_idle_ports(bed.now));
  bed.client_sends(1, make_frame({}));
  bed.sw.service_clients(bed.now);
  bed.run();
  EXPECT_EQ(bed.wire_gets().size(), 1u);
  bed.sw.service_wire(bed.now);
  bed.wire_gets();
  bed.now += Duration::ms(1);
  EXPECT_TRUE(bed.sw.arm_idle_ports(bed.now));
  bed.wire_sends(make_frame(from_peer({.dest_qpn = qpn_in(1)})));
  bed.sw.service_wire(bed.now);
  bed.run();
  EXPECT_EQ(bed.client_gets(1).size(), 1u);
  // A frame between the last look and the arming keeps the port awake.
  bed.sw.wake_client(1, bed.now);
  bed.client_sends(1, make_frame({}));
  bed.now += Duration::ms(1);
  EXPECT_FALSE(bed.sw.arm_idle_ports(bed.now));
}

}  // namespace
}  // namespace mprdma::dataplane::mprdmad
