// Recovery to the letter of the paper: transport/stream/recovery_paper.hpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/print.hpp"
#include "tests/unit/transport/stream/many_path_sender.hpp"

namespace mprdma::transport {
namespace {

using many_paths::kOne;
using many_paths::Stream;
using Kind = StreamSender::Choice::Kind;

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
  s.ack(2, 1);  // the acknowledgement of 0 was lost
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
  // The sender sweeps 6 and 7, then sends 8 and 9.
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

TEST(Paper, AcknowledgementsThatFindNothingNewSendEachOutstandingPacketOnceMore) {
  Stream s(paper_with(16));
  s.backlog = false;
  EXPECT_EQ(s.sends(6), 6);
  EXPECT_EQ(s.sends(1000, false), 0) << "an acknowledgement clocks it out, not a free credit";
  std::vector<int> copies;
  size_t acks = 0;
  for (const int acked : {1, 3, 4, 5}) {  // 0 and 2 were lost
    s.ack(0, acked);
    while (s.sends(1, false) == 1) {
      EXPECT_EQ(s.last.kind, Kind::kEarly);
      copies.push_back(s.index(s.last.psn));
    }
    EXPECT_EQ(copies.size(), std::min<size_t>(2 * ++acks, 6)) << "two for an acknowledgement";
  }
  EXPECT_EQ(copies, (std::vector<int>{0, 1, 2, 3, 4, 5})) << "the sender has no map";
  for (const int again : {0, 1, 2, 3, 4, 5}) s.ack(again < 2 ? 2 : 6, again);
  EXPECT_TRUE(s.sender.idle());
}

TEST(Paper, ARefusedOperationWaitsAndTakesNoWindowTwice) {
  Stream s(paper_with(16));
  s.backlog = false;
  s.send(2);
  s.sender.on_sent(s.now, s.sender.choose(true));  // 2, a synchronise operation
  s.send(1);
  s.ack(0, 3);
  const uint32_t in_flight = s.sender.in_flight();
  s.ack(0, 2, 60'000, 0, wire::NackCode::kSyncTooEarly);
  uint32_t copies = 0;
  for (; s.sends(1, false) == 1; ++copies) {
    EXPECT_LT(s.index(s.last.psn), 2) << "what was refused waits";
  }
  EXPECT_EQ(copies, 2u);
  s.ack(0, 1);
  EXPECT_EQ(s.sends(1000, false), 0) << "what was refused is next, and still waits";
  s.time_out();  // of the delay
  ASSERT_EQ(s.sends(1, false), 1);
  EXPECT_EQ(s.last.kind, Kind::kRetransmit);
  EXPECT_EQ(s.index(s.last.psn), 2);
  EXPECT_EQ(s.sender.in_flight(), in_flight + copies - 1) << "as before it was refused";
}

TEST(Paper, NewPacketsLeaveBeforeEarlyCopies) {
  Stream s(paper_with(8));
  s.send(4);
  s.ack(1, 0);
  ASSERT_EQ(s.sends(1), 1);
  EXPECT_EQ(s.last.kind, Kind::kNew);
}

TEST(Paper, EarlyCopiesCountAsNewDataUntilTheirAcknowledgementsCome) {
  Stream s(paper_with(8));
  s.backlog = false;
  s.send(4);
  s.ack(1, 0);
  const uint32_t before = s.sender.in_flight();
  ASSERT_EQ(s.sends(1, false), 1);
  EXPECT_EQ(s.sender.in_flight(), before + 1);
  s.ack(1, s.index(s.last.psn));
  EXPECT_EQ(s.sender.in_flight(), before);
}

TEST(Paper, WithNothingOutstandingOnePacketLeavesWhateverLeaked) {
  Stream s(paper_with(2));
  int acked = 0;
  for (int i = 0; i < 8; ++i) {
    const int sent = s.sends(2, true);
    ASSERT_GE(sent, 1) << "after " << i << " lost acknowledgements";
    acked += sent;
    s.ack(acked, acked - 1);  // earlier acknowledgements were lost
  }
}

}  // namespace
}  // namespace mprdma::transport
