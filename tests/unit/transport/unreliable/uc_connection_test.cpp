// Unreliable connections, in dialogue.
#include "transport/unreliable/uc_connection.hpp"

#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "tests/support/bare_connection.hpp"
#include "tests/support/print.hpp"

namespace mprdma::transport {
namespace {

using Side = BareConnection<UcConnection>;
constexpr uint64_t kFrom = Side::kBase;
constexpr uint64_t kTo = Side::kBase + 0x4000;

class UcConnectionTest : public testing::Test {
 protected:
  UcConnectionTest() {
    a.connect(Qpn(2), Psn(kPsnMask), Psn(7));  // the PSN comes round at once
    b.connect(Qpn(1), Psn(7), Psn(kPsnMask));
    for (uint32_t i = 0; i < 0x4000; ++i) a.memory[i] = static_cast<uint8_t>(i * 7 + 1);
  }
  bool post(WorkOpcode opcode, uint32_t length, uint16_t flags = kSignaled, Key lkey = Key(0)) {
    const Sge sge{kFrom, length, lkey != Key(0) ? lkey : a.key};
    return a.connection.post_send(Time(), {.wr_id = ++last_,
                                           .opcode = opcode,
                                           .flags = flags,
                                           .imm_or_rkey = 0x1234,
                                           .rkey = b.key,
                                           .remote_addr = kTo,
                                           .sges = {&sge, 1}});
  }
  bool arrived(uint32_t offset, uint32_t length) {
    return std::equal(&a.memory[offset], &a.memory[offset + length], &b.memory[0x4000 + offset]);
  }

  Side a{QpService::kUc, Qpn(1)};
  Side b{QpService::kUc, Qpn(2)};
  uint64_t last_ = 0;
};

TEST_F(UcConnectionTest, AMessageIsCompleteWhenItsLastPacketWasHandedOut) {
  post(WorkOpcode::kWrite, 2500);
  TxPacket packet;
  ASSERT_TRUE(a.connection.poll_packet(Time(), packet));
  ASSERT_TRUE(a.connection.poll_packet(Time(), packet));
  EXPECT_FALSE(a.sent().has_value());
  ASSERT_TRUE(a.connection.poll_packet(Time(), packet));
  const auto completion = a.sent();
  ASSERT_TRUE(completion.has_value());
  EXPECT_EQ(completion->status, WcStatus::kSuccess);
  EXPECT_EQ(completion->opcode, WcOpcode::kWrite);
  EXPECT_FALSE(a.connection.busy());
}

TEST_F(UcConnectionTest, SendAndWriteCarryDataImmediateAndSolicitation) {
  b.post_recv(10, kTo, 4096);
  b.post_recv(11, kTo, 0);
  post(WorkOpcode::kSendImm, 2500, kSolicited);
  post(WorkOpcode::kWriteImm, 1024);
  const auto packets = a.send();
  ASSERT_EQ(packets.size(), 4u);
  EXPECT_EQ(packets[0].header.opcode, wire::Opcode::kUcSendFirst);
  EXPECT_EQ(packets[1].header.psn, Psn(0));
  EXPECT_FALSE(packets[1].header.solicited_event);
  EXPECT_EQ(packets[3].header.opcode, wire::Opcode::kUcWriteOnlyImm);
  for (const auto& packet : packets) b.receive(packet);
  const auto send = b.received();
  ASSERT_TRUE(send.has_value());
  EXPECT_EQ(send->byte_len, 2500u);
  EXPECT_TRUE(send->has_imm && send->solicited && send->imm == 0x1234);
  EXPECT_TRUE(arrived(0, 2500));
  const auto write = b.received();
  ASSERT_TRUE(write.has_value());
  EXPECT_EQ(write->opcode, WcOpcode::kRecvWriteImm);
  EXPECT_EQ(write->byte_len, 1024u);
  EXPECT_FALSE(a.sent()->emit) << "unsignaled";
  EXPECT_TRUE(a.sent()->emit);
}

TEST_F(UcConnectionTest, ALostPacketCostsItsMessageAndNothingElse) {
  b.post_recv(10, kTo, 4096);
  b.post_recv(11, kTo, 4096);
  post(WorkOpcode::kSend, 3000);
  post(WorkOpcode::kSend, 2000);
  const auto packets = a.send();
  for (size_t i = 0; i < packets.size(); ++i) {
    if (i != 1) b.receive(packets[i]);
  }
  const auto completion = b.received();
  ASSERT_TRUE(completion.has_value());
  EXPECT_EQ(completion->wr_id, 10u) << "the receive serves the next message";
  EXPECT_EQ(completion->byte_len, 2000u);
  EXPECT_FALSE(b.received().has_value());
  EXPECT_EQ(b.counters.drop_message_cut, 1u);
}

TEST_F(UcConnectionTest, ALostLastPacketCostsOnlyItsMessage) {
  b.post_recv(10, kTo, 4096);
  post(WorkOpcode::kSend, 2000);
  post(WorkOpcode::kSend, 10);
  const auto packets = a.send();
  b.receive(packets[0]);
  b.receive(packets[2]);
  EXPECT_EQ(b.received()->byte_len, 10u);
}

TEST_F(UcConnectionTest, AMessageWithoutReceiveIsDroppedAsAWhole) {
  post(WorkOpcode::kSend, 2000);
  post(WorkOpcode::kSend, 10);
  const auto packets = a.send();
  b.receive(packets[0]);
  b.post_recv(10, kTo, 4096);  // comes too late for the first
  b.receive(packets[1]);
  b.receive(packets[2]);
  EXPECT_EQ(b.received()->byte_len, 10u);
  EXPECT_EQ(b.counters.drop_no_receive, 1u);
}

TEST_F(UcConnectionTest, AWriteThatMayNotBeIsDroppedWithoutAWord) {
  b.core.attributes.access = 0;
  post(WorkOpcode::kWrite, 2000);
  for (const auto& packet : a.send()) b.receive(packet);
  EXPECT_FALSE(arrived(0, 1024));
  EXPECT_EQ(b.core.state, QpState::kRts);
  QpEvent event = QpEvent::kNone;
  EXPECT_FALSE(b.core.refusal.pop(&event));
  b.core.attributes.access = kRemoteWrite;
  post(WorkOpcode::kWrite, 2000);
  for (const auto& packet : a.send()) b.receive(packet);
  EXPECT_TRUE(arrived(0, 2000));
}

TEST_F(UcConnectionTest, AMessageTooLongForItsReceiveIsDroppedAndTheReceiveStays) {
  b.post_recv(10, kTo, 1500);
  post(WorkOpcode::kSend, 2000);
  post(WorkOpcode::kSend, 1500);
  for (const auto& packet : a.send()) b.receive(packet);
  EXPECT_EQ(b.received()->byte_len, 1500u);
}

TEST_F(UcConnectionTest, AReceiveOfASharedQueueIsNotLeftWithABrokenMessage) {
  Side::Shared shared(0);
  Side c(QpService::kUc, Qpn(2), &shared.queue);
  c.connect(Qpn(1), Psn(7), Psn(kPsnMask));
  shared.receives = {{20, {kTo, 4096, c.key}}, {21, {kTo, 4096, c.key}}};
  post(WorkOpcode::kSend, 3000);
  post(WorkOpcode::kSend, 10);
  const auto packets = a.send();
  c.receive(packets[0]);
  c.receive(packets[2]);
  c.receive(packets[3]);
  const auto broken = c.received();
  ASSERT_TRUE(broken.has_value());
  EXPECT_EQ(broken->wr_id, 20u);
  EXPECT_EQ(broken->status, WcStatus::kRemoteInvalidRequestError);
  EXPECT_EQ(c.received()->wr_id, 21u);
}

TEST_F(UcConnectionTest, AClosedReceiveBufferIsOurOwnErrorAndEndsTheQueuePair) {
  b.post_recv(10, kTo, 4096);
  b.regions.remove(b.key);
  post(WorkOpcode::kSend, 10);
  b.receive(a.send()[0]);
  EXPECT_EQ(b.received()->status, WcStatus::kLocalProtectionError);
  QpEvent event = QpEvent::kFatal;
  EXPECT_TRUE(b.core.refusal.pop(&event));
  EXPECT_EQ(event, QpEvent::kNone);
}

TEST_F(UcConnectionTest, AFailedSendStopsTheQueueUntilItIsResumed) {
  post(WorkOpcode::kSend, 10);
  post(WorkOpcode::kSend, 10, 0, Key(0x999));
  post(WorkOpcode::kSend, 10);
  EXPECT_EQ(a.send().size(), 1u);
  EXPECT_EQ(a.sent()->status, WcStatus::kSuccess);
  EXPECT_FALSE(a.connection.sends_failed());
  EXPECT_EQ(a.sent()->status, WcStatus::kLocalProtectionError);
  EXPECT_TRUE(a.connection.sends_failed());
  a.core.state = QpState::kSqe;  // as the queue pair does
  EXPECT_EQ(a.sent()->status, WcStatus::kFlushError);
  EXPECT_FALSE(a.sent().has_value());
  post(WorkOpcode::kSend, 10);
  EXPECT_EQ(a.sent()->status, WcStatus::kFlushError);
  a.core.state = QpState::kRts;
  a.connection.resume_sends();
  post(WorkOpcode::kSend, 10);
  const auto packets = a.send();
  ASSERT_EQ(packets.size(), 1u);
  EXPECT_EQ(packets[0].header.psn, Psn(0)) << "what failed had no PSN";
  EXPECT_FALSE(a.connection.sends_failed());
}

TEST_F(UcConnectionTest, DrainingEndsTheMessageThatHasBegunAndBeginsNone) {
  post(WorkOpcode::kSend, 2000);
  post(WorkOpcode::kSend, 10);
  TxPacket packet;
  ASSERT_TRUE(a.connection.poll_packet(Time(), packet));
  a.core.state = QpState::kSqd;
  a.connection.set_draining(true);
  EXPECT_FALSE(a.connection.drained());
  EXPECT_EQ(a.send().size(), 1u);
  EXPECT_TRUE(a.connection.drained());
  a.core.state = QpState::kRts;
  a.connection.set_draining(false);
  EXPECT_EQ(a.send().size(), 1u);
}

// The application moves SQE to RTS at any time, with completions that it has not polled.
TEST_F(UcConnectionTest, ResumingAtAnyTimeCompletesEachRequestOnceAndInOrder) {
  Prng prng(11);
  uint64_t completed = 0;
  for (int step = 0; step < 20'000; ++step) {
    switch (prng.below(4)) {
      case 0:
        if (!post(WorkOpcode::kSend, 1500, kSignaled,
                  prng.below(4) == 0 ? Key(a.key.value() + 1) : Key(0)))
          --last_;
        break;
      case 1:
        a.core.state = prng.below(2) == 0 ? QpState::kSqe : QpState::kRts;
        if (a.core.state == QpState::kRts) a.connection.resume_sends();
        break;
      case 2: {
        TxPacket packet;
        (void)a.connection.poll_packet(Time(), packet);
        break;
      }
      default:
        if (const auto completion = a.sent()) {
          ASSERT_EQ(completion->wr_id, ++completed);
        }
        break;
    }
    ASSERT_EQ(a.connection.outstanding(), last_ - completed);
  }
  EXPECT_GT(completed, 1000u);
}

TEST_F(UcConnectionTest, ACongestionNotificationIsNoDrop) {
  auto packet = Side::Parcel{};
  packet.header.opcode = wire::Opcode::kCnp;
  b.receive(packet);
  EXPECT_EQ(b.counters.cnps_received, 1u);
  EXPECT_EQ(b.counters.drop_wrong_mode, 0u);
}

TEST_F(UcConnectionTest, ASenderOfMarkedPacketsIsAskedForLessOnceInAWhile) {
  post(WorkOpcode::kWrite, 3000);
  auto sent = a.send();
  b.receive(sent[0]);
  EXPECT_TRUE(b.urgent.empty()) << "not marked";
  for (auto& parcel : sent) parcel.header.ce = true;
  b.receive(sent[1]);
  b.receive(sent[2]);
  ASSERT_EQ(b.urgent.size(), 1u);
  EXPECT_EQ(b.urgent[0].opcode, wire::Opcode::kCnp);
  EXPECT_TRUE(b.urgent[0].becn);
  EXPECT_EQ(b.urgent[0].dest_qpn, Qpn(1));
  b.now += kCnpInterval;
  b.receive(sent[2]);
  EXPECT_EQ(b.urgent.size(), 2u) << "also for what is dropped";
  EXPECT_EQ(b.counters.cnps_sent, 2u);
  EXPECT_TRUE(arrived(0, 3000));
}

TEST_F(UcConnectionTest, APacketOfAnotherServiceIsACountedDrop) {
  auto packet = Side::Parcel{};
  packet.header.opcode = wire::Opcode::kRcSendOnly;
  b.receive(packet);
  EXPECT_EQ(b.counters.drop_wrong_mode, 1u);
}

}  // namespace
}  // namespace mprdma::transport
