// IRN's loss recovery and its two timeouts, packet by packet.
#include "transport/stream/recovery_irn.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/print.hpp"
#include "tests/unit/transport/stream/lone_sender.hpp"

namespace mprdma::transport {
namespace {

using Kind = StreamSender::Choice::Kind;

Params irn(uint32_t window) {
  Params p = Params::irn();
  p.initial_window = window;
  p.window_rtt = Duration::zero();
  p.adapt_timeout = false;
  return p;
}

class IrnSender : public Sender {
 public:
  explicit IrnSender(uint32_t window, Psn first = Psn(kPsnMask - 5)) : Sender(irn(window), first) {}

  // Sends what may leave, new packets only if asked to; the copies among them.
  std::vector<int> copies(bool has_new = false) {
    std::vector<int> out;
    for (;;) {
      const StreamSender::Choice choice = sender.choose(has_new);
      if (!choice.any()) return out;
      sender.on_sent(now, choice);
      if (choice.kind == Kind::kRetransmit) out.push_back(index(choice.psn));
    }
  }
  void time_out() {
    now = sender.next_deadline(false);
    sender.on_deadline(now);
  }
};

using Copies = std::vector<int>;

TEST(IrnRecovery, AsManyPacketsAsAWindowLieBetweenUnaAndNxt) {
  IrnSender s(8);
  EXPECT_EQ(s.send(), 8);
  for (int i = 1; i < 8; ++i) s.ack(0, i);
  EXPECT_EQ(s.copies(true), Copies{0}) << "SACKed packets give no room";
  s.ack(8, 0);
  EXPECT_EQ(s.send(), 8);
}

// Where the window shrinks, SACKed packets may fill it alone.
TEST(IrnRecovery, CopiesDoNotWaitForTheWindow) {
  Params p = irn(8);
  p.window_control = cc::WindowControl::kAimd;
  Sender s(p);
  EXPECT_EQ(s.send(), 8);
  s.ack(0, 7);
  EXPECT_LT(s.sender.window().packets(), 8u);
  EXPECT_EQ(s.send(20, false), 7);
}

TEST(IrnRecovery, EachHoleIsSentOnceInARecovery) {
  IrnSender s(16);
  s.send(10);
  s.ack(0, 3);
  EXPECT_EQ(s.copies(), (Copies{0, 1, 2}));
  s.ack(0, 6);
  EXPECT_EQ(s.copies(), (Copies{4, 5}));
  s.ack(0, 7);
  s.ack(0, 9);
  EXPECT_EQ(s.copies(), Copies{8});
  s.ack(2, 1);
  EXPECT_EQ(s.copies(), Copies{}) << "2 has been sent again";
  EXPECT_EQ(s.counters.retransmitted_nack, 6u);
}

TEST(IrnRecovery, APartialAcknowledgementNamesTheNextHole) {
  IrnSender s(16);
  s.send(6);
  s.ack(0, 1);
  EXPECT_EQ(s.copies(), Copies{0});
  s.ack(2, 0);
  EXPECT_EQ(s.copies(), Copies{2}) << "nothing above it is SACKed";
  s.ack(3, 2);
  EXPECT_EQ(s.copies(), Copies{3});
}

TEST(IrnRecovery, ItEndsBehindTheLastPacketThatHadBeenSent) {
  IrnSender s(16);
  s.send(4);
  s.ack(0, 3);
  EXPECT_EQ(s.copies(), (Copies{0, 1, 2}));
  s.send(4);  // behind the recovery
  s.ack(4, 2);
  EXPECT_EQ(s.copies(), Copies{}) << "4 is a packet like others now";
  s.ack(4, 6);
  EXPECT_EQ(s.copies(), (Copies{4, 5}));
}

TEST(IrnRecovery, ItEndsAlsoWhereAnAcknowledgementJumpsBehindIt) {
  IrnSender s(16);
  s.send(4);
  s.ack(0, 3);
  EXPECT_EQ(s.copies(), (Copies{0, 1, 2}));
  s.send(4);
  s.ack(6, 5);
  EXPECT_EQ(s.copies(), Copies{}) << "6 is a packet like others";
}

TEST(IrnRecovery, OnlyATimeoutFindsALostCopy) {
  IrnSender s(16);
  s.send(6);
  s.ack(0, 2);
  EXPECT_EQ(s.copies(), (Copies{0, 1}));
  s.ack(0, 3);
  s.ack(0, 4);
  s.ack(0, 5);
  EXPECT_EQ(s.copies(), Copies{});
  s.time_out();
  EXPECT_EQ(s.copies(), (Copies{0, 1}));
  EXPECT_EQ(s.counters.retransmitted_rto, 2u);
}

TEST(IrnRecovery, AfterATimeoutTheTailFollowsOneByOne) {
  IrnSender s(16);
  s.send(5);
  s.time_out();
  EXPECT_EQ(s.copies(), Copies{0});
  s.ack(1, 0);
  EXPECT_EQ(s.copies(), Copies{1});
  s.ack(2, 1);
  EXPECT_EQ(s.copies(), Copies{2});
}

// All packets arrive, and new ones follow: the copies end with the packets that were in flight.
TEST(IrnRecovery, AWrongTimeoutCostsAWindowOfCopiesAtMost) {
  IrnSender s(8);
  EXPECT_EQ(s.send(), 8);
  s.time_out();
  size_t copies = s.copies(true).size();
  for (int i = 0; i < 100; ++i) {
    s.ack(i + 1, i);
    copies += s.copies(true).size();
  }
  EXPECT_GE(copies, 1u);
  EXPECT_LE(copies, 8u);
}

TEST(IrnTimeouts, AreShortWhileThreePacketsOrLessAreInFlight) {
  for (const auto& [packets, us] : {std::pair{1, 100}, {3, 100}, {4, 320}, {16, 320}}) {
    IrnSender s(16);
    s.send(packets);
    EXPECT_EQ(s.sender.next_deadline(false) - s.now, Duration::us(us)) << packets;
  }
  IrnSender s(16);
  s.send(8);
  s.now += Duration::us(50);
  s.ack(6, 5);
  EXPECT_EQ(s.sender.next_deadline(false) - s.now, Duration::us(100)) << "two are left";
}

// The receiver has no frame for what comes before its turn: nothing is SACKed, but a hole is there.
TEST(IrnRecovery, APacketThatHadNoRoomTellsOfAHole) {
  IrnSender s(16);
  s.send(3);
  s.ack(0, 2, 0, wire::NackCode::kBudgetExhausted);
  EXPECT_EQ(s.copies(), Copies{0});
  s.ack(1, 0);
  EXPECT_EQ(s.copies(), Copies{1}) << "what was sent before recovery began, one by one";
}

// Each packet takes longer than RTO_low, and is sent twice; of which copy an acknowledgement is,
// nobody knows.
TEST(IrnTimeouts, BackOffUntilAPacketThatLeftOnceIsAcknowledged) {
  Params p = irn(16);
  p.adapt_timeout = true;
  Sender s(p);
  s.send(1);
  s.now = s.sender.next_deadline(false);
  s.sender.on_deadline(s.now);
  EXPECT_EQ(s.send(1, false), 1);
  s.now += Duration::us(50);
  s.rtt = -Duration::us(1);  // no sample, as IrnConnection has it
  s.ack(1, 0, wire::kMpAckReTx);
  s.send(1);
  EXPECT_EQ(s.sender.next_deadline(false) - s.now, Duration::us(200));
  s.rtt = Duration::us(150);
  s.now += s.rtt;
  s.ack(2, 1);
  s.send(1);
  EXPECT_EQ(s.sender.next_deadline(false) - s.now, Duration::us(450)) << "SRTT + 4 RTTVAR";
  EXPECT_EQ(s.counters.packets_retransmitted, 1u);
}

TEST(IrnTimeouts, FollowTheRoundTripWhereThatTakesLonger) {
  Params p = irn(16);
  p.adapt_timeout = true;
  Sender s(p);
  s.rtt = Duration::us(1000);
  s.send(2);
  s.now += s.rtt;
  s.ack(2, 1);
  s.send(2);
  EXPECT_EQ(s.sender.next_deadline(false) - s.now, Duration::us(3000)) << "SRTT + 4 RTTVAR";
}

}  // namespace
}  // namespace mprdma::transport
