// Unreliable datagrams, in dialogue.
#include "transport/unreliable/ud_connection.hpp"

#include <gtest/gtest.h>

#include "tests/support/bare_connection.hpp"
#include "tests/support/print.hpp"

namespace mprdma::transport {
namespace {

using Side = BareConnection<UdConnection>;
constexpr uint64_t kFrom = Side::kBase;
constexpr uint64_t kTo = Side::kBase + 0x4000;
constexpr uint32_t kQkey = 0x11111111;

class UdConnectionTest : public testing::Test {
 protected:
  UdConnectionTest() {
    a.core.attributes.qkey = b.core.attributes.qkey = kQkey;
    a.connect(Qpn(0), Psn(5), Psn());
    b.connect(Qpn(0), Psn(5), Psn());
    for (uint32_t i = 0; i < 0x2000; ++i) a.memory[i] = static_cast<uint8_t>(i * 7 + 1);
  }
  void post(uint32_t length, uint32_t qkey = kQkey, WorkOpcode opcode = WorkOpcode::kSend) {
    const Sge sge{kFrom, length, a.key};
    CHECK(a.connection.post_send(Time(), {.wr_id = ++last_,
                                          .opcode = opcode,
                                          .flags = kSignaled | kSolicited,
                                          .imm_or_rkey = 0x1234,
                                          .ah = 77,
                                          .remote_qpn = Qpn(2),
                                          .remote_qkey = qkey,
                                          .sges = {&sge, 1}}));
  }

  Side a{QpService::kUd, Qpn(1)};
  Side b{QpService::kUd, Qpn(2)};
  uint64_t last_ = 0;
};

TEST_F(UdConnectionTest, ADatagramNamesItsSenderAndBringsItsGrh) {
  const Sge sges[] = {{kTo, 20, b.key}, {kTo + 0x1000, 1100, b.key}};
  ASSERT_TRUE(b.core.receives.post({.wr_id = 10, .sges = sges}));
  post(1000, kQkey, WorkOpcode::kSendImm);
  const auto packets = a.send();
  ASSERT_EQ(packets.size(), 1u);
  EXPECT_EQ(a.last_ah, 77u);
  EXPECT_EQ(packets[0].header.dest_qpn, Qpn(2));
  EXPECT_EQ(packets[0].header.deth, (wire::Deth{.q_key = kQkey, .src_qpn = Qpn(1)}));
  EXPECT_EQ(a.sent()->status, WcStatus::kSuccess);
  b.receive(packets[0]);
  const auto completion = b.received();
  ASSERT_TRUE(completion.has_value());
  EXPECT_EQ(completion->status, WcStatus::kSuccess);
  EXPECT_EQ(completion->byte_len, 1040u);
  EXPECT_EQ(completion->src_qpn, Qpn(1));
  EXPECT_TRUE(completion->has_grh && completion->has_imm && completion->solicited);
  EXPECT_EQ(b.memory[0x4000 + 19], 0x47);
  EXPECT_EQ(b.memory[0x4000 + 20], 0);
  EXPECT_EQ(b.memory[0x5000 + 19], 0x47);
  EXPECT_TRUE(std::equal(&a.memory[0], &a.memory[1000], &b.memory[0x5000 + 20]));
}

TEST_F(UdConnectionTest, ACongestionNotificationIsNoDrop) {
  auto packet = Side::Parcel{};
  packet.header.opcode = wire::Opcode::kCnp;
  b.receive(packet);
  EXPECT_EQ(b.counters.cnps_received, 1u);
  EXPECT_EQ(b.counters.drop_wrong_mode, 0u);
}

TEST_F(UdConnectionTest, AForeignQkeyIsACountedDrop) {
  b.post_recv(10, kTo, 4096);
  post(10, kQkey + 1);
  b.receive(a.send()[0]);
  EXPECT_FALSE(b.received().has_value());
  EXPECT_EQ(b.counters.drop_bad_qkey, 1u);
}

TEST_F(UdConnectionTest, AQkeyWithItsTopBitStandsForTheQueuePairsOwn) {
  post(10, 0x80000001);
  EXPECT_EQ(a.send()[0].header.deth.q_key, kQkey);
}

TEST_F(UdConnectionTest, ADatagramWithoutReceiveIsACountedDrop) {
  post(10);
  b.receive(a.send()[0]);
  EXPECT_EQ(b.counters.drop_no_receive, 1u);
  b.post_recv(10, kTo, 4096);
  EXPECT_FALSE(b.received().has_value());
}

// IBTA 9.9.3, class D: a datagram that does not fit is dropped silently.
TEST_F(UdConnectionTest, WhatDoesNotFitBehindTheGrhIsACountedDropAndTakesNoReceive) {
  b.post_recv(10, kTo, 49);
  post(10);
  b.receive(a.send()[0]);
  EXPECT_EQ(b.counters.drop_too_long, 1u);
  EXPECT_FALSE(b.received().has_value());
  EXPECT_EQ(b.memory[0x4000], 0) << "nothing is placed";
  QpEvent event = QpEvent::kFatal;
  EXPECT_FALSE(b.core.refusal.pop(&event));
  post(9);
  b.receive(a.send()[0]);
  EXPECT_EQ(b.received()->byte_len, 49u);
}

// ibv_alloc_null_mr(3): whatever arrives, it goes nowhere, and the queue pair goes on.
TEST(UdNullRegion, TakesTheLargestDatagramWithItsGrh) {
  MemoryTable table(8);
  table.set({.pd = 1, .key = MemoryTable::make_key(3, 7), .kind = MemoryKind::kNull});
  const Sge sge{0, 1 << 20, MemoryTable::make_key(3, 7)};
  EXPECT_TRUE(all_open({&sge, 1}, 0, kGrhBytes + 4096, table, 1, kLocalWrite));
}

TEST_F(UdConnectionTest, AMessageLongerThanThePathMtuFailsAtTheSender) {
  post(1024);
  post(1025);
  post(10);
  EXPECT_EQ(a.send().size(), 1u);
  EXPECT_EQ(a.sent()->status, WcStatus::kSuccess);
  EXPECT_EQ(a.sent()->status, WcStatus::kLocalLengthError);
  EXPECT_TRUE(a.connection.sends_failed());
  EXPECT_FALSE(a.connection.wants_to_send());
}

TEST_F(UdConnectionTest, ReceivesOfASharedQueueAreJudgedInItsProtectionDomain) {
  Side::Shared shared(9);
  Side c(QpService::kUd, Qpn(3), &shared.queue);
  c.core.attributes.qkey = kQkey;
  c.connect(Qpn(0), Psn(), Psn());
  shared.receives = {{20, {kTo, 4096, c.key}}};
  post(10);
  const auto packet = a.send()[0];
  c.receive(packet);
  EXPECT_EQ(c.received()->status, WcStatus::kLocalProtectionError);
  c.regions.set({.iova = Side::kBase,
                 .addr = Side::kBase,
                 .length = Side::kBytes,
                 .pd = 9,
                 .access = kLocalWrite,
                 .key = MemoryTable::make_key(2, 1)});
  shared.receives = {{21, {kTo, 4096, MemoryTable::make_key(2, 1)}}};
  c.receive(packet);
  const auto completion = c.received();
  EXPECT_EQ(completion->status, WcStatus::kSuccess);
  EXPECT_EQ(completion->shared, &shared.queue);
}

}  // namespace
}  // namespace mprdma::transport
