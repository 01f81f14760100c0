#include "transport/qp.hpp"

#include <gtest/gtest.h>

#include "tests/support/endpoint_pair.hpp"
#include "tests/support/print.hpp"

namespace mprdma::transport {
namespace {

constexpr uint64_t kLocal = Endpoint::kBase;
constexpr uint64_t kRemote = Endpoint::kBase + 0x10000;

PairOptions not_connected() {
  PairOptions options;
  options.connect = false;
  return options;
}

// Moves a queue pair to a state.
std::vector<QpState> way_to(QpState state) {
  switch (state) {
    case QpState::kReset:
      return {};
    case QpState::kInit:
      return {QpState::kInit};
    case QpState::kRtr:
      return {QpState::kInit, QpState::kRtr};
    case QpState::kRts:
      return {QpState::kInit, QpState::kRtr, QpState::kRts};
    case QpState::kSqd:
      return {QpState::kInit, QpState::kRtr, QpState::kRts, QpState::kSqd};
    default:
      return {QpState::kErr};
  }
}

TEST(Qp, TransitionsAreThoseOfTheStandard) {
  using S = QpState;
  const S all[] = {S::kReset, S::kInit, S::kRtr, S::kRts, S::kSqd, S::kErr};
  const std::vector<std::pair<S, S>> allowed = {
      {S::kReset, S::kInit}, {S::kInit, S::kInit}, {S::kInit, S::kRtr}, {S::kRtr, S::kRts},
      {S::kRts, S::kRts},    {S::kRts, S::kSqd},   {S::kSqd, S::kSqd},  {S::kSqd, S::kRts}};
  for (const S from : all) {
    for (const S to : all) {
      EndpointPair pair(not_connected());
      for (const S step : way_to(from)) ASSERT_TRUE(pair.a.set_state(step));
      const bool known =
          to == S::kReset || to == S::kErr ||
          std::find(allowed.begin(), allowed.end(), std::pair(from, to)) != allowed.end();
      EXPECT_EQ(pair.a.set_state(to), known)
          << static_cast<int>(from) << " to " << static_cast<int>(to);
      EXPECT_EQ(pair.a.qp->state(), known ? to : from);
    }
  }
}

TEST(Qp, PostingFollowsTheState) {
  EndpointPair pair(not_connected());
  EXPECT_EQ(pair.a.post(WorkOpcode::kWrite, kLocal, 8, kRemote), PostResult::kBadState);
  pair.a.set_state(QpState::kInit);
  EXPECT_EQ(pair.a.post(WorkOpcode::kWrite, kLocal, 8, kRemote), PostResult::kBadState);
  pair.a.post_recv(kLocal, 8);
  pair.a.set_state(QpState::kRtr);
  EXPECT_EQ(pair.a.post(WorkOpcode::kWrite, kLocal, 8, kRemote), PostResult::kBadState);
  pair.a.set_state(QpState::kRts);
  EXPECT_EQ(pair.a.post(WorkOpcode::kWrite, kLocal, 8, kRemote), PostResult::kOk);
}

TEST(Qp, TheErrorStateFlushesBothQueuesInOrder) {
  EndpointPair pair;
  for (int i = 0; i < 3; ++i) pair.a.post_recv(kLocal, 8);
  for (int i = 0; i < 3; ++i) pair.a.post(WorkOpcode::kWrite, kLocal, 8, kRemote, 0);
  pair.a.send();
  pair.a.set_state(QpState::kErr);
  pair.a.post(WorkOpcode::kWrite, kLocal, 8, kRemote, 0);  // flushed as well
  std::vector<uint64_t> sends;
  std::vector<uint64_t> receives;
  for (const Completion& c : pair.a.take_completions()) {
    EXPECT_EQ(c.status, WcStatus::kFlushError);
    EXPECT_TRUE(c.emit) << "an error is told of, signaled or not";
    (c.is_recv ? receives : sends).push_back(c.wr_id);
  }
  EXPECT_EQ(sends, (std::vector<uint64_t>{1, 2, 3, 4}));
  EXPECT_EQ(receives, (std::vector<uint64_t>{1000, 1001, 1002}));
  EXPECT_FALSE(pair.a.qp->busy());
  EXPECT_TRUE(pair.a.qp->next_deadline().is_never());
}

TEST(Qp, ResetForgetsEverythingAndGivesFramesBack) {
  EndpointPair pair;
  pair.a.post(WorkOpcode::kWrite, kLocal, 3000, kRemote);
  const auto packets = pair.a.send();
  pair.b.receive(packets[1]);
  pair.b.receive(packets[2]);
  EXPECT_EQ(pair.b.frames.size(), 2u);
  pair.b.set_state(QpState::kReset);
  EXPECT_TRUE(pair.b.frames.empty());
  EXPECT_EQ(pair.b.held.in_use(), 0u);
  pair.a.set_state(QpState::kReset);
  EXPECT_TRUE(pair.a.take_completions().empty());
  EXPECT_EQ(pair.a.qp->sends_outstanding(), 0u);
}

TEST(Qp, AConnectionCanBeMadeAgainWithOtherPsns) {
  EndpointPair pair;
  pair.a.post(WorkOpcode::kRead, kLocal, 3000, kRemote);
  pair.b.post_recv(kRemote, 8);
  pair.a.post(WorkOpcode::kSend, kLocal, 8);
  pair.exchange();
  for (Endpoint* endpoint : {&pair.a, &pair.b}) {
    endpoint->take_completions();
    endpoint->set_state(QpState::kReset);
    const bool is_a = endpoint == &pair.a;
    endpoint->attributes.sq_psn = is_a ? Psn(0x900000) : Psn(7);
    endpoint->attributes.rq_psn = is_a ? Psn(7) : Psn(0x900000);
    endpoint->qp->set_attributes(endpoint->attributes);
    for (const QpState state : way_to(QpState::kRts)) endpoint->set_state(state);
  }
  pair.b.post_recv(kRemote, 8);
  pair.a.post(WorkOpcode::kRead, kLocal, 3000, kRemote);
  pair.a.post(WorkOpcode::kSend, kLocal, 8);
  pair.exchange();
  EXPECT_EQ(pair.a.take_completions().size(), 2u);
  EXPECT_EQ(pair.b.take_completions().size(), 1u);
}

// A peer acknowledges before its application answers. Both may be taken in one burst, and programs
// (tgt's iSER target) take an answer that comes before the end of the question for a fault.
TEST(Qp, ASendCompletesBeforeTheAnswerToItIsReceived) {
  EndpointPair pair;
  pair.a.post_recv(kLocal + 0x1000, 64);
  pair.b.post_recv(kRemote, 64);
  pair.a.post(WorkOpcode::kSend, kLocal, 8);
  const std::optional<Parcel> ack = pair.b.receive(pair.a.send().at(0));
  ASSERT_TRUE(ack.has_value());
  pair.b.post(WorkOpcode::kSend, kRemote, 8);
  const Parcel answer = pair.b.send().at(0);
  Placement placements[4];
  FrameHandle released[4];
  RxActions actions(placements, released);
  for (const Parcel& parcel : {*ack, answer}) {
    EXPECT_EQ(pair.a.qp->on_packet(pair.a.now, parcel.header, 1, actions), RxVerdict::kDone);
  }
  const std::vector<Completion> completions = pair.a.take_completions();
  ASSERT_EQ(completions.size(), 2u);
  EXPECT_FALSE(completions[0].is_recv);
  EXPECT_TRUE(completions[1].is_recv);
}

TEST(Qp, DrainingEndsWhatHasBegunAndStartsNothing) {
  EndpointPair pair;
  pair.a.post(WorkOpcode::kWrite, kLocal, 8, kRemote);
  const auto packets = pair.a.send();
  pair.a.set_state(QpState::kSqd);
  pair.a.post(WorkOpcode::kWrite, kLocal, 8, kRemote);
  EXPECT_TRUE(pair.a.send().empty());
  EXPECT_TRUE(pair.a.qp->sq_draining());
  EXPECT_EQ(pair.a.qp->poll_event(), QpEvent::kNone);
  pair.a.receive(*pair.b.receive(packets[0]));
  EXPECT_EQ(pair.a.qp->poll_event(), QpEvent::kSqDrained);
  EXPECT_FALSE(pair.a.qp->sq_draining());
  pair.a.set_state(QpState::kRts);
  EXPECT_EQ(pair.a.send().size(), 1u);
}

TEST(Qp, TheFirstPacketInRtrIsAnEvent) {
  EndpointPair pair(not_connected());
  for (const QpState state : way_to(QpState::kRts)) pair.a.set_state(state);
  for (const QpState state : way_to(QpState::kRtr)) pair.b.set_state(state);
  pair.a.post(WorkOpcode::kWrite, kLocal, 8, kRemote);
  EXPECT_TRUE(pair.b.receive(pair.a.send()[0]).has_value());
  EXPECT_EQ(pair.b.qp->poll_event(), QpEvent::kCommEstablished);
  EXPECT_EQ(pair.b.qp->poll_event(), QpEvent::kNone);
}

TEST(Qp, PacketsOfAnotherTransportAreCountedDrops) {
  EndpointPair pair;
  wire::Packet packet;
  packet.opcode = wire::Opcode::kRcSendOnly;
  packet.psn = Psn(100);
  EXPECT_FALSE(pair.b.receive({packet, {}}).has_value());
  EXPECT_EQ(pair.b.counters.drop_wrong_mode, 1u);
}

TEST(Qp, AnIdlePairHasNoDeadlineAndNothingToSend) {
  EndpointPair pair;
  pair.b.post_recv(kRemote, 64);
  pair.a.post(WorkOpcode::kSend, kLocal, 64);
  pair.a.post(WorkOpcode::kRead, kLocal, 5000, kRemote);
  pair.run();
  for (Endpoint* endpoint : {&pair.a, &pair.b}) {
    EXPECT_TRUE(endpoint->qp->next_deadline().is_never());
    EXPECT_FALSE(endpoint->qp->wants_to_send());
    EXPECT_FALSE(endpoint->qp->busy());
  }
}

TEST(Qp, TakesReceivesFromASharedQueueOnlyWhenAMessageNeedsThem) {
  PairOptions options;
  options.share_receives = true;
  EndpointPair pair(options);
  pair.a.fill(kLocal, 2000, 1);
  pair.a.post(WorkOpcode::kSend, kLocal, 2000);
  pair.a.post(WorkOpcode::kWriteImm, kLocal, 8, kRemote + 0x8000);
  const auto packets = pair.a.send();
  ASSERT_EQ(packets.size(), 3u);
  const auto nack = pair.b.receive(packets[0]);
  EXPECT_EQ(nack->header.mp_ack.nack, wire::NackCode::kRnr);
  pair.b.post_shared(kRemote, 4096);
  pair.b.post_shared(kRemote + 4096, 4096);
  pair.a.receive(*nack);
  pair.run();
  const auto completions = pair.b.take_completions();
  ASSERT_EQ(completions.size(), 2u);
  EXPECT_EQ(completions[0].wr_id, 1000u);
  EXPECT_EQ(completions[0].byte_len, 2000u);
  EXPECT_NE(completions[0].shared, nullptr);
  EXPECT_EQ(completions[1].opcode, WcOpcode::kRecvWriteImm);
  EXPECT_TRUE(pair.b.same(kRemote, pair.a, kLocal, 2000));
}

TEST(Qp, SaysThatTheLastWqeWasReachedOnceWhatItTookHasCompleted) {
  PairOptions options;
  options.share_receives = true;
  EndpointPair pair(options);
  pair.b.post_shared(kRemote, 4096);
  pair.b.post_shared(kRemote + 4096, 4096);
  pair.a.post(WorkOpcode::kSend, kLocal, 2000);
  const auto packets = pair.a.send();
  pair.b.receive(packets[0]);
  pair.b.qp->poll_event();
  RxActions actions({}, {});
  ASSERT_TRUE(pair.b.qp->set_state(pair.b.now, QpState::kErr, actions));
  EXPECT_EQ(pair.b.qp->poll_event(), QpEvent::kNone) << "the half filled one comes first";
  const auto completions = pair.b.take_completions();
  ASSERT_EQ(completions.size(), 1u) << "what nobody took stays in the shared queue";
  EXPECT_EQ(completions[0].status, WcStatus::kFlushError);
  EXPECT_EQ(pair.b.qp->poll_event(), QpEvent::kLastWqeReached);
  EXPECT_EQ(pair.b.qp->poll_event(), QpEvent::kNone);
  EndpointPair own;
  ASSERT_TRUE(own.b.set_state(QpState::kErr));
  EXPECT_EQ(own.b.qp->poll_event(), QpEvent::kNone) << "has a receive queue of its own";
}

TEST(Qp, ASendQueueThatAnErrorStoppedDidNotDrain) {
  PairOptions options;
  options.service = QpService::kUc;
  EndpointPair pair(options);
  pair.a.post(WorkOpcode::kWrite, kLocal, 3000, kRemote);
  TxPacket packet;
  ASSERT_TRUE(pair.a.qp->poll_packet(pair.a.now, packet));
  ASSERT_TRUE(pair.a.set_state(QpState::kSqd));
  pair.a.regions.remove(pair.a.key);
  EXPECT_FALSE(pair.a.qp->poll_packet(pair.a.now, packet));
  const auto completions = pair.a.take_completions();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, WcStatus::kLocalProtectionError);
  EXPECT_EQ(pair.a.qp->state(), QpState::kSqe);
  EXPECT_EQ(pair.a.qp->poll_event(), QpEvent::kNone);
}

TEST(Qp, XrcSpeaksTheStandardWhateverTheDevicesModeIs) {
  PairOptions options;
  options.service = QpService::kXrcSend;
  options.connect = false;
  const EndpointPair pair(options);
  EXPECT_EQ(pair.a.qp->mp(), nullptr);
  EXPECT_TRUE(pair.a.qp->decided());
  EXPECT_EQ(pair.a.qp->params().protocol, Protocol::kRoce);
}

// The host posts requests again that did not complete; a bind that ran must not conflict with
// itself.
TEST(Qp, LocalWorkRunsOnceThoughTheModeIsTakenBack) {
  PairOptions options;
  options.undecided = true;
  EndpointPair pair(options);
  const Key window = MemoryTable::make_key(5, 1);
  pair.a.regions.set({.key = window, .kind = MemoryKind::kWindow2});
  pair.a.qp->set_mode(Params::mp());
  const auto post_both = [&] {
    pair.a.post(WorkOpcode::kWrite, kLocal, 8, kRemote);
    pair.a.post({.opcode = WorkOpcode::kBindMw,
                 .flags = kSignaled,
                 .imm_or_rkey = window.value() + 1,
                 .rkey = window,
                 .remote_addr = kLocal,
                 .compare_add = 64,
                 .swap = pair.a.key.value(),
                 .remote_qkey = kRemoteRead,
                 .sges = {}});
  };
  post_both();
  EXPECT_EQ(pair.a.send().size(), 1u);
  EXPECT_EQ(pair.a.regions.key_at(5), Key(window.value() + 1));
  RxActions actions({}, {});
  pair.a.qp->change_mode(Params::roce(), actions);
  pair.b.qp->set_mode(Params::roce());
  post_both();
  pair.run();
  const auto completions = pair.a.take_completions();
  ASSERT_EQ(completions.size(), 2u);
  for (const Completion& c : completions) EXPECT_EQ(c.status, WcStatus::kSuccess);
  EXPECT_EQ(pair.a.regions.windows_of(pair.a.key), 1u);
}

}  // namespace
}  // namespace mprdma::transport
