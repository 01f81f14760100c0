// ACK clocking, path selection and the paper's own recovery: transport/stream_sender_clocks.cpp,
// path_select.hpp, recovery_paper.hpp.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tests/support/print.hpp"
#include "transport/stream_sender.hpp"

namespace mprdma::transport {
namespace {

using Kind = StreamSender::Choice::Kind;

constexpr uint32_t kOne = Fixed16::kOneRaw;

// No growth, so that windows are whole; no probing, no timers: a test switches on what it is about.
Params params_with(uint32_t window) {
  Params p;
  p.initial_window = window;
  p.window_max = window;
  p.loss_trigger = 0;
  p.path_probe_per_mille = 0;
  p.early_retransmit = false;
  p.tail_probe = false;
  p.initial_rtt = Duration::us(10);
  p.rto_floor = Duration::ms(1);
  p.rto_ceiling = Duration::ms(10);
  return p;
}

class Stream {
 public:
  explicit Stream(const Params& params, uint64_t seed = 7) : sender(params, &counters) {
    sender.reset(first_, 50'000, Prng(seed));
    sender.on_backlog(now);  // as the first post does
  }

  Psn psn(int index) const { return first_ + static_cast<uint32_t>(index); }
  int index(Psn p) const { return first_.distance_to(p); }

  // Sends what may be sent, `count` packets at most; their paths.
  std::vector<uint16_t> send(int count = 1000, bool has_new = true) {
    std::vector<uint16_t> paths;
    while (static_cast<int>(paths.size()) < count) {
      const StreamSender::Choice choice = sender.choose(has_new);
      if (!choice.any()) break;
      last = choice;
      paths.push_back(sender.on_sent(now, choice));
    }
    return paths;
  }
  // The same, as numbers of packets.
  int sends(int count = 1000, bool has_new = true) {
    return static_cast<int>(send(count, has_new).size());
  }

  void ack(int aack, int sack, uint16_t vp = 60'000, uint8_t flags = 0,
           wire::NackCode nack = wire::NackCode::kNone) {
    wire::Packet packet;
    packet.opcode = wire::Opcode::kMpAck;
    packet.psn = psn(aack);
    packet.vp = vp;
    packet.mp_ack.flags = static_cast<uint8_t>(flags | wire::kMpAckSackValid);
    packet.mp_ack.nack = nack;
    packet.mp_ack.sack = psn(sack);
    packet.mp_ack.echoed_timestamp = static_cast<uint32_t>((now - Duration::us(10)).ns());
    sender.on_ack(now, packet, backlog);
  }
  void overflow(int aack, int dropped, uint16_t vp = 60'000) {
    ack(aack, dropped, vp, 0, wire::NackCode::kWindowOverflow);
  }
  void pass(Duration time) { now += time; }
  void time_out() {
    now = sender.next_deadline(backlog);
    sender.on_deadline(now);
  }
  uint32_t window_raw() const { return sender.window().exact().raw(); }
  uint32_t window() const { return sender.window().packets(); }

  TransportCounters counters;
  StreamSender sender;
  StreamSender::Choice last;
  Time now = Time::from_ns(5'000'000);
  bool backlog = true;  // what the owner says at an acknowledgement

 private:
  Psn first_ = Psn(kPsnMask - 5);  // every test crosses the wrap
};

using Paths = std::vector<uint16_t>;

// ---- Start, clocking ---------------------------------------------------------------------------

TEST(AckClocking, TheInitialWindowLeavesOnRandomPaths) {
  Stream s(params_with(32));
  const Paths paths = s.send();
  ASSERT_EQ(paths.size(), 32u);
  const std::set<uint16_t> distinct(paths.begin(), paths.end());
  EXPECT_GE(distinct.size(), 31u);
  EXPECT_GE(*distinct.begin(), wire::kVirtualPathMin);
  EXPECT_EQ(s.sends(), 0) << "and no more";
  EXPECT_EQ(s.sender.stats().random_paths, 32u);
}

TEST(AckClocking, TheSeedGivesThePaths) {
  Stream a(params_with(8), 1);
  Stream b(params_with(8), 1);
  Stream c(params_with(8), 2);
  const Paths paths = a.send();
  EXPECT_EQ(paths, b.send());
  EXPECT_NE(paths, c.send());
}

TEST(AckClocking, AnAckClocksOnThePathThatItEchoes) {
  Stream s(params_with(4));
  s.send();
  s.ack(1, 0, 50'001);
  s.ack(1, 2, 50'002);
  EXPECT_EQ(s.send(), (Paths{50'001, 50'002}));
  EXPECT_EQ(s.sends(), 0);
}

TEST(AckClocking, AnAckClocksTwoPacketsAtMost) {
  Stream s(params_with(8));
  s.send();
  s.ack(5, 4, 50'001);  // four acknowledgements before it were lost
  EXPECT_EQ(s.send(), (Paths{50'001, 50'001}));
  s.ack(6, 5, 50'002);
  EXPECT_EQ(s.send(), (Paths{50'002, 50'002})) << "later ones clock out the rest";
}

TEST(AckClocking, WhatBurstControlHoldsBackLeavesOnRandomPathsAfterHalfAnRtt) {
  Stream s(params_with(8));
  s.send();
  s.ack(5, 4, 50'001);
  s.send();
  EXPECT_EQ(s.sender.next_deadline(true) - s.now, Duration::us(5));
  EXPECT_GT(s.sender.next_deadline(false) - s.now, Duration::us(5)) << "nothing waits";
  s.time_out();
  const Paths paths = s.send();
  EXPECT_EQ(paths.size(), 3u);
  for (const uint16_t vp : paths) EXPECT_NE(vp, 50'001);
  EXPECT_EQ(s.sender.in_flight(), 8u);
}

TEST(AckClocking, AClockThatFoundTheWireBusyKeepsItsPath) {
  Stream s(params_with(4));
  s.send();
  s.ack(1, 0, 50'001);
  s.ack(2, 1, 50'002);
  EXPECT_EQ(s.send(1), (Paths{50'001}));
  s.ack(3, 2, 50'003);
  EXPECT_EQ(s.sender.in_flight() + s.sender.clocks(), 4u);
  EXPECT_EQ(s.send(), (Paths{50'002, 50'003}));
}

TEST(AckClocking, AClockThatWaitedThreeRttsLosesItsPathButNotItsRight) {
  Stream s(params_with(4));
  s.send();
  s.ack(1, 0, 50'001);
  s.pass(Duration::us(31));
  const Paths paths = s.send();
  ASSERT_EQ(paths.size(), 1u);
  EXPECT_NE(paths[0], 50'001);
}

TEST(AckClocking, APortThatIsNoPathIsNotUsed) {
  Stream s(params_with(4));
  s.send();
  s.ack(1, 0, 53);
  const Paths paths = s.send();
  ASSERT_EQ(paths.size(), 1u);
  EXPECT_GE(paths[0], wire::kVirtualPathMin);
}

TEST(AckClocking, AShrunkenWindowTakesClocksBackTheOldestFirst) {
  Stream s(params_with(8));
  s.send();
  s.ack(1, 0, 50'001);
  s.ack(2, 1, 50'002);
  s.ack(3, 2, 50'003);
  // Two lost PSNs cost 3/4 each .. and make room; every mark that follows closes it.
  for (int i = 3; i < 7; ++i) s.ack(i + 1, i, 50'000, wire::kMpAckEce);
  EXPECT_EQ(s.window(), 6u);
  EXPECT_LE(s.sender.in_flight() + s.sender.clocks(), 6u);
  s.sender.pause(s.now + Duration::us(1));
  EXPECT_EQ(s.sends(), 0);
}

TEST(AckClocking, ATimeoutLeavesOldPathsAndTriesRandomOnes) {
  Stream s(params_with(8));
  s.send();
  s.ack(1, 0, 50'001);
  s.time_out();
  const Paths paths = s.send();
  EXPECT_EQ(paths.size(), 4u) << "half of the window";
  for (const uint16_t vp : paths) EXPECT_NE(vp, 50'001);
  EXPECT_EQ(s.last.kind, Kind::kRetransmit);
}

TEST(AckClocking, TheTailProbeTakesARandomPathAndNoClock) {
  Params p = params_with(4);
  p.tail_probe = true;
  p.probe_floor = Duration::us(20);
  Stream s(p);
  s.send();
  s.ack(1, 0, 50'001);
  s.time_out();
  const Paths paths = s.send(1, false);
  ASSERT_EQ(paths.size(), 1u);
  EXPECT_EQ(s.last.kind, Kind::kProbe);
  EXPECT_NE(paths[0], 50'001);
  EXPECT_EQ(s.send(1), (Paths{50'001})) << "the clock is still there";
}

TEST(AckClocking, OnePathNeedsNoClock) {
  Params p = params_with(4);
  p.path_policy = PathPolicy::kSingle;
  Stream s(p);
  EXPECT_EQ(s.send(), (Paths{50'000, 50'000, 50'000, 50'000}));
  s.ack(3, 2, 60'000);
  EXPECT_EQ(s.sends(), 3) << "no burst control on one path";
}

// ---- Slow paths, probing -----------------------------------------------------------------------

TEST(PathSelection, AnAckFarBehindCostsAPacketAndClocksNothing) {
  Params p = params_with(64);
  p.reorder_delta = 8;
  Stream s(p);
  s.send();
  for (int i = 1; i <= 9; ++i) s.ack(0, i, 50'001);
  s.send();
  const uint32_t in_flight = s.sender.in_flight();
  s.ack(10, 0, 50'002);  // nine behind the furthest
  EXPECT_EQ(s.window_raw(), 63 * kOne);
  EXPECT_EQ(s.sender.in_flight(), in_flight - 1) << "what it acknowledges counts all the same";
  EXPECT_EQ(s.sends(), 0);
  EXPECT_EQ(s.counters.acks_pruned, 1u);
}

TEST(PathSelection, ASlowPathGetsNothingThoughTheWindowHasRoom) {
  Params p = params_with(64);
  p.reorder_delta = 8;
  Stream s(p);
  s.send();
  for (const int i : {1, 2, 9}) s.ack(0, i, 50'001);
  s.send();
  s.ack(10, 0, 50'002);  // the acknowledgements of 3 to 8 were lost
  EXPECT_LT(s.sender.in_flight(), s.window());
  EXPECT_EQ(s.sends(), 0);
}

TEST(PathSelection, AnAckWithinDeltaOrOfARetransmissionIsNotJudged) {
  for (const bool retransmitted : {false, true}) {
    Params p = params_with(64);
    p.reorder_delta = 8;
    Stream s(p);
    s.send();
    for (int i = 1; i <= (retransmitted ? 20 : 8); ++i) s.ack(0, i, 50'001);
    s.send();
    s.ack(9, 0, 50'002, retransmitted ? wire::kMpAckReTx : 0);
    EXPECT_EQ(s.window_raw(), 64 * kOne);
    EXPECT_EQ(s.send(1), (Paths{50'002}));
  }
}

TEST(PathSelection, TheFurthestSackNeverLiesBehindSndUna) {
  Params p = params_with(16);
  p.reorder_delta = 8;
  Stream s(p);
  s.send();
  s.ack(0, 3);
  s.ack(16, 15);  // passes it
  EXPECT_EQ(s.sender.stats().ooo_degree, 0u);
  s.send();
  s.ack(17, 16, 50'001);
  EXPECT_EQ(s.counters.acks_pruned, 0u) << "a stale mark would invert the comparison";
}

TEST(PathSelection, OncePerRoundTripAPacketProbesANewPath) {
  Params p = params_with(8);
  p.path_probe_per_mille = 1000;
  Stream s(p);
  s.send();
  int strange = 0;
  int acked = 0;
  for (int round = 0; round < 10; ++round) {
    s.pass(Duration::us(10));
    for (int i = 0; i < 8; ++i, ++acked) {
      s.ack(acked + 1, acked, 50'001);
      for (const uint16_t vp : s.send()) strange += vp == 50'001 ? 0 : 1;
    }
  }
  EXPECT_EQ(strange, 10);
  EXPECT_EQ(s.counters.path_probes, 10u);
}

// ---- The application ---------------------------------------------------------------------------

// Sends a message of `packets` and hears of all of it.
void exchange(Stream& s, int* acked, int packets) {
  s.sender.on_backlog(s.now);
  ASSERT_EQ(s.sends(packets), packets);
  s.pass(Duration::us(10));
  s.backlog = false;
  for (int i = 0; i < packets; ++i, ++*acked) s.ack(*acked + 1, *acked);
  s.backlog = true;
}

TEST(PathWindowReduction, AnAckThatFindsNothingToSendTakesAPacket) {
  Params p = params_with(8);
  p.window_give_back = false;
  p.restart = RestartRule::kNever;
  Stream s(p);
  int acked = 0;
  exchange(s, &acked, 3);
  EXPECT_EQ(s.window_raw(), 5 * kOne);
  EXPECT_EQ(s.counters.window_reductions, 3u);
  exchange(s, &acked, 5);
  EXPECT_EQ(s.window_raw(), kOne) << "never below one";
  EXPECT_EQ(s.sends(), 1) << "what is posted with nothing outstanding leaves at once";
}

TEST(PathWindowReduction, WhatItTookComesBackWhenTheApplicationHasPacketsAgain) {
  Stream s(params_with(8));
  int acked = 0;
  for (int n = 0; n < 5; ++n) exchange(s, &acked, 8);
  EXPECT_EQ(s.window_raw(), kOne);
  s.sender.on_backlog(s.now);
  EXPECT_EQ(s.window_raw(), 8 * kOne);
  EXPECT_EQ(s.sends(), 8);
}

TEST(PathWindowReduction, ItGivesNothingBackThatCongestionTook) {
  Stream s(params_with(8));
  s.send();
  s.backlog = false;
  for (int i = 0; i < 4; ++i) s.ack(i + 1, i, 60'000, wire::kMpAckEce);  // two packets
  const uint32_t congested = s.window_raw() + s.sender.window().owed().raw();
  for (int i = 4; i < 8; ++i) s.ack(i + 1, i);
  s.sender.on_backlog(s.now);
  EXPECT_EQ(s.window_raw(), congested);
  EXPECT_EQ(congested, 6 * kOne);
}

TEST(PathWindowReduction, APostWithSomethingOutstandingLeavesAtOnceIfItFits) {
  Stream s(params_with(8));
  int acked = 0;
  exchange(s, &acked, 8);
  s.sender.on_backlog(s.now);
  EXPECT_EQ(s.sends(1), 1);
  // The owner's next packet comes while the first is under way.
  s.sender.on_backlog(s.now);
  EXPECT_EQ(s.sends(1), 1);
}

TEST(Restart, NoBacklogForThreeRttsMeansTheInitialWindow) {
  Stream s(params_with(8));
  s.send();
  s.backlog = false;
  for (int i = 0; i < 8; ++i) s.ack(i + 1, i, 60'000, wire::kMpAckEce);
  const uint32_t congested = s.window();
  s.pass(Duration::us(29));
  s.sender.on_backlog(s.now);
  EXPECT_LE(s.window(), congested + 4);
  EXPECT_EQ(s.counters.window_restarts, 0u);
  s.pass(Duration::us(2));
  s.sender.on_backlog(s.now);
  EXPECT_EQ(s.window_raw(), 8 * kOne);
  EXPECT_EQ(s.counters.window_restarts, 1u);
  EXPECT_EQ(s.sends(), 8);
}

TEST(Restart, AnUndoneTimeoutDoesNotBringBackTheWindowOfBefore) {
  Stream s(params_with(16));
  s.sends(4);
  s.backlog = false;
  for (int i = 0; i < 3; ++i) s.ack(i + 1, i, 60'000, wire::kMpAckEce);
  ASSERT_LT(s.window(), 16u);
  s.time_out();
  s.pass(Duration::us(100));
  s.sender.on_backlog(s.now);
  ASSERT_EQ(s.counters.window_restarts, 1u);
  s.backlog = true;
  s.ack(4, 3);  // the original
  EXPECT_EQ(s.counters.timeouts_undone, 1u);
  EXPECT_EQ(s.window_raw(), 16 * kOne);
}

TEST(Restart, AStreamThatWaitsForTheWireDoesNotRestart) {
  Stream s(params_with(4));
  s.send();
  for (int i = 0; i < 20; ++i) {
    s.pass(Duration::us(10));
    s.ack(i + 1, i);
    s.send();
  }
  s.sender.on_backlog(s.now);  // a fence, say, ended
  EXPECT_EQ(s.counters.window_restarts, 0u);
}

TEST(Restart, SmallMessagesDoNotSlowTheBigOneDown) {
  Params p = params_with(54);
  Stream s(p);
  int acked = 0;
  for (int i = 0; i < 200; ++i) {
    exchange(s, &acked, 1);
    s.pass(Duration::us(2));
  }
  s.sender.on_backlog(s.now);
  EXPECT_EQ(s.sends(), 54) << "from the initial window";
  EXPECT_EQ(s.counters.packets_retransmitted, 0u);
}

TEST(Growth, NotWhileMoreThanEightPacketsWaitForTheWire) {
  Params p = params_with(32);
  p.window_max = 200;
  p.limit_growth = true;
  Stream s(p);
  s.send();
  int acked = 0;
  for (; acked < 9; ++acked) {  // nothing is sent meanwhile
    s.pass(Duration::us(1));
    s.ack(acked + 1, acked);
  }
  const uint32_t grown = s.window_raw();
  EXPECT_GT(grown, 32 * kOne);
  s.pass(Duration::us(1));
  s.ack(acked + 1, acked);
  EXPECT_EQ(s.window_raw(), grown);
}

TEST(Growth, ABurstOfAcknowledgementsIsNoWaitForTheWire) {
  Params p = params_with(32);
  p.window_max = 200;
  p.limit_growth = true;
  Stream s(p);
  s.send();
  s.pass(Duration::us(10));
  uint32_t before = s.window_raw();
  for (int i = 0; i < 20; ++i) {  // at one point in time
    s.ack(i + 1, i);
    EXPECT_GT(s.window_raw(), before);
    before = s.window_raw();
  }
}

// ---- To the letter of the paper ----------------------------------------------------------------

Params paper_with(uint32_t window) {
  Params p = Params::mp_paper();
  p.initial_window = window;
  p.window_max = window;
  p.path_probe_per_mille = 0;
  p.initial_rtt = Duration::us(10);
  p.rto_floor = Duration::ms(1);
  p.rto_ceiling = Duration::ms(10);
  return p;
}

TEST(Paper, ALostAcknowledgementLeaksWindowForEver) {
  Stream s(paper_with(4));
  s.send();
  s.ack(2, 1);  // that of 0 was lost
  s.ack(3, 2);
  s.ack(4, 3);
  EXPECT_EQ(s.sender.in_flight(), 1u) << "nothing is";
}

TEST(Paper, ANackSweepsEveryPsnUpToRecoveryOneForEachAck) {
  Stream s(paper_with(8));
  s.send();
  for (const int i : {2, 3}) s.ack(0, i);
  s.send();
  s.overflow(0, 9);
  std::vector<int> swept;
  for (int i = 4; i <= 9; ++i) {
    s.ack(0, i);
    EXPECT_EQ(s.sends(), 1);
    EXPECT_EQ(s.last.kind, Kind::kRetransmit);
    swept.push_back(s.index(s.last.psn));
  }
  EXPECT_EQ(swept, (std::vector<int>{0, 1, 2, 3, 4, 5})) << "SACKed or not";
  EXPECT_EQ(s.window_raw(), 8 * kOne) << "a loss costs nothing";
}

TEST(Paper, TheSweepNeverFallsBehindSndUna) {
  Stream s(paper_with(8));
  s.send();
  s.overflow(0, 7);
  s.ack(5, 4);
  ASSERT_EQ(s.sends(1), 1);
  EXPECT_EQ(s.index(s.last.psn), 5);
  // Sweeps 6 and 7, then sends 8 and 9.
  for (const int again : {6, 7, 6, 7}) {
    s.ack(5, again);
    ASSERT_EQ(s.sends(1), 1);
  }
  EXPECT_EQ(s.index(s.last.psn), 9);
  EXPECT_EQ(s.last.kind, Kind::kNew);
  s.ack(10, 9);  // beyond recovery: it is over, and the next loss begins another
  s.send();
  s.overflow(10, s.index(s.sender.nxt()) - 1);
  s.ack(10, 11);
  ASSERT_GE(s.sends(1), 1);
  EXPECT_EQ(s.last.kind, Kind::kRetransmit);
  EXPECT_EQ(s.index(s.last.psn), 10);
}

TEST(Paper, ATimeoutSweepsAWholeWindowOnRandomPaths) {
  Stream s(paper_with(4));
  s.send();
  s.time_out();
  EXPECT_EQ(s.sends(), 4);
  EXPECT_EQ(s.counters.packets_retransmitted, 4u);
  EXPECT_EQ(s.window_raw(), 4 * kOne);
}

TEST(Paper, WithNothingOutstandingOnePacketLeavesWhateverLeaked) {
  Stream s(paper_with(2));
  int acked = 0;
  for (int i = 0; i < 8; ++i) {
    const int sent = s.sends(2, true);
    ASSERT_GE(sent, 1) << "after " << i << " lost acknowledgements";
    acked += sent;
    s.ack(acked, acked - 1);  // .. those before it were lost
  }
}

}  // namespace
}  // namespace mprdma::transport
