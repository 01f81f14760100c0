// Send credits and path selection: stream_sender_credits.cpp, gate_ack_clock.hpp in
// transport/stream, transport/path/path_select.hpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/print.hpp"
#include "tests/unit/transport/stream/many_path_sender.hpp"

namespace mprdma::transport {
namespace {

using many_paths::clocked_params;
using many_paths::kOne;
using many_paths::Stream;
using Kind = StreamSender::Choice::Kind;
using Paths = std::vector<uint16_t>;

// ---- Start, clocking ---------------------------------------------------------------------------

TEST(AckClocking, TheInitialWindowLeavesOnRandomPaths) {
  Stream s(clocked_params(32));
  const Paths paths = s.send();
  ASSERT_EQ(paths.size(), 32u);
  const std::set<uint16_t> distinct(paths.begin(), paths.end());
  EXPECT_GE(distinct.size(), 31u);
  EXPECT_GE(*distinct.begin(), wire::kVirtualPathMin);
  EXPECT_EQ(s.sends(), 0) << "and no more";
  EXPECT_EQ(s.sender.stats().random_paths, 32u);
}

TEST(AckClocking, TheSeedGivesThePaths) {
  Stream a(clocked_params(8), 1);
  Stream b(clocked_params(8), 1);
  Stream c(clocked_params(8), 2);
  const Paths paths = a.send();
  EXPECT_EQ(paths, b.send());
  EXPECT_NE(paths, c.send());
}

TEST(AckClocking, AnAckGrantsACreditOnThePathThatItEchoes) {
  Stream s(clocked_params(4));
  s.send();
  s.ack(1, 0, 50'001);
  s.ack(1, 2, 50'002);
  EXPECT_EQ(s.send(), (Paths{50'001, 50'002}));
  EXPECT_EQ(s.sends(), 0);
}

// To the letter.
Params paper_credits(uint32_t window) {
  Params p = clocked_params(window);
  p.own_ack_credit = false;
  return p;
}

TEST(AckClocking, AnAckGrantsTwoCreditsAtMost) {
  Stream s(paper_credits(8));
  s.send();
  s.ack(5, 4, 50'001);  // four acknowledgements before it were lost
  EXPECT_EQ(s.send(), (Paths{50'001, 50'001}));
  s.ack(6, 5, 50'002);
  EXPECT_EQ(s.send(), (Paths{50'002, 50'002})) << "later ones clock out the rest";
}

TEST(AckClocking, WhatBurstControlHoldsBackLeavesOnRandomPathsAfterHalfAnRtt) {
  Stream s(paper_credits(8));
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

TEST(AckClocking, ACreditThatFoundTheWireBusyKeepsItsPath) {
  Stream s(clocked_params(4));
  s.send();
  s.ack(1, 0, 50'001);
  s.ack(2, 1, 50'002);
  EXPECT_EQ(s.send(1), (Paths{50'001}));
  s.ack(3, 2, 50'003);
  EXPECT_EQ(s.sender.in_flight() + s.sender.credits(), 4u);
  EXPECT_EQ(s.send(), (Paths{50'002, 50'003}));
}

TEST(AckClocking, ACreditThatWaitedThreeRttsLosesItsPathButNotItsRight) {
  Stream s(clocked_params(4));
  s.send();
  s.ack(1, 0, 50'001);
  s.pass(Duration::us(31));
  const Paths paths = s.send();
  ASSERT_EQ(paths.size(), 1u);
  EXPECT_NE(paths[0], 50'001);
}

TEST(AckClocking, APortThatIsNoPathIsNotUsed) {
  Stream s(clocked_params(4));
  s.send();
  s.ack(1, 0, 53);
  const Paths paths = s.send();
  ASSERT_EQ(paths.size(), 1u);
  EXPECT_GE(paths[0], wire::kVirtualPathMin);
}

TEST(AckClocking, AShrunkenWindowWithdrawsCreditsTheOldestFirst) {
  Stream s(clocked_params(8));
  s.send();
  s.ack(1, 0, 50'001);
  s.ack(2, 1, 50'002);
  s.ack(3, 2, 50'003);
  // Two lost PSNs cost 3/4 each and make room; every mark that follows closes it.
  for (int i = 3; i < 7; ++i) s.ack(i + 1, i, 50'000, wire::kMpAckEce);
  EXPECT_EQ(s.window(), 6u);
  EXPECT_LE(s.sender.in_flight() + s.sender.credits(), 6u);
  s.sender.pause(s.now, s.now + Duration::us(1));
  EXPECT_EQ(s.sends(), 0);
}

TEST(AckClocking, ATimeoutLeavesOldPathsAndTriesRandomOnes) {
  Stream s(clocked_params(8));
  s.send();
  s.ack(1, 0, 50'001);
  s.time_out();
  const Paths paths = s.send();
  EXPECT_EQ(paths.size(), 4u) << "half of the window";
  for (const uint16_t vp : paths) EXPECT_NE(vp, 50'001);
  EXPECT_EQ(s.last.kind, Kind::kRetransmit);
}

TEST(AckClocking, ATailProbeTakesAPathThatWorksAndNoCredit) {
  Params p = clocked_params(4);
  p.path_policy = PathPolicy::kRecycled;
  p.tail_probe = true;
  p.probe_floor = Duration::us(20);
  Stream s(p);
  s.send();
  s.ack(1, 0, 50'001);
  s.ack(2, 1, 50'002);
  s.time_out();
  EXPECT_EQ(s.send(1, false), (Paths{50'002}));
  EXPECT_EQ(s.last.kind, Kind::kProbe);
  s.time_out();
  const Paths second = s.send(2, false);
  ASSERT_EQ(second.size(), 2u);
  for (const uint16_t vp : second) {
    EXPECT_NE(vp, 50'001) << "random ones";
    EXPECT_NE(vp, 50'002);
  }
  EXPECT_EQ(s.sends(), 2) << "the credits are still there";
}

TEST(AckClocking, OnePathNeedsNoCredit) {
  Params p = clocked_params(4);
  p.path_policy = PathPolicy::kSingle;
  Stream s(p);
  EXPECT_EQ(s.send(), (Paths{50'000, 50'000, 50'000, 50'000}));
  s.ack(3, 2, 60'000);
  EXPECT_EQ(s.sends(), 3) << "no burst control on one path";
}

// ---- Whose credit it is (D14)

TEST(OwnAckCredit, ThePathOfALateAcknowledgementKeepsItsCredit) {
  Stream s(clocked_params(8));
  s.send();
  s.ack(4, 3, 50'001);  // covers three whose own acknowledgements take another way back
  EXPECT_EQ(s.send(), (Paths{50'001}));
  s.ack(5, 4, 50'001);
  EXPECT_EQ(s.send(), (Paths{50'001})) << "the room of the three is not his";
  for (const int i : {0, 2, 1}) {
    s.ack(5, i, 50'002);
    EXPECT_EQ(s.send(), (Paths{50'002}));
  }
  EXPECT_EQ(s.sender.in_flight(), 8u);
}

TEST(OwnAckCredit, ALateAcknowledgementIsHeardAsAnyOther) {
  Stream s(clocked_params(8));
  s.send();
  s.ack(4, 3, 50'001);
  s.ack(4, 0, 50'002, wire::kMpAckEce);
  EXPECT_EQ(s.window_raw(), 8 * kOne - kOne / 2);
  s.pass(Duration::us(10));
  s.ack(5, 4, 50'001);  // a round later two are still expected
  const uint32_t window = s.window_raw();
  s.ack(5, -1, 50'002, wire::kMpAckEce);
  s.ack(5, -300, 50'002, wire::kMpAckEce);
  EXPECT_EQ(s.window_raw(), window) << "nobody sent these";
  s.ack(5, 1, 50'002, wire::kMpAckEce);
  EXPECT_EQ(s.window_raw(), window - kOne / 2);
}

TEST(OwnAckCredit, ALateAcknowledgementOfASlowPathGrantsNothing) {
  Params p = clocked_params(32);
  p.reorder_delta = 8;
  Stream s(p);
  s.send();
  for (int i = 1; i < 12; ++i) s.ack(0, i, 50'001);
  s.ack(13, 12, 50'001);  // covers 0, which came last, over the slow path
  s.send();
  s.ack(13, 0, 50'002);
  EXPECT_EQ(s.window(), 31u);
  EXPECT_EQ(s.counters.acks_pruned, 1u);
  EXPECT_EQ(s.sends(), 0);
}

TEST(OwnAckCredit, APathThatIsNearlyTooSlowDoesNotGrow) {
  for (const int lag : {6, 7}) {
    Params p = clocked_params(32);
    p.window_max = 64;
    p.reorder_delta = 8;
    Stream s(p);
    s.send();
    for (int i = 1; i <= lag; ++i) s.ack(0, i, 50'001);
    s.send();
    const uint32_t before = s.window_raw();
    s.ack(lag + 1, 0, 50'002);
    EXPECT_EQ(s.window_raw() > before, lag == 6) << lag;
    EXPECT_EQ(s.send(1), (Paths{50'002})) << "it keeps what it has";
  }
}

TEST(OwnAckCredit, WhatWasMissingForARoundIsFreeOnRandomPaths) {
  Stream s(clocked_params(8));
  s.send();
  s.ack(4, 3, 50'001);  // the acknowledgements of 0 to 2 are lost
  s.send();
  int acked = 4;
  int strange = 0;
  for (int round = 0; round < 3; ++round) {
    s.pass(Duration::us(10));
    for (int i = 0; i < 4; ++i, ++acked) {
      s.ack(acked + 1, acked, 50'001);
      for (const uint16_t vp : s.send()) strange += vp == 50'001 ? 0 : 1;
    }
  }
  EXPECT_EQ(strange, 3);
  EXPECT_EQ(s.sender.in_flight(), 8u);
}

TEST(OwnAckCredit, AnIdleStreamWaitsForNoAcknowledgement) {
  Stream s(clocked_params(8));
  s.send();
  s.ack(8, 7, 50'001);  // the last one covers all
  EXPECT_EQ(s.sends(), 2);
  s.time_out();
  EXPECT_EQ(s.sends(), 6) << "burst control held them back, and nothing else";
}

TEST(OwnAckCredit, TheRoomOfALostPacketLeavesOnARandomPath) {
  Params p = clocked_params(16);
  p.loss_shrinks_window = false;
  p.loss_trigger = 8;
  Stream s(p);
  s.send();
  for (int i = 1; i <= 8; ++i) s.ack(0, i, 50'001);  // the eighth shows that 0 is lost
  const Paths paths = s.send();
  ASSERT_EQ(paths.size(), 9u);
  EXPECT_EQ(std::count(paths.begin(), paths.end(), 50'001), 8);
}

TEST(OwnAckCredit, WhatTheReceiversWindowDroppedIsNoFaultOfItsPath) {
  Params p = clocked_params(16);
  p.loss_shrinks_window = false;
  Stream s(p);
  s.send();
  s.ack(0, 1, 50'001);
  s.overflow(0, 15, 50'001);  // 0 is a hole, 15 lay beyond the window
  const Paths paths = s.send();
  EXPECT_EQ(paths, (Paths{50'001, 50'001, 50'001}));
}

// Each acknowledgement is heard once, and only if its packet was in flight when it was covered.
TEST(OwnAckCredit, DuplicatesAndCopiesBringNothing) {
  Stream s(clocked_params(8));
  s.send();
  s.ack(0, 2, 50'003);
  s.ack(4, 3, 50'001);  // 0 and 1 are expected
  s.ack(4, 2, 50'003, wire::kMpAckEce);
  s.ack(4, 0, 50'002, wire::kMpAckEce);
  s.ack(4, 0, 50'002, wire::kMpAckEce);
  EXPECT_EQ(s.window_raw(), 8 * kOne - kOne / 2);
  EXPECT_EQ(s.sender.awaited(), 1u);
  s.ack(4, 1, 50'002, wire::kMpAckEce);
  EXPECT_EQ(s.window_raw(), 7 * kOne);
}

TEST(OwnAckCredit, ALostPacketThatIsCoveredHasNoRoomToKeep) {
  Stream s(clocked_params(8));
  s.send();
  s.time_out();  // all are lost
  s.send(1);
  s.ack(6, 0, 50'001, wire::kMpAckReTx);
  EXPECT_EQ(s.sender.awaited(), 0u);
}

TEST(OwnAckCredit, AnImpliedAcknowledgementOfAllFreesTheWindow) {
  Stream s(clocked_params(8));
  s.send();
  s.ack(4, 3, 50'001);
  EXPECT_EQ(s.sender.awaited(), 3u);
  s.sender.on_implied_ack(s.now, s.psn(8));
  EXPECT_EQ(s.sender.awaited(), 0u);
}

TEST(OwnAckCredit, SilenceFreesWhatWasKept) {
  Stream s(clocked_params(8));
  s.send();
  s.ack(4, 3, 50'001);
  EXPECT_EQ(s.sends(), 1);
  EXPECT_EQ(s.sender.next_deadline(true) - s.now, Duration::us(5)) << "half a round trip";
  s.time_out();
  EXPECT_EQ(s.sender.awaited(), 0u);
  EXPECT_EQ(s.sends(), 3);
  EXPECT_EQ(s.sender.in_flight(), 8u);
}

TEST(OwnAckCredit, ATimeoutFreesWhatWasKept) {
  Stream s(clocked_params(8));
  s.send();
  s.backlog = false;
  s.ack(4, 3, 50'001);
  ASSERT_EQ(s.sender.awaited(), 3u);
  s.time_out();
  EXPECT_EQ(s.sender.awaited(), 0u);
}

TEST(OwnAckCredit, DeltaOfTheWholeWindowJudgesNoPath) {
  Params p = clocked_params(32);
  p.window_slots = 32;
  p.reorder_delta = 32;
  p.window_max = 64;
  Stream s(p);
  s.send();
  for (int i = 1; i < 31; ++i) s.ack(0, i, 50'001);
  const uint32_t before = s.window_raw();
  s.ack(31, 0, 50'002);
  EXPECT_GT(s.window_raw(), before);
  EXPECT_EQ(s.counters.acks_pruned, 0u);
}

TEST(OwnAckCredit, ARetransmissionTakesAPathThatWorks) {
  Params p = clocked_params(16);
  p.loss_shrinks_window = false;
  p.loss_trigger = 8;
  Stream s(p);
  s.send();
  for (int i = 1; i <= 8; ++i) s.ack(0, i, 50'001);
  const Paths first = s.send(1);
  EXPECT_EQ(s.last.kind, Kind::kRetransmit);
  EXPECT_EQ(first, (Paths{50'001}));
}

TEST(OwnAckCredit, AWindowThatGrowsGrowsOnThePathOfTheAcknowledgement) {
  Params p = clocked_params(2);
  p.window_max = 8;
  Stream s(p);
  s.send();
  s.ack(1, 0, 50'001);
  EXPECT_EQ(s.send(), (Paths{50'001}));
  s.ack(2, 1, 50'002);  // 2 + 1/2 + 1/2.5
  EXPECT_EQ(s.send(), (Paths{50'002}));
  s.ack(3, 2, 50'001);
  EXPECT_EQ(s.send(), (Paths{50'001, 50'001})) << "three packets";
}

// ---- Slow paths, probing -----------------------------------------------------------------------

TEST(PathSelection, AnAckFarBehindCostsAPacketAndGrantsNothing) {
  Params p = clocked_params(64);
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
  Params p = clocked_params(64);
  p.reorder_delta = 8;
  p.own_ack_credit = false;  // a packet whose acknowledgement was lost keeps no room
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
    Params p = clocked_params(64);
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
  Params p = clocked_params(16);
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

}  // namespace
}  // namespace mprdma::transport
