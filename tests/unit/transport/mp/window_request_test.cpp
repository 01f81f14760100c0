// BIND_MW, LOCAL_INV and SEND with invalidate as work requests (IBTA 10.6.7, 10.8.3), in dialogue.
#include <gtest/gtest.h>

#include "tests/support/endpoint_pair.hpp"
#include "tests/support/print.hpp"

namespace mprdma::transport {
namespace {

constexpr uint64_t kLocal = Endpoint::kBase;
constexpr uint64_t kRemote = Endpoint::kBase + 0x10000;
constexpr Key kWindow = MemoryTable::make_key(5, 1);

// b has a window of type 2 over what a writes to.
struct WindowPair : EndpointPair {
  explicit WindowPair(const PairOptions& options = {}, MemoryKind kind = MemoryKind::kWindow2)
      : EndpointPair(options) {
    b.regions.set({.key = kWindow, .kind = kind});
  }
  PostResult bind(Key new_key, uint16_t flags = kSignaled, uint64_t length = 64) {
    return b.post({.opcode = WorkOpcode::kBindMw,
                   .flags = flags,
                   .imm_or_rkey = new_key.value(),
                   .rkey = kWindow,
                   .remote_addr = kRemote,
                   .compare_add = length,
                   .swap = b.key.value(),
                   .remote_qkey = kRemoteWrite | kRemoteAtomic,
                   .sges = {}});
  }
  PostResult invalidate(Key key, uint16_t flags = kSignaled) {
    return b.post({.opcode = WorkOpcode::kLocalInvalidate,
                   .flags = flags,
                   .imm_or_rkey = key.value(),
                   .sges = {}});
  }
  PostResult write(Key rkey, uint32_t length = 64) {
    const Sge sge{kLocal, length, a.key};
    return a.post({.opcode = WorkOpcode::kWrite,
                   .flags = kSignaled,
                   .rkey = rkey,
                   .remote_addr = kRemote,
                   .sges = {&sge, 1}});
  }
  PostResult send_invalidate(Key rkey, uint32_t length = 8) {
    const Sge sge{kLocal, length, a.key};
    return a.post({.opcode = WorkOpcode::kSendInvalidate,
                   .flags = kSignaled | kSolicited,
                   .imm_or_rkey = rkey.value(),
                   .sges = {&sge, 1}});
  }
};

void expect_one(Endpoint& endpoint, WcOpcode opcode, WcStatus status) {
  const auto completions = endpoint.take_completions();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, status);
  EXPECT_EQ(completions[0].opcode, opcode);
}

TEST(WindowRequest, ABoundWindowTakesAWriteAndAnInvalidatedOneRefusesIt) {
  WindowPair pair;
  pair.a.fill(kLocal, 64, 3);
  ASSERT_EQ(pair.bind(Key(kWindow.value() + 1)), PostResult::kOk);
  expect_one(pair.b, WcOpcode::kBindMw, WcStatus::kSuccess);
  pair.write(Key(kWindow.value() + 1));
  pair.run();
  expect_one(pair.a, WcOpcode::kWrite, WcStatus::kSuccess);
  EXPECT_TRUE(pair.b.same(kRemote, pair.a, kLocal, 64));
  ASSERT_EQ(pair.invalidate(Key(kWindow.value() + 1)), PostResult::kOk);
  expect_one(pair.b, WcOpcode::kLocalInvalidate, WcStatus::kSuccess);
  pair.write(Key(kWindow.value() + 1));
  pair.run();
  expect_one(pair.a, WcOpcode::kWrite, WcStatus::kRemoteAccessError);
}

TEST(WindowRequest, AWriteBeyondTheWindowIsRefused) {
  WindowPair pair;
  pair.bind(Key(kWindow.value() + 1), 0);
  pair.write(Key(kWindow.value() + 1), 65);
  pair.run();
  const auto completions = pair.a.take_completions();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, WcStatus::kRemoteAccessError);
}

TEST(WindowRequest, AWindowThatAnotherQueuePairBoundIsRefused) {
  WindowPair pair;
  ASSERT_EQ(pair.b.regions.bind({.pd = 0,
                                 .qpn = Qpn(99),
                                 .window = kWindow,
                                 .new_key = Key(kWindow.value() + 1),
                                 .region = pair.b.key,
                                 .access = kRemoteWrite,
                                 .addr = kRemote,
                                 .length = 64}),
            BindError::kNone);
  pair.write(Key(kWindow.value() + 1));
  pair.run();
  expect_one(pair.a, WcOpcode::kWrite, WcStatus::kRemoteAccessError);
}

TEST(WindowRequest, TheKeyOfAWindowGathersNothing) {
  WindowPair pair;
  pair.bind(Key(kWindow.value() + 1), 0);
  pair.b.take_completions();
  const Sge sge{kRemote, 8, Key(kWindow.value() + 1)};
  pair.b.post({.opcode = WorkOpcode::kWrite,
               .rkey = pair.a.key,
               .remote_addr = kRemote,
               .sges = {&sge, 1}});
  pair.run();
  expect_one(pair.b, WcOpcode::kWrite, WcStatus::kLocalProtectionError);
}

// The key may be announced by the very next SEND.
TEST(WindowRequest, ABindIsDoneBeforeWhatFollowsItIsSent) {
  WindowPair pair;
  pair.b.post(WorkOpcode::kWrite, kLocal, 3000, kRemote + 0x1000);
  ASSERT_EQ(pair.bind(Key(kWindow.value() + 1)), PostResult::kOk);
  EXPECT_EQ(pair.b.regions.key_at(5), kWindow) << "something before it was not sent yet";
  pair.b.post(WorkOpcode::kSend, kLocal, 8);
  while (pair.b.qp->wants_to_send()) {
    TxPacket out;
    ASSERT_TRUE(pair.b.qp->poll_packet(pair.b.now, out));
    if (out.header.opcode == wire::Opcode::kMpSendOnly) {
      EXPECT_EQ(pair.b.regions.key_at(5), Key(kWindow.value() + 1));
      EXPECT_EQ(out.header.psn, Psn(203)) << "it has no PSN of its own";
      return;
    }
  }
  FAIL() << "no SEND";
}

TEST(WindowRequest, ItsCompletionWaitsForWhatWasPostedBefore) {
  WindowPair pair;
  pair.b.post(WorkOpcode::kWrite, kLocal, 8, kRemote + 0x1000);
  pair.bind(Key(kWindow.value() + 1));
  const auto packets = pair.b.send();
  ASSERT_EQ(packets.size(), 1u);
  EXPECT_EQ(pair.b.regions.key_at(5), Key(kWindow.value() + 1));
  EXPECT_TRUE(pair.b.take_completions().empty());
  pair.b.receive(*pair.a.receive(packets[0]));
  const auto completions = pair.b.take_completions();
  ASSERT_EQ(completions.size(), 2u);
  EXPECT_EQ(completions[1].opcode, WcOpcode::kBindMw);
}

TEST(WindowRequest, AFenceWaitsForReads) {
  WindowPair pair;
  pair.bind(Key(kWindow.value() + 1), 0);
  pair.b.post(WorkOpcode::kRead, kLocal, 8, kRemote + 0x1000);
  pair.invalidate(Key(kWindow.value() + 1), kSignaled | kFence);
  uint64_t addr = 0;
  const auto opens = [&] {
    return pair.b.regions.translate_remote(Key(kWindow.value() + 1), 0, Qpn(34), kRemote, 1,
                                           kRemoteWrite, &addr);
  };
  const auto request = pair.b.send();
  ASSERT_EQ(request.size(), 1u);
  EXPECT_TRUE(opens());
  pair.b.receive(*pair.a.receive(request[0]));
  EXPECT_TRUE(opens());
  for (const Parcel& data : pair.a.send()) pair.b.receive(data);
  EXPECT_FALSE(opens());
}

TEST(WindowRequest, ARefusedBindEndsTheQueuePairBehindWhatCameBefore) {
  WindowPair pair;
  pair.b.post(WorkOpcode::kWrite, kLocal, 8, kRemote + 0x1000);
  pair.bind(Key(kWindow.value() + 1), 0, uint64_t{1} << 40);
  pair.b.post(WorkOpcode::kWrite, kLocal, 8, kRemote + 0x1000);
  pair.run();
  const auto completions = pair.b.take_completions();
  ASSERT_EQ(completions.size(), 3u);
  EXPECT_EQ(completions[0].status, WcStatus::kSuccess);
  EXPECT_EQ(completions[1].status, WcStatus::kMwBindError);
  EXPECT_EQ(completions[1].vendor_err, static_cast<uint32_t>(BindError::kBounds));
  EXPECT_EQ(completions[2].status, WcStatus::kFlushError);
  EXPECT_EQ(pair.b.qp->state(), QpState::kErr);
}

TEST(WindowRequest, WhatCannotBeInvalidatedHereIsAnErrorOfTheQueuePair) {
  WindowPair pair;
  pair.invalidate(pair.b.key, 0);
  expect_one(pair.b, WcOpcode::kLocalInvalidate, WcStatus::kMwBindError);
  EXPECT_EQ(pair.b.qp->state(), QpState::kErr);
}

TEST(WindowRequest, NothingIsExecutedInADrainedQueue) {
  WindowPair pair;
  ASSERT_TRUE(pair.b.set_state(QpState::kSqd));
  pair.bind(Key(kWindow.value() + 1));
  EXPECT_EQ(pair.b.regions.key_at(5), kWindow);
  ASSERT_TRUE(pair.b.set_state(QpState::kRts));
  EXPECT_EQ(pair.b.regions.key_at(5), Key(kWindow.value() + 1));
  expect_one(pair.b, WcOpcode::kBindMw, WcStatus::kSuccess);
}

TEST(WindowRequest, NothingIsExecutedInTheErrorState) {
  WindowPair pair;
  ASSERT_TRUE(pair.b.set_state(QpState::kErr));
  pair.bind(Key(kWindow.value() + 1));
  expect_one(pair.b, WcOpcode::kBindMw, WcStatus::kFlushError);
  EXPECT_EQ(pair.b.regions.key_at(5), kWindow);
}

TEST(SendInvalidate, ClosesTheWindowBeforeTheCompletionSaysSo) {
  WindowPair pair;
  pair.bind(Key(kWindow.value() + 1), 0);
  pair.b.take_completions();
  pair.b.post_recv(kRemote + 0x1000, 4096);
  pair.a.fill(kLocal, 1500, 3);
  ASSERT_EQ(pair.send_invalidate(Key(kWindow.value() + 1), 1500), PostResult::kOk);
  const auto packets = pair.a.send();
  ASSERT_EQ(packets.size(), 2u);
  EXPECT_EQ(packets[0].header.opcode, wire::Opcode::kMpSendFirst);
  EXPECT_EQ(packets[1].header.opcode, wire::Opcode::kMpSendLastInvalidate);
  uint64_t addr = 0;
  pair.b.receive(packets[0]);
  EXPECT_TRUE(pair.b.regions.translate_remote(Key(kWindow.value() + 1), 0, Qpn(34), kRemote, 1,
                                              kRemoteWrite, &addr));
  pair.a.receive(*pair.b.receive(packets[1]));
  EXPECT_FALSE(pair.b.regions.translate_remote(Key(kWindow.value() + 1), 0, Qpn(34), kRemote, 1,
                                               kRemoteWrite, &addr));
  const auto received = pair.b.take_completions();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_TRUE(received[0].invalidated && received[0].solicited);
  EXPECT_FALSE(received[0].has_imm);
  EXPECT_EQ(received[0].imm, kWindow.value() + 1);
  EXPECT_EQ(received[0].byte_len, 1500u);
  EXPECT_TRUE(pair.b.same(kRemote + 0x1000, pair.a, kLocal, 1500));
  expect_one(pair.a, WcOpcode::kSend, WcStatus::kSuccess);
}

// IBTA 9.9.3, class J: the peer hears nothing, and gives up as with one that is silent.
TEST(SendInvalidate, OfAKeyThatIsNoWindowHereIsNotAnswered) {
  WindowPair pair;
  pair.b.post_recv(kRemote + 0x1000, 4096);
  ASSERT_EQ(pair.send_invalidate(pair.b.key), PostResult::kOk);
  for (const Parcel& parcel : pair.a.send()) EXPECT_FALSE(pair.b.receive(parcel).has_value());
  const auto received = pair.b.take_completions();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_TRUE(pair.a.take_completions().empty());
  EXPECT_EQ(received[0].status, WcStatus::kRemoteInvalidRequestError);
  EXPECT_EQ(received[0].vendor_err, static_cast<uint32_t>(wire::NackCode::kRemoteAccessError));
  EXPECT_EQ(pair.b.qp->state(), QpState::kErr);
  uint64_t addr = 0;
  EXPECT_TRUE(pair.b.regions.translate(pair.b.key, 0, kRemote, 1, 0, &addr));
}

// The window is invalidated while packets of a WRITE into it are under way.
TEST(WindowRequest, AWindowThatIsInvalidatedInFlightStopsTheWriteWhereItIs) {
  WindowPair pair;
  pair.bind(Key(kWindow.value() + 1), 0, 4096);
  pair.b.take_completions();
  pair.a.fill(kLocal, 4096, 3);
  pair.write(Key(kWindow.value() + 1), 4096);
  const auto packets = pair.a.send();
  ASSERT_EQ(packets.size(), 4u);
  pair.a.receive(*pair.b.receive(packets[0]));
  pair.invalidate(Key(kWindow.value() + 1));
  for (size_t i = 1; i < 4; ++i) pair.a.receive(*pair.b.receive(packets[i]));
  expect_one(pair.a, WcOpcode::kWrite, WcStatus::kRemoteAccessError);
  EXPECT_TRUE(pair.b.same(kRemote, pair.a, kLocal, 1024));
  EXPECT_FALSE(pair.b.same(kRemote + 1024, pair.a, kLocal + 1024, 1024));
  EXPECT_EQ(pair.b.qp->poll_event(), QpEvent::kAccessError);
}

}  // namespace
}  // namespace mprdma::transport
