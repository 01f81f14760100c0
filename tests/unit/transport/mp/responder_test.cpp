// The responder half of a queue pair, in dialogue.
#include "transport/mp/responder.hpp"

#include <gtest/gtest.h>

#include "tests/support/endpoint_pair.hpp"
#include "tests/support/print.hpp"

namespace mprdma::transport {
namespace {

constexpr uint64_t kLocal = Endpoint::kBase;
constexpr uint64_t kRemote = Endpoint::kBase + 0x10000;

TEST(Responder, APacketOfAWriteIsPlacedOnlyAfterAllBeforeIt) {
  PairOptions options;
  options.held_budget = 1;
  EndpointPair pair(options);
  pair.a.fill(kLocal, 3000, 9);
  pair.a.post(WorkOpcode::kWrite, kLocal, 3000, kRemote);
  const auto packets = pair.a.send();
  ASSERT_EQ(packets.size(), 3u);
  pair.b.receive(packets[2]);
  pair.b.receive(packets[1]);  // beyond the budget of one
  EXPECT_TRUE(pair.b.placed_at.empty());
  pair.b.receive(packets[0]);
  pair.b.receive(packets[1]);
  EXPECT_EQ(pair.b.placed_at, (std::vector<uint64_t>{kRemote, kRemote + 1024, kRemote + 2048}));
  EXPECT_TRUE(pair.b.same(kRemote, pair.a, kLocal, 3000));
  EXPECT_TRUE(pair.b.frames.empty());
}

TEST(Responder, AReceiveCompletesWithLengthImmediateAndSolicited) {
  EndpointPair pair;
  pair.b.post_recv(kRemote, 4096);
  pair.b.post_recv(kRemote + 4096, 0);
  pair.a.fill(kLocal, 1500, 1);
  pair.a.post(WorkOpcode::kSendImm, kLocal, 1500, 0, kSignaled | kSolicited);
  pair.a.post(WorkOpcode::kWriteImm, kLocal, 100, kRemote + 8192);
  pair.run();
  const auto completions = pair.b.take_completions();
  ASSERT_EQ(completions.size(), 2u);
  EXPECT_EQ(completions[0].opcode, WcOpcode::kRecv);
  EXPECT_EQ(completions[0].byte_len, 1500u);
  EXPECT_TRUE(completions[0].has_imm && completions[0].solicited);
  EXPECT_EQ(completions[0].imm, 0xabcdu);
  EXPECT_EQ(completions[1].opcode, WcOpcode::kRecvWriteImm);
  EXPECT_EQ(completions[1].byte_len, 100u);
  EXPECT_FALSE(completions[1].solicited);
  EXPECT_TRUE(pair.b.same(kRemote, pair.a, kLocal, 1500));
}

TEST(Responder, AnUnreadyReceiverLetsTheMessageInWithTheReceive) {
  EndpointPair pair;
  pair.a.fill(kLocal, 8, 1);
  pair.a.post(WorkOpcode::kSend, kLocal, 8);
  const auto packets = pair.a.send();
  const auto nack = pair.b.receive(packets[0]);
  ASSERT_TRUE(nack.has_value());
  EXPECT_EQ(nack->header.mp_ack.nack, wire::NackCode::kRnr);
  const auto ack = pair.b.post_recv(kRemote, 64);
  ASSERT_TRUE(ack.has_value()) << "no retransmission is needed";
  pair.a.receive(*nack);
  pair.a.receive(*ack);
  EXPECT_EQ(pair.a.take_completions().size(), 1u);
  EXPECT_EQ(pair.b.take_completions().size(), 1u);
  EXPECT_TRUE(pair.a.qp->next_deadline().is_never()) << "the wait is over";
}

TEST(Responder, ReadDataTravelsInAPsnSpaceOfItsOwnFromTheRequestersPsn) {
  EndpointPair pair;
  pair.b.fill(kRemote, 2500, 5);
  pair.a.post(WorkOpcode::kWrite, kLocal, 8, kRemote + 0x8000);
  pair.a.post(WorkOpcode::kRead, kLocal, 2500, kRemote);
  for (const Parcel& packet : pair.a.send()) pair.a.receive(*pair.b.receive(packet));
  const auto data = pair.b.send();
  ASSERT_EQ(data.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(data[i].header.psn, Psn(100 + i));
    EXPECT_EQ(data[i].header.mp_data.offset, i * 1024);
    const auto ack = pair.a.receive(data[i]);
    ASSERT_TRUE(ack.has_value());
    EXPECT_NE(ack->header.mp_ack.flags & wire::kMpAckResponseStream, 0);
    EXPECT_EQ(ack->header.psn, Psn(101 + i));
    pair.b.receive(*ack);
  }
  EXPECT_TRUE(pair.a.same(kLocal, pair.b, kRemote, 2500));
  EXPECT_FALSE(pair.b.qp->busy());
}

TEST(Responder, BothStreamsRunAcrossTheWrapOfThePsn) {
  PairOptions options;
  options.psn_a = Psn(kPsnMask - 1);
  options.psn_b = Psn(kPsnMask);
  EndpointPair pair(options);
  pair.b.fill(kRemote, 9000, 5);
  pair.a.post(WorkOpcode::kRead, kLocal, 9000, kRemote);
  pair.a.post(WorkOpcode::kWrite, kLocal + 0x8000, 9000, kRemote + 0x8000);
  pair.b.post(WorkOpcode::kWrite, kLocal + 0x4000, 9000, kRemote + 0x4000);
  pair.run();
  EXPECT_EQ(pair.a.take_completions().size(), 2u);
  EXPECT_EQ(pair.b.take_completions().size(), 1u);
  EXPECT_TRUE(pair.a.same(kLocal, pair.b, kRemote, 9000));
  EXPECT_EQ(pair.a.counters.packets_retransmitted + pair.b.counters.packets_retransmitted, 0u);
}

TEST(Responder, AReadWhoseRegionGoesAwayEndsInAnErrorAfterWhatWasSent) {
  EndpointPair pair;
  const Key gone = MemoryTable::make_key(2, 1);
  pair.b.regions.set({.iova = kRemote,
                      .addr = kRemote,
                      .length = 0x4000,
                      .pd = 0,
                      .access = kRemoteRead,
                      .key = gone});
  const Sge sge{kLocal, 4096, pair.a.key};
  ASSERT_EQ(pair.a.qp->post_send(pair.a.now, {.wr_id = 1,
                                              .opcode = WorkOpcode::kRead,
                                              .flags = kSignaled,
                                              .rkey = gone,
                                              .remote_addr = kRemote,
                                              .sges = {&sge, 1}}),
            PostResult::kOk);
  pair.a.receive(*pair.b.receive(pair.a.send()[0]));
  TxPacket first;
  ASSERT_TRUE(pair.b.qp->poll_packet(pair.b.now, first));
  EXPECT_EQ(first.header.opcode, wire::Opcode::kMpReadResponseFirst);
  pair.b.regions.remove(gone);
  const auto rest = pair.b.send();
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].header.opcode, wire::Opcode::kMpResponseError);
  EXPECT_EQ(rest[0].header.psn, Psn(101));
  pair.b.receive(*pair.a.receive({first.header, std::vector<uint8_t>(1024)}));
  pair.b.receive(*pair.a.receive(rest[0]));
  const auto completions = pair.a.take_completions();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, WcStatus::kRemoteAccessError);
  EXPECT_EQ(pair.b.qp->state(), QpState::kErr);
  EXPECT_EQ(pair.b.qp->poll_event(), QpEvent::kAccessError);
}

TEST(Responder, AReadThatWasLostWhenItsRegionWentAwayEndsInAnError) {
  EndpointPair pair;
  pair.a.post(WorkOpcode::kRead, kLocal, 4096, kRemote);
  pair.a.receive(*pair.b.receive(pair.a.send()[0]));
  EXPECT_EQ(pair.b.send().size(), 4u);  // all lost
  pair.b.regions.remove(pair.b.key);
  pair.run();
  const auto completions = pair.a.take_completions();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, WcStatus::kRemoteAccessError);
}

TEST(Responder, ASendThatDoesNotFitFailsOnBothSides) {
  EndpointPair pair;
  pair.b.post_recv(kRemote, 1500);
  pair.b.post_recv(kRemote, 1500);
  pair.a.post(WorkOpcode::kSend, kLocal, 1501);
  pair.exchange();
  EXPECT_EQ(pair.a.take_completions()[0].status, WcStatus::kRemoteInvalidRequestError);
  const auto completions = pair.b.take_completions();
  ASSERT_EQ(completions.size(), 2u);
  EXPECT_EQ(completions[0].status, WcStatus::kLocalLengthError);
  EXPECT_EQ(completions[1].status, WcStatus::kFlushError);
}

TEST(Responder, ContradictingFieldsAreRefusedAndNothingIsPlaced) {
  using Spoil = void (*)(wire::Packet&);
  const Spoil spoils[] = {
      [](wire::Packet& p) { p.mp_data.offset = 1; },
      [](wire::Packet& p) { p.opcode = wire::Opcode::kMpWriteMiddle; },
      [](wire::Packet& p) { p.opcode = wire::Opcode::kMpWriteOnly; },
      [](wire::Packet& p) { p.reth.dma_len = 10; },
      [](wire::Packet& p) { p.payload_len = 100; },
      [](wire::Packet& p) { p.reth.rkey = Key(p.reth.rkey.value() ^ 1); },
      [](wire::Packet& p) { p.reth.va = Endpoint::kBase + Endpoint::kMemoryBytes - 10; },
      [](wire::Packet& p) { p.opcode = wire::Opcode::kMpFetchAdd; },
  };
  for (const Spoil spoil : spoils) {
    EndpointPair pair;
    pair.a.post(WorkOpcode::kWrite, kLocal, 3000, kRemote);
    Parcel packet = pair.a.send()[0];
    spoil(packet.header);
    const auto nack = pair.b.receive(packet);
    EXPECT_TRUE(pair.b.placed_at.empty());
    ASSERT_TRUE(nack.has_value());
    EXPECT_GE(nack->header.mp_ack.nack, wire::NackCode::kInvalidRequest);
  }
}

TEST(Responder, AnUnacknowledgedResponseFallsSilentAndWakesWithThePeer) {
  EndpointPair pair;
  pair.a.post(WorkOpcode::kRead, kLocal, 64, kRemote);
  const auto request = pair.a.send();
  pair.b.receive(request[0]);
  auto copies = static_cast<int>(pair.b.send().size());
  while (!pair.b.qp->next_deadline().is_never() && copies < 200) {
    pair.b.now = std::max(pair.b.now, pair.b.qp->next_deadline());
    pair.b.on_deadline();
    copies += static_cast<int>(pair.b.send().size());
  }
  EXPECT_GT(copies, 3);
  EXPECT_LT(copies, 160) << "sixteen paths at each of seven timeouts, and tail probes";
  EXPECT_EQ(pair.b.qp->state(), QpState::kRts) << "a responder never gives up";
  pair.a.now = pair.b.now;
  pair.a.receive(*pair.b.receive(request[0]));  // any packet
  pair.exchange();
  EXPECT_EQ(pair.a.take_completions().size(), 1u);
}

// The responder's own timeout may be long, and the patience of the requester's application short.
TEST(Responder, WhatTheRequesterStillWaitsForIsSentAtOnce) {
  PairOptions options;
  options.attributes.timeout = 12;  // 16.8 ms
  EndpointPair pair(options);
  pair.a.post(WorkOpcode::kRead, kLocal, 3000, kRemote);
  pair.a.receive(*pair.b.receive(pair.a.send()[0]));
  const auto lost = pair.b.send();
  ASSERT_EQ(lost.size(), 3u);
  pair.a.now += Duration::ms(17);
  pair.a.on_deadline();
  const auto keepalive = pair.a.send();
  ASSERT_EQ(keepalive.size(), 1u);
  ASSERT_EQ(keepalive[0].header.opcode, wire::Opcode::kMpAck);
  pair.b.receive(keepalive[0]);
  const auto again = pair.b.send();  // its own clock stands
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].header.psn, lost[0].header.psn);
}

// The requester has all data and told its application; only the acknowledgement was lost.
TEST(Responder, MemoryThatIsClosedAfterAReadHarmsNobodyWhenItsAnswerIsRepeated) {
  EndpointPair pair;
  pair.b.fill(kRemote, 64, 5);
  pair.a.post(WorkOpcode::kRead, kLocal, 64, kRemote);
  for (const Parcel& request : pair.a.send()) pair.a.receive(*pair.b.receive(request));
  const auto answer = pair.b.send();
  ASSERT_EQ(answer.size(), 1u);
  pair.a.receive(answer[0]);  // and what a says to it is lost
  ASSERT_EQ(pair.a.take_completions().size(), 1u);
  const MemoryRegion region = *pair.b.regions.find(pair.b.key, 0);
  pair.b.regions.remove(pair.b.key);
  std::vector<Parcel> again;
  while (again.empty()) {
    pair.advance(Duration::ms(1));
    again = pair.b.send();
  }
  EXPECT_EQ(again[0].header.opcode, wire::Opcode::kMpResponseError);
  pair.b.receive(*pair.a.receive(again[0]));
  EXPECT_EQ(pair.b.qp->state(), QpState::kRts);
  EXPECT_EQ(pair.b.qp->poll_event(), QpEvent::kNone);
  pair.b.regions.set(region);
  pair.a.post(WorkOpcode::kRead, kLocal + 64, 64, kRemote);
  pair.run();
  const auto completions = pair.a.take_completions();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, WcStatus::kSuccess);
}

}  // namespace
}  // namespace mprdma::transport
