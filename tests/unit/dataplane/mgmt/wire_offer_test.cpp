// What the wire offers is known to the other side in the end, in whatever order the sides come to
// RTR, ask and change their offers.
#include <gtest/gtest.h>

#include <deque>

#include "base/prng.hpp"
#include "dataplane/mgmt/mode_negotiation.hpp"

namespace mprdma::dataplane {

using Offer = PairNegotiation::WireOffer;

static void PrintTo(const Offer& offer, std::ostream* out) {
  *out << "segment " << offer.segment << (offer.runs ? ", runs" : "");
}

namespace {

using wire::PairInfo;
using wire::PairMode;

constexpr Qpn kQpns[] = {Qpn(17), Qpn(34)};

PairNegotiation::Preferences facts(PairMode pinned) {
  PairNegotiation::Preferences out;
  out.negotiates = true;
  out.pinned = pinned;
  out.abilities = 0x2e;  // all modes
  out.window_slots = 128;
  return out;
}

// Two sides and datagrams that arrive in order, each direction by itself.
class Sides {
 public:
  Sides(PairMode a, PairMode b) : pair_{PairNegotiation(facts(a)), PairNegotiation(facts(b))} {}

  void offer(int side, const Offer& offer) {
    offers_[side] = offer;
    if (!pair_[side].begun()) return;
    pair_[side].offer(now_, offer);
    on_time(side);
  }
  // To RTR, as the worker does it.
  void begin(int side) {
    PairNegotiation& pair = pair_[side];
    pair.begin(now_, 1, false);
    pair.offer(now_, offers_[side]);
    pair.recall(now_, {}, kQpns[1 - side]);
    on_time(side);
  }
  // One datagram to `side`; false if there is none.
  bool deliver(int side) {
    if (wire_[side].empty()) return false;
    const Datagram datagram = wire_[side].front();
    wire_[side].pop_front();
    PairNegotiation& pair = pair_[side];
    if (pair.begun()) {
      pair.on_info(now_, datagram.info, !datagram.question);
      on_time(side);
    } else if (datagram.question) {
      pair.remember({}, datagram.info);
    }
    if (datagram.question) tell(side, false);
    return true;
  }
  bool lose(int side) {
    if (wire_[side].empty()) return false;
    wire_[side].pop_front();
    return true;
  }
  void link_up(int side) {
    pair_[side].tell_again(now_);
    on_time(side);
  }
  // A packet of mode mp, if the peer has decided for it.
  void deliver_packet(int side) {
    if (!pair_[side].begun() || !pair_[1 - side].begun() || !pair_[1 - side].decided()) return;
    if (pair_[side].on_packet(now_, PacketOf::kMp, true).ask) ask(side);
  }
  // The next question that a timer asks.
  void wait() {
    now_ = std::min(pair_[0].next_deadline(), pair_[1].next_deadline());
    for (const int side : {0, 1}) on_time(side);
  }
  [[nodiscard]] bool has_timer() const {
    return !std::min(pair_[0].next_deadline(), pair_[1].next_deadline()).is_never();
  }
  void deliver_all() {
    while (deliver(0) || deliver(1)) {
    }
  }
  void ask(int side) { tell(side, true); }
  void on_time(int side) {
    if (pair_[side].next_deadline() > now_) return;
    if (pair_[side].on_deadline(now_).ask) ask(side);
  }
  [[nodiscard]] bool begun(int side) const { return pair_[side].begun(); }
  [[nodiscard]] Offer known_to(int side) const { return pair_[side].peer_offer(); }
  [[nodiscard]] bool waits() const { return !wire_[0].empty() || !wire_[1].empty(); }
  void expect_known() const {
    EXPECT_EQ(known_to(0), offers_[1]);
    EXPECT_EQ(known_to(1), offers_[0]);
  }

 private:
  struct Datagram {
    bool question;
    PairInfo info;
  };
  void tell(int from, bool question) {
    PairInfo info = pair_[from].info();
    info.sender_qpn = kQpns[from];
    wire_[1 - from].push_back({question, info});
  }

  Time now_ = Time::from_ns(1'000'000);
  PairNegotiation pair_[2];
  Offer offers_[2];
  std::deque<Datagram> wire_[2];
};

constexpr Offer kOne{.segment = 16384, .runs = true};
constexpr Offer kOther{.segment = 4096, .runs = true};

// One side is pinned, both in the same mode, or none.
Sides drawn_sides(Prng& prng) {
  constexpr PairMode kModes[] = {PairMode::kNone, PairMode::kMp, PairMode::kMpSingle};
  const PairMode mode = kModes[prng.below(3)];
  return {mode, prng.chance(1, 2) ? mode : PairMode::kNone};
}

TEST(WireOffer, IsToldInEachQuestionAndAnswer) {
  for (const int first : {0, 1}) {
    Sides sides(PairMode::kNone, PairMode::kNone);
    sides.offer(0, kOne);
    sides.offer(1, kOther);
    sides.begin(first);
    sides.begin(1 - first);
    sides.deliver_all();
    sides.expect_known();
  }
}

TEST(WireOffer, OfOneWhoAskedBeforeTheOtherWasConnectedIsRemembered) {
  for (const PairMode pinned : {PairMode::kNone, PairMode::kMp, PairMode::kMpSingle}) {
    Sides sides(PairMode::kNone, pinned);
    sides.offer(0, kOne);
    sides.offer(1, kOther);
    sides.begin(0);
    sides.deliver(1);
    sides.begin(1);
    EXPECT_EQ(sides.known_to(1), kOne) << "without another question";
    sides.deliver_all();
    sides.expect_known();
  }
}

TEST(WireOffer, AChangeIsToldOnce) {
  Sides sides(PairMode::kNone, PairMode::kNone);
  sides.offer(1, kOther);
  sides.begin(0);
  sides.begin(1);
  sides.deliver_all();
  sides.offer(0, kOne);
  EXPECT_TRUE(sides.waits());
  sides.deliver_all();
  sides.expect_known();
  sides.offer(0, kOne);
  EXPECT_FALSE(sides.waits()) << "the peer knows it";
  sides.offer(0, {});
  sides.deliver_all();
  EXPECT_EQ(sides.known_to(1), Offer{}) << "taken back";
}

TEST(WireOffer, IsToldAgainUntilThePeerAnswers) {
  for (uint64_t seed = 1; seed <= 2'000; ++seed) {
    Prng prng(seed);
    Sides sides = drawn_sides(prng);
    sides.offer(0, kOne);
    sides.offer(1, kOther);
    // Fewer than the questions that one side asks.
    auto left = static_cast<uint32_t>(PairNegotiation::kPatience.size()) - 1;
    const int first = static_cast<int>(prng.below(2));
    sides.begin(first);
    while (sides.waits() || sides.has_timer() || !sides.begun(1 - first)) {
      const int side = static_cast<int>(prng.below(2));
      if (!sides.begun(1 - first) && (!sides.waits() || prng.chance(1, 4))) {
        sides.begin(1 - first);
      } else if (prng.chance(1, 8)) {
        sides.deliver_packet(side);
      } else if (left > 0 && prng.chance(1, 2) && sides.lose(side)) {
        --left;
      } else if (!sides.deliver(side) && !sides.waits() && sides.has_timer()) {
        sides.wait();
      }
    }
    sides.expect_known();
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(WireOffer, APeerThatDoesNotAnswerIsNotAskedForEver) {
  Sides sides(PairMode::kMp, PairMode::kMp);
  sides.offer(0, kOne);
  sides.begin(0);
  size_t asked = 0;
  while (sides.lose(1)) {
    ++asked;
    if (sides.has_timer()) sides.wait();
  }
  EXPECT_EQ(asked, PairNegotiation::kPatience.size());
  EXPECT_FALSE(sides.has_timer());
  sides.link_up(0);
  EXPECT_TRUE(sides.waits()) << "it was the wire, perhaps";
}

TEST(WireOffer, AQuestionThatTheWireDidNotTakeTellsNothing) {
  PairNegotiation pair(facts(PairMode::kMp));
  pair.begin(Time(), 1, false);
  pair.offer(Time(), kOne);
  EXPECT_TRUE(pair.on_deadline(Time()).ask);
  pair.postpone(Time() + Duration::ms(1));
  pair.on_info(Time(), PairInfo(), true);  // answers an earlier one
  EXPECT_EQ(pair.next_deadline(), Time() + Duration::ms(1));
}

TEST(WireOffer, IsNotToldToWhoRefusesItNorInTheStandardsMode) {
  PairNegotiation pinned(facts(PairMode::kMp));
  pinned.begin(Time(), 1, false);
  pinned.offer(Time(), kOne);
  pinned.on_refusal(Time());
  EXPECT_TRUE(pinned.next_deadline().is_never());

  PairNegotiation pair(facts(PairMode::kNone));
  pair.begin(Time(), 1, false);
  pair.on_info(Time(), PairNegotiation(facts(PairMode::kMp)).info(), false);
  pair.offer(Time(), kOne);
  EXPECT_EQ(pair.next_deadline(), Time());
  pair.on_info(Time(), PairNegotiation(facts(PairMode::kRoce)).info(), false);
  EXPECT_EQ(pair.mode(), PairMode::kRoce);
  EXPECT_TRUE(pair.next_deadline().is_never());
}

TEST(WireOffer, IsForgottenWithTheConnection) {
  PairNegotiation pair(facts(PairMode::kMp));
  pair.begin(Time(), 1, false);
  PairInfo info;
  info.segment = 4096;
  info.takes_runs = true;
  pair.on_info(Time(), info, true);
  EXPECT_EQ(pair.peer_offer(), kOther);
  pair.reset();
  EXPECT_EQ(pair.peer_offer(), Offer{});
}

TEST(WireOffer, IsKnownInTheEndInWhateverOrder) {
  for (uint64_t seed = 1; seed <= 2'000; ++seed) {
    Prng prng(seed);
    Sides sides = drawn_sides(prng);
    for (int step = 0; step < 20 || sides.waits(); ++step) {
      const int side = static_cast<int>(prng.below(2));
      const bool must_begin = step >= 10;
      if (!sides.begun(side) && (must_begin || prng.chance(1, 4))) sides.begin(side);
      if (step < 12 && prng.chance(1, 4)) {
        const Offer offers[] = {{}, kOne, kOther};
        sides.offer(side, offers[prng.below(3)]);
      }
      if (prng.chance(1, 2)) sides.deliver(side);
    }
    for (const int side : {0, 1}) {
      if (!sides.begun(side)) sides.begin(side);
    }
    sides.deliver_all();
    sides.expect_known();
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
}

}  // namespace
}  // namespace mprdma::dataplane
