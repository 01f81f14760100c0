// Rate control of connections of both modes: which side notices marks, which is told, which sends
// less.
#include "transport/pace/connection_pace.hpp"

#include <gtest/gtest.h>

#include "tests/support/endpoint_pair.hpp"
#include "tests/support/roce_pair.hpp"
#include "tests/support/wire.hpp"

namespace mprdma::transport {
namespace {

using wire::Opcode;

constexpr uint64_t kBase = RoceHost::kBase;
constexpr uint32_t kMtu = 1024;
// A WRITE's middle packet: 1024 B, BTH, and what is around it.
constexpr int64_t kWireBits = (kMtu + 12 + kOuterWireBytes) * 8;

RoceOptions with(Congestion congestion) {
  RoceOptions options;
  options.params = Params::roce_with(congestion);
  options.params.link_mbps = 40'000;
  return options;
}

void mark(std::vector<RoceParcel>* parcels) {
  for (RoceParcel& parcel : *parcels) parcel.header.ce = true;
}

RoceParcel cnp() {
  RoceParcel parcel;
  parcel.header.opcode = Opcode::kCnp;
  return parcel;
}

// Collects the packets that the host sends within a time, as its deadlines let it.
std::vector<RoceParcel> send_for(RoceHost& host, Duration time) {
  const Time end = host.now + time;
  std::vector<RoceParcel> all;
  while (true) {
    for (RoceParcel& parcel : host.send()) all.push_back(std::move(parcel));
    if (host.qp->next_deadline() > end) break;
    host.now = std::max(host.now, host.qp->next_deadline());
    host.on_deadline();
  }
  host.now = end;
  return all;
}

TEST(Congestion, ReceiverAsksForLessAtMostOnceInItsInterval) {
  RocePair pair(with(Congestion::kDcqcnPaper));
  pair.a.post(WorkOpcode::kWrite, kBase, 8 * kMtu);
  auto sent = pair.a.send();
  mark(&sent);
  for (const RoceParcel& parcel : sent) pair.b.receive(parcel);
  ASSERT_EQ(pair.b.urgent.size(), 1U);
  const wire::Packet& notification = pair.b.urgent[0].header;
  EXPECT_EQ(notification.opcode, Opcode::kCnp);
  EXPECT_TRUE(notification.becn);
  EXPECT_EQ(notification.dest_qpn, Qpn(17));
  EXPECT_EQ(notification.vp, 50'000U);
  EXPECT_EQ(notification.psn, Psn(0));
  EXPECT_EQ(pair.b.counters.cnps_sent, 1U);

  pair.b.now += Duration::ns(49'999);
  pair.b.receive(sent[0]);
  EXPECT_EQ(pair.b.urgent.size(), 1U);
  pair.b.now += Duration::ns(1);
  pair.b.receive(sent[0]);  // a duplicate, but the path is full all the same
  EXPECT_EQ(pair.b.urgent.size(), 2U);
  EXPECT_TRUE(pair.b.qp->wants_to_send()) << "the acknowledgement is another matter";
}

TEST(Congestion, AcknowledgementsAskForNothing) {
  RocePair pair(with(Congestion::kDcqcnPaper));
  pair.a.post(WorkOpcode::kWrite, kBase, kMtu);
  pair.b.receive(pair.a.send());
  auto answers = pair.b.send();
  mark(&answers);
  pair.a.receive(answers);
  EXPECT_TRUE(pair.a.urgent.empty());
  EXPECT_EQ(pair.a.completions().size(), 1U);
}

// The sender may be a device of another make, with a rate of its own.
TEST(Congestion, ReceiverAsksForLessThoughItsOwnRateIsNotControlled) {
  RocePair pair;
  pair.a.post(WorkOpcode::kWrite, kBase, 8 * kMtu);
  auto sent = pair.a.send();
  pair.b.receive(sent[0]);
  EXPECT_TRUE(pair.b.urgent.empty()) << "not marked";
  mark(&sent);
  for (const RoceParcel& parcel : sent) pair.b.receive(parcel);
  ASSERT_EQ(pair.b.urgent.size(), 1U);
  EXPECT_EQ(pair.b.urgent[0].header.opcode, Opcode::kCnp);
  EXPECT_EQ(pair.b.urgent[0].header.dest_qpn, Qpn(17));
  pair.b.now += kCnpInterval - Duration::ns(1);
  pair.b.receive(sent[7]);
  EXPECT_EQ(pair.b.urgent.size(), 1U);
  pair.b.now += Duration::ns(1);
  pair.b.receive(sent[7]);
  EXPECT_EQ(pair.b.urgent.size(), 2U);
  EXPECT_EQ(pair.b.counters.cnps_sent, 2U);
}

// The default configuration, as the engine gives it: it names the rate of the link.
TEST(Congestion, SenderObeysANotificationThoughNoControllerWasChosen) {
  RoceOptions options;
  ASSERT_EQ(options.params.congestion, Congestion::kNone);
  options.params.link_mbps = 40'000;
  RocePair pair(options);
  pair.a.post(WorkOpcode::kWrite, kBase, 32 * kMtu);
  EXPECT_EQ(pair.a.send().size(), 32U) << "no limit before";
  pair.a.receive(cnp());
  EXPECT_EQ(pair.a.counters.cnps_received, 1U);
  EXPECT_EQ(pair.a.qp->request_stats().rate_bps, 20'000'000'000U);
  pair.a.post(WorkOpcode::kWrite, kBase, 32 * kMtu);
  EXPECT_EQ(pair.a.send().size(), 1U);
  EXPECT_EQ(static_cast<int64_t>(send_for(pair.a, Duration::us(10)).size()),
            10'000 * 20 / kWireBits);
  // N of DCQCN's paper, as before.
  auto sent = send_for(pair.a, Duration::us(1));
  ASSERT_FALSE(sent.empty());
  mark(&sent);
  pair.b.receive(sent);
  EXPECT_EQ(pair.b.urgent.size(), 1U);
  pair.b.now += kCnpInterval - Duration::ns(1);
  pair.b.receive(sent);
  EXPECT_EQ(pair.b.urgent.size(), 1U);
}

// TIMELY follows the round trip.
TEST(Congestion, SenderWhoseControllerTakesNoNotificationsCountsThemAndGoesOn) {
  for (const Congestion congestion : {Congestion::kTimely, Congestion::kTimelyPatched}) {
    RocePair pair(with(congestion));
    pair.a.receive(cnp());
    EXPECT_EQ(pair.a.counters.cnps_received, 1U);
    EXPECT_EQ(pair.a.qp->request_stats().rate_bps, 0U);
    pair.a.post(WorkOpcode::kWrite, kBase, 40 * kMtu);
    EXPECT_EQ(pair.a.send().size(), 40U);
  }
}

TEST(Congestion, SenderOfALinkWhoseRateNobodyNamesGoesOn) {
  RocePair pair;
  pair.a.receive(cnp());
  EXPECT_EQ(pair.a.counters.cnps_received, 1U);
  pair.a.post(WorkOpcode::kWrite, kBase, 8 * kMtu);
  EXPECT_EQ(pair.a.send().size(), 8U);
  EXPECT_EQ(pair.a.qp->request_stats().rate_bps, 0U);
}

TEST(Congestion, SenderHasNoLimitBeforeTheFirstNotification) {
  RocePair pair(with(Congestion::kDcqcnPaper));
  pair.a.post(WorkOpcode::kWrite, kBase, 100 * kMtu);
  EXPECT_EQ(pair.a.send().size(), 100U);
  EXPECT_EQ(pair.a.qp->request_stats().rate_bps, 0U);
}

TEST(Congestion, PacketsLeaveAtTheRate) {
  RocePair pair(with(Congestion::kDcqcnPaper));
  pair.a.receive(cnp());
  EXPECT_EQ(pair.a.qp->request_stats().rate_bps, 20'000'000'000U);
  pair.a.post(WorkOpcode::kWrite, kBase, 200 * kMtu);
  const Time begin = pair.a.now;
  EXPECT_EQ(pair.a.send().size(), 1U);
  EXPECT_FALSE(pair.a.qp->wants_to_send());
  // 50 us: before the timer raises the rate. One packet is on the wire already.
  const auto sent = send_for(pair.a, begin + Duration::us(50) - pair.a.now);
  EXPECT_EQ(static_cast<int64_t>(sent.size()), 50'000 * 20 / kWireBits);
  // The rest leaves at the new rate.
  const uint64_t before = pair.a.qp->request_stats().packets_sent;
  send_for(pair.a, Duration::us(20));
  const uint64_t after = pair.a.qp->request_stats().packets_sent;
  EXPECT_GT((after - before) * static_cast<uint64_t>(kWireBits), 20'000U * 25);
}

// Retransmissions are paced like first copies.
TEST(Congestion, WhatIsSentAgainHasTheSamePace) {
  RocePair pair(with(Congestion::kDcqcnPaper));
  pair.a.post(WorkOpcode::kWrite, kBase, 20 * kMtu);
  const auto sent = pair.a.send();
  pair.b.receive(sent[1]);
  pair.a.receive(cnp());
  pair.a.receive(pair.b.send());  // go back
  EXPECT_EQ(pair.a.send().size(), 1U);
  EXPECT_EQ(send_for(pair.a, Duration::us(20)).size(), 19U);
}

// A host that was away may catch up, but for no more than a burst.
TEST(Congestion, LateHostCatchesUpALittle) {
  RocePair pair(with(Congestion::kDcqcnPaper));
  pair.a.receive(cnp());
  pair.a.post(WorkOpcode::kWrite, kBase, 200 * kMtu);
  EXPECT_EQ(pair.a.send().size(), 1U);
  pair.a.now += Duration::us(50);
  pair.a.on_deadline();
  const auto burst = static_cast<int64_t>(pair.a.send().size());
  EXPECT_NEAR(static_cast<double>(burst), kPaceSlack.count_ns() * 20.0 / kWireBits, 1.5);
}

TEST(Congestion, ResponsesHaveThePaceAndAcknowledgementsHaveNot) {
  RocePair pair(with(Congestion::kDcqcnPaper));
  pair.a.post(WorkOpcode::kRead, kBase, 20 * kMtu, kBase + 0x8000);
  pair.b.receive(cnp());
  pair.b.receive(pair.a.send());
  EXPECT_EQ(pair.b.send().size(), 1U);
  EXPECT_FALSE(pair.b.qp->wants_to_send());
  EXPECT_EQ(pair.b.qp->response_stats().rate_bps, 20'000'000'000U);
  auto responses = send_for(pair.b, Duration::us(20));
  EXPECT_EQ(responses.size(), 19U);

  // The requester of a READ notices marks, too, and tells the sender of the data.
  mark(&responses);
  pair.a.receive(responses);
  ASSERT_EQ(pair.a.urgent.size(), 1U);
  EXPECT_EQ(pair.a.urgent[0].header.dest_qpn, Qpn(34));

  RocePair other(with(Congestion::kDcqcnPaper));
  other.b.receive(cnp());
  other.b.post(WorkOpcode::kWrite, kBase, 2 * kMtu);
  EXPECT_EQ(other.b.send().size(), 1U);
  other.a.post(WorkOpcode::kWrite, kBase, kMtu);
  other.b.receive(other.a.send());
  EXPECT_EQ(other.b.send_one().header.opcode, Opcode::kRcAck) << "while its own data wait";
}

TEST(Congestion, AcknowledgementsTakeNothingOfTheRate) {
  RocePair pair(with(Congestion::kDcqcnPaper));
  pair.b.receive(cnp());
  pair.a.post(WorkOpcode::kWrite, kBase, kMtu);
  pair.b.receive(pair.a.send());
  EXPECT_EQ(pair.b.send_one().header.opcode, Opcode::kRcAck);
  pair.b.post(WorkOpcode::kWrite, kBase, 2 * kMtu);
  EXPECT_EQ(pair.b.send().size(), 1U) << "at once";
}

TEST(Congestion, ResetForgetsTheRate) {
  RocePair pair(with(Congestion::kDcqcnTuned));
  pair.a.receive(cnp());
  EXPECT_NE(pair.a.qp->request_stats().rate_bps, 0U);
  for (const QpState state : {QpState::kReset, QpState::kInit, QpState::kRtr, QpState::kRts}) {
    ASSERT_TRUE(pair.a.set_state(state));
  }
  pair.a.post(WorkOpcode::kWrite, kBase, 20 * kMtu);
  EXPECT_EQ(pair.a.send().size(), 20U);
}

// ---- The mode mp: the same pace, beside the windows of its streams

PairOptions mp_with(Congestion congestion) {
  PairOptions options;
  options.params.congestion = congestion;
  options.params.link_mbps = 40'000;
  return options;
}

// Marks are echoed in the acknowledgements of the mode mp.
TEST(Congestion, MpSendsCnpsOnlyWithARateController) {
  EndpointPair pair(mp_with(Congestion::kNone));
  pair.a.post(WorkOpcode::kWrite, kBase, kMtu, kBase);
  for (Parcel& parcel : pair.a.send()) {
    parcel.header.ce = true;
    pair.b.receive(parcel);
  }
  EXPECT_TRUE(pair.b.send().empty());
  EXPECT_EQ(pair.b.counters.cnps_sent, 0U);
}

TEST(Congestion, MpTakesCnpsOnlyWithARateController) {
  EndpointPair off(mp_with(Congestion::kNone));
  off.a.receive({cnp().header, {}});
  EXPECT_EQ(off.a.counters.drop_wrong_mode, 1U);
  EXPECT_EQ(off.a.counters.cnps_received, 0U);

  EndpointPair pair(mp_with(Congestion::kDcqcnPaper));
  pair.a.receive({cnp().header, {}});
  EXPECT_EQ(pair.a.counters.drop_wrong_mode, 0U);
  EXPECT_EQ(pair.a.counters.cnps_received, 1U);
  EXPECT_EQ(pair.a.qp->request_stats().rate_bps, 20'000'000'000U);
}

TEST(Congestion, MpPacketsLeaveAtTheRateAndAllArrive) {
  EndpointPair pair(mp_with(Congestion::kDcqcnPaper));
  pair.a.fill(kBase, 40 * kMtu, 7);
  pair.a.post(WorkOpcode::kWrite, kBase, 40 * kMtu, kBase + 0x10000);
  EXPECT_EQ(pair.a.send().size(), 40U) << "no limit before the first notification";

  EndpointPair limited(mp_with(Congestion::kDcqcnPaper));
  limited.a.receive({cnp().header, {}});
  limited.a.fill(kBase, 40 * kMtu, 7);
  limited.a.post(WorkOpcode::kWrite, kBase, 40 * kMtu, kBase + 0x10000);
  EXPECT_EQ(limited.a.qp->next_deadline() > limited.a.now, true);
  const Time begin = limited.a.now;
  limited.run();
  EXPECT_TRUE(limited.b.same(kBase + 0x10000, limited.a, kBase, 40 * kMtu));
  EXPECT_EQ(limited.a.take_completions().size(), 1U);
  const Duration least = Duration::ns(39 * kWireBits / 20) - kPaceSlack;
  EXPECT_GE(limited.a.now - begin, least);
}

TEST(Congestion, MpReceiverAsksForLessBeforeItSendsAnythingElse) {
  EndpointPair pair(mp_with(Congestion::kDcqcnPaper));
  pair.a.post(WorkOpcode::kWrite, kBase, 4 * kMtu, kBase);
  std::vector<Parcel> sent = pair.a.send();
  pair.b.post(WorkOpcode::kWrite, kBase, kMtu, kBase);
  for (Parcel& parcel : sent) {
    parcel.header.ce = true;
    EXPECT_TRUE(pair.b.receive(parcel)) << "the acknowledgement does not wait";
  }
  const std::vector<Parcel> answers = pair.b.send();
  ASSERT_EQ(answers.size(), 2U) << "one CNP in its interval, then its own data";
  EXPECT_EQ(answers[0].header.opcode, Opcode::kCnp);
  EXPECT_TRUE(answers[0].header.becn);
  EXPECT_EQ(pair.b.counters.cnps_sent, 1U);
  pair.a.receive(answers[0]);
  EXPECT_NE(pair.a.qp->request_stats().rate_bps, 0U);
}

}  // namespace
}  // namespace mprdma::transport
