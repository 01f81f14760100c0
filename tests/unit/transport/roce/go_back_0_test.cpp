// Go-back-0 (RDMA over Commodity Ethernet at Scale, 4.1): a loss begins its message again, at both
// ends. The bad wires of roce_random_test.cpp, the swarm and the explorer have it, too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/roce_pair.hpp"
#include "tests/support/wire.hpp"

namespace mprdma::transport {
namespace {

using testing::ElementsAre;
using wire::Opcode;

constexpr uint64_t kHere = RoceHost::kBase;
constexpr uint64_t kThere = kHere + 128 * 1024;
constexpr uint32_t kMtu = 1024;

RoceOptions options_of(uint32_t window = 64) {
  RoceOptions options;
  options.params = Params::roce_gb0();
  options.params.window_max = window;
  options.attributes.path_mtu = kMtu;
  options.attributes.timeout = 14;
  options.attributes.max_rd_atomic = options.attributes.max_dest_rd_atomic = 4;
  return options;
}

std::vector<uint32_t> psns_of(const std::vector<RoceParcel>& parcels) {
  std::vector<uint32_t> psns;
  for (const RoceParcel& parcel : parcels) psns.push_back(parcel.header.psn.value());
  return psns;
}

// Everything but the packet of this PSN.
void receive_without(RoceHost& to, const std::vector<RoceParcel>& parcels, uint32_t psn) {
  for (const RoceParcel& parcel : parcels) {
    if (parcel.header.psn != Psn(psn)) to.receive(parcel);
  }
}

TEST(GoBack0, ALossBeginsTheMessageAgainAndNoEarlierOne) {
  RocePair pair(options_of());
  pair.a.fill(kHere, 4 * kMtu, 3);
  pair.a.post(WorkOpcode::kWrite, kHere, 10, kThere + 8 * kMtu);
  pair.a.post(WorkOpcode::kWrite, kHere, 4 * kMtu, kThere);
  receive_without(pair.b, pair.a.send(), 103);
  const RoceParcel nak = pair.b.send_one();
  EXPECT_EQ(nak.header.aeth.syndrome, wire::nak_syndrome(wire::NakCode::kPsnSequenceError));
  EXPECT_EQ(nak.header.psn, Psn(101)) << "the first packet of the second message";
  pair.a.receive(nak);
  EXPECT_EQ(pair.a.completions().size(), 1u);
  const auto again = pair.a.send();
  EXPECT_THAT(psns_of(again), ElementsAre(101, 102, 103, 104));
  pair.b.receive(again);
  pair.exchange();
  EXPECT_EQ(pair.a.completions().size(), 1u);
  EXPECT_TRUE(pair.a.same(kHere, pair.b, kThere, 4 * kMtu));
}

TEST(GoBack0, AcknowledgementsWithinTheMessageMoveTheWindowAndSaveNothing) {
  RocePair pair(options_of(4));
  pair.a.post(WorkOpcode::kWrite, kHere, 8 * kMtu, kThere);
  pair.b.receive(pair.a.send());
  pair.a.receive(pair.b.send_one());
  const auto rest = pair.a.send();
  ASSERT_THAT(psns_of(rest), ElementsAre(104, 105, 106, 107)) << "four were acknowledged";
  receive_without(pair.b, rest, 104);
  const RoceParcel nak = pair.b.send_one();
  EXPECT_EQ(nak.header.psn, Psn(100));
  pair.a.receive(nak);
  EXPECT_EQ(pair.a.counters.drop_stale_ack, 0u);
  const auto again = pair.a.send();
  EXPECT_THAT(psns_of(again), ElementsAre(100, 101, 102, 103)) << "the window holds it";
  pair.b.receive(again);
  pair.a.receive(pair.b.send_one());
  EXPECT_THAT(psns_of(pair.a.send()), ElementsAre(104, 105, 106, 107));
}

// Progress is what no try before has reached: a packet that never arrives ends the connection.
TEST(GoBack0, RetriesAreNotRenewedByWhatHadArrivedBefore) {
  RoceOptions options = options_of(4);
  options.attributes.retry_cnt = 3;
  RocePair pair(options);
  pair.a.post(WorkOpcode::kWrite, kHere, 6 * kMtu, kThere);
  for (int step = 0; step < 100 && pair.a.qp->state() == QpState::kRts; ++step) {
    receive_without(pair.b, pair.a.send(), 105);
    pair.a.receive(pair.b.send());
    if (!pair.a.qp->wants_to_send()) pair.wait();
  }
  const auto done = pair.a.completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, WcStatus::kRetryExceeded);
  EXPECT_EQ(pair.a.counters.rto_expired, 4u);
}

// An overtaken acknowledgement of the try before moves una_; the NAK is heard all the same.
TEST(GoBack0, AnAcknowledgementOfTheTryBeforeHidesNoNak) {
  RocePair pair(options_of(4));
  pair.a.post(WorkOpcode::kWrite, kHere, 8 * kMtu, kThere);
  pair.b.receive(pair.a.send());
  const RoceParcel ack = pair.b.send_one();
  pair.a.receive(ack);
  receive_without(pair.b, pair.a.send(), 104);
  const RoceParcel nak = pair.b.send_one();
  pair.a.receive(nak);
  pair.a.receive(ack);
  pair.a.receive(nak);
  EXPECT_THAT(psns_of(pair.a.send()), ElementsAre(100, 101, 102, 103));
}

TEST(GoBack0, ATimeoutBeginsTheMessageAgainAlsoAtAReceiverThatHasMostOfIt) {
  RocePair pair(options_of(4));
  pair.a.fill(kHere, 6 * kMtu, 5);
  pair.b.post_recv(kThere, 8 * kMtu);
  pair.a.post(WorkOpcode::kSend, kHere, 6 * kMtu);
  pair.b.receive(pair.a.send());
  pair.a.receive(pair.b.send_one());
  EXPECT_THAT(psns_of(pair.a.send()), ElementsAre(104, 105)) << "both are lost";
  ASSERT_TRUE(pair.wait());
  const auto again = pair.a.send();
  EXPECT_THAT(psns_of(again), ElementsAre(100, 101, 102, 103));
  pair.b.receive(again);
  EXPECT_EQ(pair.b.counters.drop_duplicate, 0u);
  pair.exchange();
  EXPECT_EQ(pair.a.completions().size(), 1u);
  const auto received = pair.b.completions();
  ASSERT_EQ(received.size(), 1u) << "one receive";
  EXPECT_EQ(received[0].byte_len, 6 * kMtu);
  EXPECT_TRUE(pair.a.same(kHere, pair.b, kThere, 6 * kMtu));
}

TEST(GoBack0, AMessageThatIsCompleteIsNotTakenAgain) {
  RocePair pair(options_of());
  pair.b.post_recv(kThere, 8 * kMtu);
  pair.a.post(WorkOpcode::kSend, kHere, 3 * kMtu);
  pair.b.receive(pair.a.send());
  (void)pair.b.send();  // the acknowledgement is lost
  EXPECT_EQ(pair.b.completions().size(), 1u);
  ASSERT_TRUE(pair.wait());
  pair.exchange();
  EXPECT_EQ(pair.a.completions().size(), 1u);
  EXPECT_TRUE(pair.b.completions().empty());
  EXPECT_EQ(pair.b.counters.drop_duplicate, 3u);
}

TEST(GoBack0, AReadIsAskedForFromItsFirstByte) {
  RocePair pair(options_of());
  pair.b.fill(kThere, 4 * kMtu, 9);
  pair.a.post(WorkOpcode::kRead, kHere, 4 * kMtu, kThere);
  pair.b.receive(pair.a.send());
  receive_without(pair.a, pair.b.send(), 102);
  const RoceParcel again = pair.a.send_one();
  EXPECT_EQ(again.header.psn, Psn(100));
  EXPECT_EQ(again.header.reth.va, kThere);
  EXPECT_EQ(again.header.reth.dma_len, 4 * kMtu);
  pair.b.receive(again);
  const auto answer = pair.b.send();
  EXPECT_THAT(psns_of(answer), ElementsAre(100, 101, 102, 103));
  pair.a.receive(answer);
  EXPECT_EQ(pair.a.completions().size(), 1u);
  EXPECT_TRUE(pair.a.same(kHere, pair.b, kThere, 4 * kMtu));
}

// Otherwise an answer that begins in the middle could come when one from the start is waited for.
TEST(GoBack0, AReadIsAskedForAsAWholeAlsoWhenALateAnswerHasBegunIt) {
  RocePair pair(options_of());
  pair.b.fill(kThere, 4 * kMtu, 9);
  pair.a.post(WorkOpcode::kRead, kHere, 4 * kMtu, kThere);
  pair.b.receive(pair.a.send());
  const auto answer = pair.b.send();
  receive_without(pair.a, answer, 101);
  pair.a.receive(answer[0]);  // duplicated by the network, before the request leaves again
  const RoceParcel again = pair.a.send_one();
  EXPECT_EQ(again.header.psn, Psn(100));
  EXPECT_EQ(again.header.reth.dma_len, 4 * kMtu);
  pair.b.receive(again);
  pair.a.receive(pair.b.send());
  EXPECT_EQ(pair.a.completions().size(), 1u);
  EXPECT_EQ(pair.a.qp->request_stats().in_flight, 0u);
  EXPECT_TRUE(pair.a.same(kHere, pair.b, kThere, 4 * kMtu));
}

TEST(GoBack0, AReceiverThatIsNotReadyHasLostNothing) {
  RocePair pair(options_of());
  pair.a.post(WorkOpcode::kWriteImm, kHere, 3 * kMtu, kThere);
  pair.b.receive(pair.a.send());
  const RoceParcel nak = pair.b.send_one();
  EXPECT_EQ(nak.header.aeth.kind(), wire::AethKind::kRnrNak);
  EXPECT_EQ(nak.header.psn, Psn(102)) << "the last packet takes the receive";
  pair.a.receive(nak);
  pair.b.post_recv(kThere, 0);
  ASSERT_TRUE(pair.wait());
  const RoceParcel last = pair.a.send_one();
  EXPECT_EQ(last.header.psn, Psn(102));
  pair.b.receive(last);
  pair.exchange();
  EXPECT_EQ(pair.a.completions().size(), 1u);
}

// Paper, 4.1: where every 256th packet is lost, no message of more packets ever arrives; go-back-N
// delivers it.
TEST(GoBack0, NoMessageArrivesThatIsLongerThanTheNetworkIsKind) {
  constexpr uint32_t kKind = 16;
  for (const bool go_back_0 : {true, false}) {
    RoceOptions options = options_of();
    options.params.go_back_0 = go_back_0;
    RocePair pair(options);
    pair.a.post(WorkOpcode::kWrite, kHere, 3 * kKind * kMtu, kThere);
    uint32_t sent = 0;
    for (int step = 0; step < 1000; ++step) {
      for (const RoceParcel& parcel : pair.a.send()) {
        if (++sent % kKind != 0) pair.b.receive(parcel);
      }
      for (const RoceParcel& parcel : pair.b.send()) pair.a.receive(parcel);
      if (!pair.a.qp->wants_to_send() && !pair.wait()) break;
    }
    const auto done = pair.a.completions();
    if (go_back_0) {
      EXPECT_TRUE(done.empty());
      EXPECT_GT(sent, 100 * kKind) << "and the wire is full";
    } else {
      ASSERT_EQ(done.size(), 1u);
      EXPECT_EQ(done[0].status, WcStatus::kSuccess);
    }
  }
}

}  // namespace
}  // namespace mprdma::transport
