// Maps in acknowledgements (D17): what the receiver says, and what the sender makes of it.
#include <gtest/gtest.h>

#include "tests/unit/transport/stream/lone_receiver.hpp"
#include "tests/unit/transport/stream/lone_sender.hpp"
#include "tests/unit/transport/stream/many_path_sender.hpp"

namespace mprdma::transport {
namespace {

constexpr uint64_t kNewest = uint64_t{1} << 63;  // SACK - 1

// ---- The receiver

TEST(AckMap, TellsWhatHasComeBehindAHole) {
  Receiver r(128);
  r.take(0, wire::kMpDataTakesMaps);
  EXPECT_EQ(r.actions.ack.opcode, wire::Opcode::kMpAck) << "in order there is nothing to tell";
  r.take(2, wire::kMpDataTakesMaps);
  r.take(3, wire::kMpDataTakesMaps);
  r.take(6, wire::kMpDataTakesMaps);
  EXPECT_EQ(r.actions.ack.opcode, wire::Opcode::kMpAckMap);
  EXPECT_EQ(r.aack(), 1);
  // 5, 4, 3, 2, 1, then 0 and all before.
  EXPECT_EQ(r.actions.ack.mp_ack_map.received, ~uint64_t{0} & ~(0b11001ULL << 59));
  r.take(1, wire::kMpDataTakesMaps);
  EXPECT_EQ(r.actions.ack.opcode, wire::Opcode::kMpAck) << "4 is next, and nothing told before it";
  EXPECT_EQ(r.aack(), 4);
}

TEST(AckMap, IsForThosePacketsThatAskForIt) {
  Receiver r(128);
  r.take(2);
  EXPECT_EQ(r.actions.ack.opcode, wire::Opcode::kMpAck);
}

// Whatever L is: smaller than the map, or its packets far ahead.
TEST(AckMap, HoldsWhereverTheWindowLies) {
  for (const uint32_t slots : {8u, 32u, 64u, 256u}) {
    Receiver r(slots, 1024, Psn(kPsnMask - 3));
    const int reach = static_cast<int>(slots);
    for (int i = 1; i < reach; i += 3) {
      r.take(i, wire::kMpDataTakesMaps);
      ASSERT_EQ(r.actions.ack.opcode, wire::Opcode::kMpAckMap);
      for (int back = 1; back <= 64; ++back) {
        const int index = i - back;
        const bool here = index < 0 || index % 3 == 1;
        ASSERT_EQ((r.actions.ack.mp_ack_map.received >> (64 - back) & 1) != 0, here)
            << "L " << slots << ", " << index << " told by " << i;
      }
    }
  }
}

TEST(AckMap, ADuplicateIsSaidToBeOne) {
  Receiver r(128);
  r.take(0);
  r.take(2, wire::kMpDataTakesMaps);
  EXPECT_EQ(r.actions.ack.mp_ack.flags & wire::kMpAckDuplicate, 0);
  r.take(2, wire::kMpDataTakesMaps);
  EXPECT_NE(r.actions.ack.mp_ack.flags & wire::kMpAckDuplicate, 0);
  EXPECT_EQ(r.actions.ack.opcode, wire::Opcode::kMpAckMap);
  r.take(0, wire::kMpDataTakesMaps);
  EXPECT_NE(r.actions.ack.mp_ack.flags & wire::kMpAckDuplicate, 0);
  EXPECT_EQ(r.actions.ack.opcode, wire::Opcode::kMpAck) << "it leaves no hole";
}

// ---- The sender

Params by_time() {
  Params p = params_with(40);
  p.loss_by_time = true;
  return p;
}

wire::Packet map_ack(const Sender& s, int aack, int sack, uint64_t received) {
  wire::Packet packet;
  packet.opcode = wire::Opcode::kMpAckMap;
  packet.psn = s.psn(aack);
  packet.mp_ack.flags = wire::kMpAckSackValid;
  packet.mp_ack.sack = s.psn(sack);
  packet.mp_ack.echoed_timestamp = static_cast<uint32_t>((s.now - s.rtt).ns());
  packet.mp_ack_map.received = received;
  return packet;
}

// Ten packets, of which 0 is missing and 2 to 8 were told of by the acknowledgement of 9.
struct TenPackets {
  explicit TenPackets(const Params& params) : s(params) {
    for (int i = 0; i < 100; ++i) {  // a warm round trip
      s.send(1);
      s.now += s.rtt;
      s.ack(i + 1, i);
    }
    s.send(10);
    s.now += s.rtt;
    s.sender.on_ack(s.now, map_ack(s, 100, 109, kNewest | 0x7fULL << 56), true);
  }
  // Sends what may leave now; the PSNs of what is sent again.
  std::vector<int> copies() {
    std::vector<int> all;
    while (s.send(1, false) == 1) all.push_back(s.index(s.last.psn) - 100);
    return all;
  }
  Sender s;
};

TEST(AckMap, WhatItTellsOfIsNotSentAgain) {
  TenPackets ten(by_time());
  EXPECT_EQ(ten.s.sender.in_flight(), 9u) << "their room waits for their acknowledgements";
  ten.s.now += ten.s.rtt * 3;
  ten.s.sender.on_deadline(ten.s.now);
  EXPECT_EQ(ten.copies(), (std::vector<int>{0}));
  EXPECT_EQ(ten.s.counters.acks_lost_told, 8u);
  EXPECT_EQ(ten.s.sender.in_flight(), 1u) << "the acknowledgements are lost, and their room free";
}

TEST(AckMap, ItsOwnAcknowledgementStillFreesTheRoom) {
  TenPackets ten(by_time());
  ten.s.ack(100, 105);
  EXPECT_EQ(ten.s.sender.in_flight(), 8u);
  ten.s.ack(100, 105);
  EXPECT_EQ(ten.s.sender.in_flight(), 8u);
  ten.s.ack(110, 100);
  EXPECT_TRUE(ten.s.sender.idle());
  EXPECT_EQ(ten.s.counters.packets_retransmitted, 0u);
}

TEST(AckMap, CostsNoWindow) {
  TenPackets ten(by_time());
  ten.s.now += ten.s.rtt * 3;
  const uint32_t before = ten.s.window_raw();
  ten.s.sender.on_deadline(ten.s.now);
  EXPECT_EQ(before - ten.s.window_raw(), Fixed16::kOneRaw / 2) << "of the one hole";
}

TEST(AckMap, ATimeoutSendsOnlyWhatIsMissing) {
  TenPackets ten(params_with(40));
  ten.s.now += Duration::ms(1);
  ten.s.sender.on_deadline(ten.s.now);
  EXPECT_EQ(ten.s.counters.rto_expired, 1u);
  EXPECT_EQ(ten.copies(), (std::vector<int>{0}));
}

TEST(AckMap, ATailProbeIsAPacketThatNobodyToldOf) {
  Params p = params_with(40);
  p.tail_probe = true;
  TenPackets ten(p);
  ten.s.now += Duration::us(200);
  ten.s.sender.on_deadline(ten.s.now);
  ten.s.send(1, false);
  EXPECT_EQ(ten.s.last.kind, StreamSender::Choice::Kind::kProbe);
  EXPECT_EQ(ten.s.index(ten.s.last.psn), 100);
}

// The verdict came first: nothing waits for the acknowledgement any more.
TEST(AckMap, WhatIsLostAndNotSentAgainCountsAsArrived) {
  Params p = by_time();
  Sender s(p);
  s.send(40);
  s.now += s.rtt;
  s.ack(0, 9);
  s.now += s.rtt * 20;
  s.ack(0, 10);
  ASSERT_EQ(s.counters.retransmitted_early, 38u);
  s.sender.on_ack(s.now, map_ack(s, 0, 11, 0x1ULL << 58), true);  // of 5
  EXPECT_EQ(s.sender.in_flight(), 0u) << "its room was free";
  EXPECT_EQ(s.counters.acks_lost_told, 1u);
  std::vector<int> again;
  while (s.send(1, false) == 1) again.push_back(s.index(s.last.psn));
  EXPECT_EQ(std::count(again.begin(), again.end(), 5), 0);
  EXPECT_EQ(std::count(again.begin(), again.end(), 4), 1);
}

// A map is of packets before its SACK; what is older than the stream, or acknowledged, is nothing.
TEST(AckMap, OfNothingThatIsOutstandingSaysNothing) {
  Sender s(params_with(40), Psn(3));
  s.send(4);
  s.now += s.rtt;
  s.sender.on_ack(s.now, map_ack(s, 2, 3, ~uint64_t{0}), true);
  EXPECT_EQ(s.sender.in_flight(), 1u);
  s.sender.on_ack(s.now, map_ack(s, 4, 2, ~uint64_t{0}), true);
  EXPECT_TRUE(s.sender.idle());
}

// As far behind as PSNs reach: nothing of it is outstanding.
TEST(AckMap, OfPacketsHalfTheNumbersAwaySaysNothing) {
  for (const int span : {0, 1, 10, 63}) {
    Sender s(params_with(100));
    s.send(span);
    for (int after = 1; after <= 64; ++after) {
      const int far = span - (1 << 23) + after;
      s.sender.on_ack(s.now, map_ack(s, 0, far, ~uint64_t{0}), true);
      ASSERT_EQ(s.sender.in_flight(), static_cast<uint32_t>(span));
    }
    s.now += s.rtt;
    s.sender.on_ack(s.now, map_ack(s, 0, -1, ~uint64_t{0}), true);
    EXPECT_EQ(s.counters.acks_lost_told, 0u);
    EXPECT_EQ(s.sender.idle(), span == 0);
  }
}

TEST(AckMap, AnAcknowledgementThatWasGivenUpIsHeardOnce) {
  TenPackets ten(by_time());
  ten.s.now += ten.s.rtt * 3;
  ten.s.sender.on_deadline(ten.s.now);
  ASSERT_EQ(ten.s.counters.acks_lost_told, 8u);
  const uint32_t in_flight = ten.s.sender.in_flight();
  const uint32_t window = ten.s.window_raw();
  EXPECT_EQ(ten.s.ack(100, 105, wire::kMpAckEce), StreamSender::AckResult::kLate);
  EXPECT_EQ(window - ten.s.window_raw(), Fixed16::kOneRaw / 2) << "its path is congested";
  EXPECT_EQ(ten.s.sender.in_flight(), in_flight) << "its room is in use again";
  EXPECT_EQ(ten.s.ack(100, 105, wire::kMpAckEce), StreamSender::AckResult::kStale);
  EXPECT_EQ(window - ten.s.window_raw(), Fixed16::kOneRaw / 2);
}

// The verdict that the acknowledgement was lost was wrong: the next one waits longer.
TEST(AckMap, AnAcknowledgementThatWasGivenUpTeachesPatience) {
  TenPackets ten(by_time());
  ten.s.now += ten.s.rtt * 3;
  ten.s.sender.on_deadline(ten.s.now);
  ASSERT_EQ(ten.s.counters.acks_lost_told, 8u);
  ten.s.rtt = ten.s.rtt * 4;
  ten.s.ack(100, 105);
  ten.s.rtt = ten.s.rtt / 4;
  ten.s.ack(110, 100);
  ASSERT_TRUE(ten.s.sender.idle());
  ten.s.send(10);
  ten.s.now += ten.s.rtt;
  ten.s.sender.on_ack(ten.s.now, map_ack(ten.s, 110, 119, kNewest | 0x7fULL << 56), true);
  ten.s.now += ten.s.rtt * 2;
  ten.s.sender.on_deadline(ten.s.now);
  EXPECT_EQ(ten.s.counters.acks_lost_told, 8u);
}

// The receiver holds the head of line and does not advance: it waits for its application, and its
// word of that was lost. Once the acknowledgement is given up, a copy asks.
TEST(AckMap, AHeadOfLineThatHasComeIsAskedFor) {
  Sender s(by_time());
  s.send(3);
  s.now += s.rtt;
  s.sender.on_ack(s.now, map_ack(s, 0, 2, 0x3ULL << 62), true);
  s.now += s.rtt * 20;
  s.sender.on_deadline(s.now);
  ASSERT_EQ(s.send(1, false), 1);
  EXPECT_EQ(s.index(s.last.psn), 0);
  EXPECT_EQ(s.send(1, false), 0);
}

TEST(AckMap, NeedlessCopiesAreCounted) {
  Sender s(params_with(40));
  s.send(2);
  s.now += s.rtt;
  s.ack(0, 1, wire::kMpAckDuplicate);
  EXPECT_EQ(s.counters.copies_needless, 0u) << "the network made it";
  s.ack(0, 1, wire::kMpAckDuplicate | wire::kMpAckReTx);
  EXPECT_EQ(s.counters.copies_needless, 1u);
}

}  // namespace
}  // namespace mprdma::transport
