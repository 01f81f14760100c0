// Owed acknowledgements: a run of plain packets in order is answered by one, and says the same as
// an acknowledgement of each.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "base/prng.hpp"
#include "tests/support/print.hpp"
#include "tests/support/wire.hpp"
#include "tests/unit/transport/stream/lone_receiver.hpp"

namespace mprdma::transport {
namespace {

constexpr uint16_t kPath = 50000;
constexpr uint16_t kOtherPath = 50001;

// A receiver whose host takes owed acknowledgements; runs of up to four packets.
class OwingReceiver : public Receiver {
 public:
  explicit OwingReceiver(Psn first = Psn(50), uint32_t run = 4)
      : Receiver(8, 64, first, PlacementPolicy::kStandard, true) {
    receiver.set_ack_run(run);
  }
  RxVerdict take(int index, uint8_t flags = 0, bool ce = false, uint16_t path = kPath) {
    return Receiver::take(index, flags, ce, path);
  }
  // The acknowledgement that the last packet made leave; one that is owed now leaves.
  wire::Packet owed() {
    EXPECT_TRUE(actions.has_owed_ack);
    return actions.owed_ack;
  }
  wire::Packet take_ack() {
    wire::Packet ack;
    receiver.take_ack(now, ack);
    return ack;
  }
  // That `ack` answers the packets first..last, and nothing else.
  void expect_run(const wire::Packet& ack, int first, int last) {
    EXPECT_EQ(index(ack.psn), last + 1);
    EXPECT_EQ(index(ack.mp_ack.sack), last);
    EXPECT_EQ(ack.mp_ack.run, last - first);
    EXPECT_EQ(ack.mp_ack.echoed_timestamp, 0x1000u + static_cast<uint32_t>(last));
    EXPECT_EQ(ack.mp_ack.flags, wire::kMpAckSackValid | wire::kMpAckOrderedPlacement);
    EXPECT_EQ(ack.mp_ack.nack, wire::NackCode::kNone);
    EXPECT_EQ(ack.vp, kPath);
    EXPECT_EQ(ack.dest_qpn, Qpn(77));
  }
};

TEST(OwedAck, AnswersAsManyPacketsAsAgreedAndNoMore) {
  OwingReceiver r;
  for (int i = 0; i < 4; ++i) {
    r.take(i);
    EXPECT_FALSE(r.actions.has_ack || r.actions.has_owed_ack);
    EXPECT_TRUE(r.receiver.owes_ack());
  }
  r.take(4);
  r.expect_run(r.owed(), 0, 3);
  r.expect_run(r.take_ack(), 4, 4);
  EXPECT_FALSE(r.receiver.owes_ack());
  EXPECT_EQ(r.counters.acks_sent, 2u);
  r.take(5);
  r.expect_run(r.take_ack(), 5, 5);
}

TEST(OwedAck, WithoutAnAgreementAnswersOnePacket) {
  OwingReceiver r(Psn(50), 1);
  r.take(0);
  r.take(1);
  r.expect_run(r.owed(), 0, 0);
  r.expect_run(r.take_ack(), 1, 1);
}

TEST(OwedAck, EndsAtAnotherPathBecauseItEchoesOne) {
  OwingReceiver r;
  r.take(0);
  r.take(1);
  r.take(2, 0, false, kOtherPath);
  r.expect_run(r.owed(), 0, 1);
  const wire::Packet ack = r.take_ack();
  EXPECT_EQ(ack.vp, kOtherPath);
  EXPECT_EQ(ack.mp_ack.run, 0);
}

// What reports something else leaves at once, behind what is owed.
TEST(OwedAck, LeavesBeforeAnAcknowledgementThatReportsSomethingElse) {
  struct Case {
    int index;
    uint8_t flags;
    bool ce;
    int aack;
    wire::NackCode nack;
  };
  const Case cases[] = {
      {3, 0, true, 4, wire::NackCode::kNone},
      {3, wire::kMpDataReTx, false, 4, wire::NackCode::kNone},
      {4, 0, false, 3, wire::NackCode::kNone},  // a hole
      {1, 0, false, 3, wire::NackCode::kNone},  // a duplicate
      {11, 0, false, 3, wire::NackCode::kWindowOverflow},
  };
  for (const Case& c : cases) {
    OwingReceiver r;
    for (int i = 0; i < 3; ++i) r.take(i);
    r.take(c.index, c.flags, c.ce);
    r.expect_run(r.owed(), 0, 2);
    ASSERT_TRUE(r.actions.has_ack);
    EXPECT_EQ(r.aack(), c.aack);
    EXPECT_EQ(r.sack(), c.index);
    EXPECT_EQ(r.nack(), c.nack);
    EXPECT_EQ(r.actions.ack.mp_ack.run, 0);
    EXPECT_EQ((r.actions.ack.mp_ack.flags & wire::kMpAckEce) != 0, c.ce);
    EXPECT_EQ((r.actions.ack.mp_ack.flags & wire::kMpAckReTx) != 0, c.flags != 0);
    EXPECT_FALSE(r.receiver.owes_ack());
  }
}

TEST(OwedAck, LeavesBeforeARefusal) {
  for (const bool rnr : {false, true}) {
    OwingReceiver r;
    (rnr ? r.not_ready_for : r.refuses) = 2;
    r.take(0);
    r.take(1);
    r.take(2);
    r.expect_run(r.owed(), 0, 1);
    EXPECT_EQ(r.nack(), rnr ? wire::NackCode::kRnr : wire::NackCode::kRemoteAccessError);
    EXPECT_EQ(r.aack(), 2);
  }
}

TEST(OwedAck, SaysHowLongItWasKeptAfterTheLastPacket) {
  OwingReceiver r;
  r.now = Time::from_ns(1'000'000);
  EXPECT_TRUE(r.receiver.owed_since().is_never());
  r.take(0);
  r.now = r.now + Duration::us(40);
  r.take(1);
  EXPECT_EQ(r.receiver.owed_since(), Time::from_ns(1'000'000)) << "the oldest packet";
  r.now = r.now + Duration::ns(7'999);
  EXPECT_EQ(r.take_ack().mp_ack.delay_us, 7u) << "rounded down";
  EXPECT_TRUE(r.receiver.owed_since().is_never());
  r.take(2);
  r.now = r.now + Duration::ms(20);
  EXPECT_EQ(r.take_ack().mp_ack.delay_us, wire::kMpAckDelayMax);
  r.take(3);
  r.now = r.now + Duration::us(3);
  r.take(4, 0, true);
  EXPECT_EQ(r.owed().mp_ack.delay_us, 3u);
  EXPECT_EQ(r.actions.ack.mp_ack.delay_us, 0u) << "this one was not kept";
}

TEST(OwedAck, RunsAcrossTheWrapOfThePsn) {
  OwingReceiver r(Psn(kPsnMask - 1));
  for (int i = 0; i < 4; ++i) r.take(i);
  const wire::Packet ack = r.take_ack();
  r.expect_run(ack, 0, 3);
  EXPECT_EQ(ack.psn, Psn(2));
  EXPECT_EQ(ack.mp_ack.sack, Psn(1));
}

TEST(OwedAck, IsForgottenWithTheConnection) {
  OwingReceiver r;
  r.take(0);
  r.receiver.reset(Psn(9), Qpn(77));
  EXPECT_FALSE(r.receiver.owes_ack());
}

// ---- Against a receiver that acknowledges each packet at once ----------------------------------

// Takes a run apart, as the wire format defines it.
void append_run(const wire::Packet& ack, std::vector<wire::Packet>& out) {
  for (uint32_t left = ack.mp_ack.run + 1u; left-- > 0;) {
    wire::Packet one = ack;
    one.mp_ack.run = 0;
    one.mp_ack.delay_us = 0;
    if (ack.mp_ack.run > 0) {
      one.mp_ack.sack = ack.mp_ack.sack - left;
      one.psn = one.mp_ack.sack + 1;
    }
    out.push_back(one);
  }
}

// Also of the time stamps of all but the last packet, which no run tells.
bool same_but_for_time(wire::Packet a, const wire::Packet& b) {
  a.mp_ack.echoed_timestamp = b.mp_ack.echoed_timestamp;
  return a == b;
}

TEST(OwedAck, SaysWhatAnAcknowledgementOfEachPacketWouldSay) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    Prng prng(seed);
    const Psn first(prng.chance(1, 2) ? kPsnMask - 20 : 50);
    Receiver prompt(8, 64, first);
    OwingReceiver owing(first, static_cast<uint32_t>(prng.range(1, 6)));
    std::vector<wire::Packet> each;
    std::vector<wire::Packet> runs;
    for (int step = 0; step < 60; ++step) {
      const int next = prompt.index(prompt.receiver.rcv_nxt());
      const int index = prng.chance(3, 4) ? next : next - 2 + static_cast<int>(prng.below(5));
      const uint8_t flags = prng.chance(1, 8) ? wire::kMpDataReTx : 0;
      const bool ce = prng.chance(1, 8);
      const uint16_t path = prng.chance(1, 6) ? kOtherPath : kPath;
      if (index < 0) continue;
      prompt.take(index, flags, ce, path);
      owing.take(index, flags, ce, path);
      ASSERT_EQ(prompt.executed, owing.executed);
      if (prompt.actions.has_ack) append_run(prompt.actions.ack, each);
      if (owing.actions.has_owed_ack) append_run(owing.actions.owed_ack, runs);
      if (owing.actions.has_ack) append_run(owing.actions.ack, runs);
      if (owing.receiver.owes_ack() && prng.chance(1, 5)) append_run(owing.take_ack(), runs);
    }
    if (owing.receiver.owes_ack()) append_run(owing.take_ack(), runs);
    ASSERT_EQ(each.size(), runs.size()) << "seed " << seed;
    for (size_t i = 0; i < each.size(); ++i) {
      ASSERT_TRUE(same_but_for_time(each[i], runs[i])) << "seed " << seed << ", number " << i;
    }
  }
}

}  // namespace
}  // namespace mprdma::transport
