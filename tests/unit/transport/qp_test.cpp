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

// The way to a state.
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

}  // namespace
}  // namespace mprdma::transport
