// Two sides agree on a mode: the function of both sides' facts, with datagrams and packets that are
// lost, late or crossing.
#include "dataplane/mgmt/mode_negotiation.hpp"

#include <gtest/gtest.h>

#include <array>
#include <queue>
#include <vector>

#include "base/ipv4.hpp"
#include "base/prng.hpp"
#include "tests/support/print.hpp"

namespace mprdma::dataplane {
namespace {

using wire::PairInfo;
using wire::PairMode;
using wire::PairPhase;

constexpr uint32_t kAll = 0x2e;  // mp, mp-paper, mp-single, roce
constexpr uint32_t kRoceOnly = 1u << 5;

PairNegotiation::Preferences facts(PairMode pinned = PairMode::kNone, uint16_t slots = 128,
                                   uint32_t abilities = kAll) {
  PairNegotiation::Preferences out;
  out.negotiates = true;
  out.pinned = pinned;
  out.abilities = abilities;
  out.window_slots = slots;
  return out;
}

PairInfo info(PairMode pinned = PairMode::kNone, uint16_t slots = 128, uint32_t abilities = kAll) {
  return PairNegotiation(facts(pinned, slots, abilities)).info();
}

constexpr Time at(int64_t ms) {
  return Time::from_ns(ms * 1'000'000);
}

TEST(Agree, IsTheSameFromEitherSide) {
  std::vector<PairInfo> all;
  for (const PairMode pinned : {PairMode::kNone, PairMode::kMpSingle, PairMode::kRoce}) {
    for (const uint16_t slots : {64, 128}) {
      for (const uint32_t abilities : {kAll, kRoceOnly}) {
        all.push_back(info(pinned, slots, abilities));
        all.push_back(all.back());
        all.back().wire_version = 2;
      }
    }
  }
  for (const PairInfo& a : all) {
    for (const PairInfo& b : all) {
      if (a.pinned != PairMode::kNone && b.pinned != PairMode::kNone) continue;
      // A side that lacks the other's pinned mode has no mode in common with it.
      const PairMode pinned = a.pinned != PairMode::kNone ? a.pinned : b.pinned;
      if (pinned != PairMode::kNone && (!a.able(pinned) || !b.able(pinned))) continue;
      EXPECT_EQ(agree(a, b).mode, agree(b, a).mode);
      if (a.wire_version != b.wire_version) continue;
      EXPECT_EQ(agree(a, b), agree(b, a));
    }
  }
}

TEST(Agree, MpIfBothCanAndTheSmallerWindow) {
  EXPECT_EQ(agree(info(), info()), (Agreement{PairMode::kMp, 128}));
  EXPECT_EQ(agree(info(), info(PairMode::kNone, 64)), (Agreement{PairMode::kMp, 64}));
  EXPECT_EQ(agree(info(), info(PairMode::kNone, 128, kRoceOnly)).mode, PairMode::kRoce);
}

TEST(Agree, APinnedModeIsFollowedWithItsWindow) {
  EXPECT_EQ(agree(info(), info(PairMode::kMpPaper, 64)), (Agreement{PairMode::kMpPaper, 64}));
  EXPECT_EQ(agree(info(PairMode::kNone, 64), info(PairMode::kMpSingle, 128)),
            (Agreement{PairMode::kMpSingle, 128}));
  EXPECT_EQ(agree(info(), info(PairMode::kRoce)).mode, PairMode::kRoce);
  EXPECT_EQ(agree(info(PairMode::kRoce), info(PairMode::kMpSingle)).mode, PairMode::kRoce)
      << "two that are pinned keep what they have";
}

TEST(Agree, AnotherWireVersionMeansTheStandard) {
  PairInfo newer = info();
  newer.wire_version = 2;
  EXPECT_EQ(agree(info(), newer).mode, PairMode::kRoce);
}

TEST(PairNegotiation, AsksFiveTimesAndThenTakesThePeerForOneOfTheStandard) {
  PairNegotiation pair(facts());
  pair.begin(at(0), 1, false);
  for (const int64_t ms : {0, 20, 50, 100, 180}) {
    EXPECT_EQ(pair.next_deadline(), at(ms));
    const auto step = pair.on_deadline(at(ms));
    EXPECT_TRUE(step.ask && !step.changed);
    EXPECT_FALSE(pair.decided());
  }
  const auto step = pair.on_deadline(at(500));
  EXPECT_TRUE(step.changed && step.silent && !step.ask);
  EXPECT_EQ(pair.mode(), PairMode::kRoce);
  EXPECT_EQ(pair.next_deadline(), at(550));
  EXPECT_TRUE(pair.on_deadline(at(550)).ask) << "but goes on asking";
}

TEST(PairNegotiation, ADecisionForWantOfAnAnswerIsDoubtedUntilSomethingIsHeard) {
  for (const bool heard : {false, true}) {
    PairNegotiation pair(facts());
    pair.begin(at(0), 1, true);
    int64_t ms = 0;
    for (const int64_t wait : {0, 50, 100, 200, 400}) {
      EXPECT_EQ(pair.next_deadline(), at(ms += wait));
      EXPECT_TRUE(pair.on_deadline(at(ms)).ask);
      EXPECT_FALSE(pair.on_deadline(at(ms)).ask);
    }
    if (heard) {
      EXPECT_FALSE(pair.on_packet(at(ms), PacketOf::kRoce, false).changed);
      EXPECT_FALSE(pair.next_deadline().is_never()) << "nobody took that packet";
      EXPECT_FALSE(pair.on_packet(at(ms), PacketOf::kRoce, true).changed);
      EXPECT_TRUE(pair.next_deadline().is_never()) << "it is of the standard";
      continue;
    }
    int asked = 0;
    for (; !pair.next_deadline().is_never(); ++asked) pair.on_deadline(pair.next_deadline());
    EXPECT_EQ(asked, 12) << "not without end";
    pair.tell_again(at(60'000));
    EXPECT_EQ(pair.next_deadline(), at(60'000)) << "the link came up";
    EXPECT_TRUE(pair.on_deadline(at(60'000)).ask);
    EXPECT_EQ(pair.next_deadline(), at(60'050));
    pair.on_refusal(at(60'001));
    pair.tell_again(at(61'000));
    EXPECT_TRUE(pair.next_deadline().is_never()) << "that was an answer";
  }
  PairNegotiation refused(facts());
  refused.begin(at(0), 1, false);
  refused.on_refusal(at(1));
  EXPECT_TRUE(refused.next_deadline().is_never()) << "that was an answer";
  PairNegotiation late(facts());
  late.begin(at(0), 1, true);
  EXPECT_FALSE(late.on_refusal(at(60)).changed);
  EXPECT_TRUE(late.next_deadline().is_never()) << "it answered a doubt";
}

TEST(PairNegotiation, WhatTheWireDidNotTakeIsNoQuestion) {
  for (const bool silent : {false, true}) {
    PairNegotiation pair(facts());
    pair.begin(at(0), 1, silent);
    int64_t ms = 0;
    for (; ms < 150; ++ms) {
      EXPECT_TRUE(pair.on_deadline(at(ms)).ask);
      pair.postpone(at(ms + 1));
    }
    EXPECT_TRUE(pair.on_deadline(at(ms)).ask);
    EXPECT_EQ(pair.next_deadline(), at(ms + (silent ? 100 : 20)));
  }
}

TEST(PairNegotiation, ARefusalOrAKnownSilenceDecidesAtOnce) {
  PairNegotiation refused(facts());
  refused.begin(at(0), 1, false);
  EXPECT_TRUE(refused.on_refusal(at(1)).changed);
  EXPECT_EQ(refused.mode(), PairMode::kRoce);
  PairNegotiation silent(facts());
  EXPECT_TRUE(silent.begin(at(0), 1, true).changed);
  EXPECT_EQ(silent.mode(), PairMode::kRoce);
}

TEST(PairNegotiation, AQuestionDecidesForBothSides) {
  PairNegotiation a(facts());
  PairNegotiation b(facts(PairMode::kNone, 64));
  a.begin(at(0), 1, false);
  b.begin(at(0), 2, false);
  EXPECT_TRUE(b.on_info(at(1), a.info(), true).changed);
  EXPECT_TRUE(a.on_info(at(2), b.info(), true).changed);
  EXPECT_EQ(a.mode(), PairMode::kMp);
  EXPECT_EQ(b.mode(), PairMode::kMp);
  EXPECT_EQ(a.window_slots(), 64);
  EXPECT_EQ(b.window_slots(), 64);
  EXPECT_TRUE(b.next_deadline().is_never()) << "it has nothing to ask any more";
}

// The window of an earlier agreement is no limit for the next one.
TEST(PairNegotiation, APeerThatReturnsWithALargerWindowGetsIt) {
  PairNegotiation pair(facts(PairMode::kNone, 256));
  pair.begin(at(0), 1, false);
  EXPECT_TRUE(pair.on_info(at(1), info(PairMode::kNone, 64), true).changed);
  EXPECT_EQ(pair.window_slots(), 64);
  EXPECT_TRUE(pair.on_info(at(2), info(PairMode::kNone, 128), true).changed);
  EXPECT_EQ(pair.window_slots(), 128);
}

TEST(PairNegotiation, WhoWasAskedBeforeItWasConnectedAsksNobody) {
  PairNegotiation b(facts());
  const wire::IpAddress gid = wire::map_ipv4(Ipv4(0x0a000001));
  PairInfo question = info();
  question.sender_qpn = Qpn(77);
  b.remember(gid, question);
  b.begin(at(0), 2, false);
  EXPECT_FALSE(b.recall(at(0), wire::map_ipv4(Ipv4(0x0a000002)), Qpn(77)));
  EXPECT_FALSE(b.recall(at(0), gid, Qpn(78)));
  EXPECT_TRUE(b.recall(at(0), gid, Qpn(77)));
  EXPECT_EQ(b.mode(), PairMode::kMp);
  b.reset();
  b.begin(at(1), 3, false);
  EXPECT_FALSE(b.recall(at(0), gid, Qpn(77))) << "a new life knows nothing";
}

// A first packet that the connection refuses proves nothing, and the questions go on.
TEST(PairNegotiation, APacketOfTheStandardDecidesForItOnceTheConnectionTookIt) {
  PairNegotiation pair(facts());
  pair.begin(at(0), 1, false);
  EXPECT_FALSE(pair.on_packet(at(1), PacketOf::kRoce, false).changed) << "of a stranger";
  EXPECT_FALSE(pair.decided());
  EXPECT_TRUE(pair.on_first_packet(at(1)).changed);
  EXPECT_EQ(pair.mode(), PairMode::kRoce);
  EXPECT_EQ(pair.info().phase, PairPhase::kTentative);
  EXPECT_FALSE(pair.on_packet(at(1), PacketOf::kRoce, false).changed);
  EXPECT_EQ(pair.info().phase, PairPhase::kTentative);
  EXPECT_FALSE(pair.next_deadline().is_never());
  PairNegotiation other(facts());
  other.begin(at(0), 1, false);
  other.on_first_packet(at(1));
  EXPECT_TRUE(other.on_info(at(2), info(), true).changed) << "it was not the peer's";
  EXPECT_EQ(other.mode(), PairMode::kMp);
  pair.on_packet(at(2), PacketOf::kRoce, true);
  EXPECT_FALSE(pair.on_info(at(2), info(), true).changed) << "it is fixed";
  EXPECT_EQ(pair.info().phase, PairPhase::kFixed);
}

TEST(PairNegotiation, ALateAnswerMendsADecisionThatHadNoEffect) {
  PairNegotiation pair(facts());
  pair.begin(at(0), 1, true);
  ASSERT_EQ(pair.mode(), PairMode::kRoce);
  EXPECT_TRUE(pair.on_info(at(600), info(), true).changed);
  EXPECT_EQ(pair.mode(), PairMode::kMp);
}

TEST(PairNegotiation, APacketOfTheOtherModeIsAReasonToAskNowAndThen) {
  PairNegotiation pair(facts());
  pair.begin(at(0), 1, false);
  pair.on_info(at(0), info(), true);
  EXPECT_TRUE(pair.on_packet(at(1), PacketOf::kRoce, true).ask);
  EXPECT_FALSE(pair.on_packet(at(1), PacketOf::kRoce, true).ask);
  EXPECT_TRUE(pair.on_packet(at(10), PacketOf::kRoce, true).ask);
  EXPECT_FALSE(pair.on_packet(at(12), PacketOf::kRoce, true).ask) << "less and less often";
  EXPECT_EQ(pair.mode(), PairMode::kMp);
  EXPECT_FALSE(pair.on_packet(at(20), PacketOf::kMp, true).ask);
  EXPECT_EQ(pair.info().phase, PairPhase::kFixed);
  EXPECT_FALSE(pair.wants_packet(PacketOf::kMp));
}

// Packets of irn and mp differ, their acknowledgements do not.
TEST(PairNegotiation, WhichPacketsFitAMode) {
  using Fits = std::array<bool, 4>;
  const auto fits = [](PairMode mode) {
    PairNegotiation::Preferences preferences;
    preferences.pinned = mode;
    const PairNegotiation pair(preferences);
    return Fits{pair.fits(PacketOf::kRoce), pair.fits(PacketOf::kMp), pair.fits(PacketOf::kIrn),
                pair.fits(PacketOf::kStreams)};
  };
  EXPECT_EQ(fits(PairMode::kRoce), (Fits{true, false, false, false}));
  EXPECT_EQ(fits(PairMode::kIrn), (Fits{false, false, true, true}));
  for (const PairMode mode : {PairMode::kMp, PairMode::kMpPaper, PairMode::kMpSingle}) {
    EXPECT_EQ(fits(mode), (Fits{false, true, false, true}));
  }
  EXPECT_EQ(fits(PairMode::kNone), Fits{});
}

TEST(PairNegotiation, APinnedSideNeitherAsksNorMoves) {
  PairNegotiation pair(facts(PairMode::kMpSingle));
  EXPECT_FALSE(pair.begin(at(0), 1, false).changed);
  EXPECT_TRUE(pair.next_deadline().is_never());
  EXPECT_FALSE(pair.on_info(at(1), info(PairMode::kRoce), true).changed);
  EXPECT_EQ(pair.mode(), PairMode::kMpSingle);
  EXPECT_EQ(pair.info().phase, PairPhase::kFixed);
}

TEST(SilentPeers, AreRememberedForAWhile) {
  SilentPeers peers;
  const wire::IpAddress gid = wire::map_ipv4(Ipv4(1));
  EXPECT_FALSE(peers.contains(gid, at(0)));
  peers.add(gid, at(0));
  EXPECT_TRUE(peers.contains(gid, at(9'999)));
  EXPECT_FALSE(peers.contains(gid, at(10'000)));
  peers.add(gid, at(20'000));
  peers.remove(gid);
  EXPECT_FALSE(peers.contains(gid, at(20'001)));
  for (uint32_t i = 0; i < 1000; ++i) peers.add(wire::map_ipv4(Ipv4(i)), at(30'000));
  EXPECT_TRUE(peers.contains(wire::map_ipv4(Ipv4(999)), at(30'001)));
  peers.forget_all();
  EXPECT_FALSE(peers.contains(wire::map_ipv4(Ipv4(999)), at(30'001)));
}

// ---- Two sides over a bad wire -----------------------------------------------------------------

// Two sides, each with work for the other: a decided side sends packets until the other has
// accepted one in the same mode; datagrams and packets are lost, late and overtake each other.
class BadWire {
 public:
  BadWire(uint64_t seed, const PairNegotiation::Preferences& a,
          const PairNegotiation::Preferences& b)
      : prng_(seed), side_{Side{PairNegotiation(a)}, Side{PairNegotiation(b)}} {
    loss_per_mille_ = static_cast<uint32_t>(prng_.below(1001));
    for (Side& side : side_) {
      side.begins = at(static_cast<int64_t>(prng_.below(300)));
      side.silent = prng_.chance(1, 4);
    }
  }

  void run() {
    const Time healed = at(3'000);
    for (int64_t ms = 0; ms < 20'000; ++ms) {
      now_ = at(ms);
      if (now_ == healed) loss_per_mille_ = 0;
      for (int i = 0; i < 2; ++i) turn(i);
      deliver();
      if (now_ > healed && both_fixed()) break;
    }
  }

  [[nodiscard]] const PairNegotiation& pair(int i) const { return side_[i].pair; }

 private:
  struct Side {
    PairNegotiation pair{};
    Time begins{};
    bool silent = false;
    bool begun = false;
    Time next_packet{};
  };
  struct Message {
    Time at{};
    uint64_t order = 0;
    int to = 0;
    bool datagram = false;
    bool question = false;
    bool mp = false;
    PairInfo info{};
    bool operator<(const Message& other) const {
      return at != other.at ? other.at < at : other.order < order;
    }
  };

  [[nodiscard]] bool both_fixed() const {
    return side_[0].pair.info().phase == PairPhase::kFixed &&
           side_[1].pair.info().phase == PairPhase::kFixed;
  }
  void send(Message message) {
    if (prng_.below(1000) < loss_per_mille_) return;
    message.at = now_ + Duration::us(static_cast<int64_t>(prng_.below(100'000)));
    message.order = order_++;
    messages_.push(message);
  }
  void tell(int from, bool question) {
    send({.to = 1 - from, .datagram = true, .question = question, .info = side_[from].pair.info()});
  }
  void turn(int i) {
    Side& side = side_[i];
    if (!side.begun && side.begins <= now_) {
      side.begun = true;
      side.pair.begin(now_, 1, side.silent);
      side.pair.recall(now_, wire::IpAddress{}, Qpn(0));
    }
    if (side.pair.next_deadline() <= now_ && side.pair.on_deadline(now_).ask) tell(i, true);
    if (side.pair.decided() && side.begun && side.next_packet <= now_) {
      send({.to = 1 - i, .mp = side.pair.mode() != PairMode::kRoce});
      side.next_packet = now_ + Duration::ms(10);
    }
  }
  void deliver() {
    while (!messages_.empty() && messages_.top().at <= now_) {
      const Message message = messages_.top();
      messages_.pop();
      Side& side = side_[message.to];
      const bool fixed = side.begun && side.pair.info().phase == PairPhase::kFixed;
      const PairMode mode = side.pair.mode();
      const PacketOf of_message = message.mp ? PacketOf::kMp : PacketOf::kRoce;
      if (message.datagram) {
        if (side.begun) {
          side.pair.on_info(now_, message.info, !message.question);
        } else {
          side.pair.remember(wire::IpAddress{}, message.info);
        }
        if (message.question) tell(message.to, false);
      } else if (side.begun && side.pair.wants_packet(of_message)) {
        if (!message.mp && prng_.chance(3, 4)) side.pair.on_first_packet(now_);
        const bool taken = side.pair.decided() && prng_.chance(3, 4);
        if (side.pair.on_packet(now_, of_message, taken).ask) tell(message.to, true);
      }
      if (!fixed) continue;
      ASSERT_EQ(side.pair.mode(), mode) << "what is fixed moved";
    }
  }

  Prng prng_;
  std::array<Side, 2> side_;
  std::priority_queue<Message> messages_;
  Time now_;
  uint64_t order_ = 0;
  uint32_t loss_per_mille_ = 0;
};

void expect_one_mode(const PairNegotiation::Preferences& a, const PairNegotiation::Preferences& b,
                     uint64_t seed) {
  BadWire wire(seed, a, b);
  wire.run();
  ASSERT_EQ(wire.pair(0).info().phase, PairPhase::kFixed) << "seed " << seed;
  ASSERT_EQ(wire.pair(1).info().phase, PairPhase::kFixed) << "seed " << seed;
  ASSERT_EQ(wire.pair(0).mode(), wire.pair(1).mode()) << "seed " << seed;
  if (wire.pair(0).mode() != PairMode::kRoce) {
    ASSERT_EQ(wire.pair(0).window_slots(), wire.pair(1).window_slots()) << "seed " << seed;
  }
}

TEST(BadWire, BothSidesComeToTheSameModeWhateverIsLost) {
  for (uint64_t seed = 1; seed <= 1'000; ++seed) {
    expect_one_mode(facts(), facts(PairMode::kNone, 64), seed);
    if (HasFatalFailure()) return;
  }
}

TEST(BadWire, APinnedModeWinsWhateverIsLost) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    for (const PairMode pinned : {PairMode::kMpSingle, PairMode::kRoce}) {
      expect_one_mode(facts(), facts(pinned, 64), seed);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace mprdma::dataplane
