// Two ends of a standard connection on a perfect wire: results, and what shows in the packets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/roce_pair.hpp"
#include "tests/support/wire.hpp"

namespace mprdma::transport {
namespace {

using wire::Opcode;

constexpr uint64_t kBase = RoceHost::kBase;
constexpr uint64_t kThere = kBase + 0x10000;

std::vector<Opcode> opcodes_of(const std::vector<RoceParcel>& parcels) {
  std::vector<Opcode> opcodes;
  for (const RoceParcel& parcel : parcels) opcodes.push_back(parcel.header.opcode);
  return opcodes;
}

std::vector<uint32_t> psns_of(const std::vector<RoceParcel>& parcels) {
  std::vector<uint32_t> psns;
  for (const RoceParcel& parcel : parcels) psns.push_back(parcel.header.psn.value());
  return psns;
}

TEST(RoceConnection, EveryOperationMovesItsData) {
  RocePair pair;
  pair.a.fill(kBase, 5000, 1);
  pair.b.fill(kThere + 0x8000, 5000, 2);
  pair.b.post_recv(kThere, 8192);
  pair.b.post_recv(kBase, 0);
  pair.b.word(kBase + 64) = 40;
  pair.a.post(WorkOpcode::kSend, kBase, 5000);
  pair.a.post(WorkOpcode::kWriteImm, kBase, 3000, kThere + 0x4000);
  pair.a.post(WorkOpcode::kRead, kThere, 5000, kThere + 0x8000);
  pair.a.atomic(WorkOpcode::kFetchAdd, kBase + 0x8000, kBase + 64, 2);
  pair.a.atomic(WorkOpcode::kCompareSwap, kBase + 0x8008, kBase + 64, 42, 7);
  pair.exchange();

  EXPECT_TRUE(pair.a.same(kBase, pair.b, kThere, 5000));
  EXPECT_TRUE(pair.a.same(kBase, pair.b, kThere + 0x4000, 3000));
  EXPECT_TRUE(pair.a.same(kThere, pair.b, kThere + 0x8000, 5000));
  EXPECT_EQ(pair.a.word(kBase + 0x8000), 40u);
  EXPECT_EQ(pair.a.word(kBase + 0x8008), 42u);
  EXPECT_EQ(pair.b.word(kBase + 64), 7u);
  const auto sent = pair.a.completions();
  ASSERT_EQ(sent.size(), 5u);
  for (size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(sent[i].wr_id, i + 1);
    EXPECT_EQ(sent[i].status, WcStatus::kSuccess);
  }
  EXPECT_EQ(sent[4].opcode, WcOpcode::kCompareSwap);
  EXPECT_EQ(sent[4].byte_len, 8u);
  const auto received = pair.b.completions();
  ASSERT_EQ(received.size(), 2u);
  EXPECT_EQ(received[0].byte_len, 5000u);
  EXPECT_EQ(received[1].opcode, WcOpcode::kRecvWriteImm);
  EXPECT_EQ(received[1].imm, 0xabcdu);
  EXPECT_EQ(pair.a.counters.packets_retransmitted, 0u);
  EXPECT_FALSE(pair.a.qp->busy());
  EXPECT_TRUE(pair.a.qp->next_deadline().is_never());
}

// 9.7.2: a READ takes as many PSNs as its response has packets.
TEST(RoceConnection, PsnsCountResponsePacketsOfAReadAndWrapRound) {
  RoceOptions options;
  options.psn_a = Psn(0xfffffe);
  RocePair pair(options);
  pair.a.post(WorkOpcode::kRead, kBase, 3000);
  pair.a.post(WorkOpcode::kWrite, kBase, 2000, kThere);
  const auto requests = pair.a.send();
  EXPECT_EQ(psns_of(requests), (std::vector<uint32_t>{0xfffffe, 1, 2}));
  EXPECT_EQ(opcodes_of(requests),
            (std::vector{Opcode::kRcReadRequest, Opcode::kRcWriteFirst, Opcode::kRcWriteLast}));
  pair.b.receive(requests);
  const auto answers = pair.b.send();
  EXPECT_EQ(psns_of(answers), (std::vector<uint32_t>{0xfffffe, 0xffffff, 0, 2}));
  EXPECT_EQ(opcodes_of(answers),
            (std::vector{Opcode::kRcReadResponseFirst, Opcode::kRcReadResponseMiddle,
                         Opcode::kRcReadResponseLast, Opcode::kRcAck}));
  // Message numbers: the READ is message 1, the WRITE message 2.
  EXPECT_EQ(answers[0].header.aeth.msn, 1u);
  EXPECT_EQ(answers[3].header.aeth.msn, 2u);
  EXPECT_EQ(answers[3].header.aeth.syndrome, wire::kAckSyndrome);
  pair.a.receive(answers);
  EXPECT_EQ(pair.a.completions().size(), 2u);
}

TEST(RoceConnection, XrcHasItsOwnOpcodesAndNamesTheSharedQueue) {
  RoceOptions options;
  options.service_a = QpService::kXrcSend;
  options.service_b = QpService::kXrcReceive;
  RocePair pair(options);
  pair.a.fill(kBase, 100, 9);
  pair.b.shared_receives.push_back({kThere, 4096, pair.b.key});
  SendRequest request;
  request.opcode = WorkOpcode::kSend;
  request.flags = kSignaled;
  request.xrc_srqn = 5;
  pair.a.post(request, kBase, 100);
  const RoceParcel send = pair.a.send_one();
  EXPECT_EQ(send.header.opcode, Opcode::kXrcSendOnly);
  EXPECT_EQ(send.header.xrc_srqn, 5u);
  pair.b.receive(send);
  const RoceParcel ack = pair.b.send_one();
  EXPECT_EQ(ack.header.opcode, Opcode::kXrcAck);
  pair.a.receive(ack);
  EXPECT_EQ(pair.a.completions().size(), 1u);
  const auto received = pair.b.completions();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].shared, &pair.b.shared);
  EXPECT_TRUE(pair.a.same(kBase, pair.b, kThere, 100));

  // A shared receive queue that does not exist is an invalid request (annex A14).
  request.xrc_srqn = 6;
  pair.a.post(request, kBase, 100);
  pair.exchange();
  EXPECT_EQ(pair.a.completions()[0].status, WcStatus::kRemoteInvalidRequestError);
  EXPECT_EQ(pair.b.qp->state(), QpState::kErr);
  EXPECT_EQ(pair.b.qp->poll_event(), QpEvent::kRequestError);
}

TEST(RoceConnection, RequestsAndAnswersTakeTurns) {
  RocePair pair;
  pair.b.post(WorkOpcode::kRead, kBase, 4 * 1024, kBase + 0x8000);
  pair.a.receive(pair.b.send());
  pair.a.post(WorkOpcode::kWrite, kBase, 4 * 1024, kThere);
  const auto sent = pair.a.send();
  ASSERT_EQ(sent.size(), 8u);
  for (size_t i = 1; i < sent.size(); ++i) {
    EXPECT_NE(sent[i].header.info().stream, sent[i - 1].header.info().stream) << i;
  }
}

TEST(RoceConnection, CongestionNotificationsAndOtherServicesAreCounted) {
  RocePair pair;
  RoceParcel parcel;
  parcel.header.opcode = Opcode::kCnp;
  pair.a.receive(parcel);
  EXPECT_EQ(pair.a.counters.cnps_received, 1u);
  parcel.header.opcode = Opcode::kUcSendOnly;
  pair.a.receive(parcel);
  parcel.header.opcode = Opcode::kMpSendOnly;
  pair.a.receive(parcel);
  parcel.header.opcode = Opcode::kXrcSendOnly;
  pair.a.receive(parcel);
  EXPECT_EQ(pair.a.counters.drop_wrong_mode, 3u);
  EXPECT_TRUE(pair.a.send().empty());
}

}  // namespace
}  // namespace mprdma::transport
