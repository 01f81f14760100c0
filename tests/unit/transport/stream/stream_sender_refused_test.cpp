// What a sender does while its receiver takes nothing: it was not ready, has no frame, or is
// silent.
#include <gtest/gtest.h>

#include "tests/support/print.hpp"
#include "tests/unit/transport/stream/lone_sender.hpp"

namespace mprdma::transport {
namespace {

TEST(StreamSender, APeerThatStaysSilentIsAskedByOnePacketEverMoreRarely) {
  Params p = params_with(64);
  p.timeout_shrinks_window = false;
  p.rto_ceiling = p.rto_floor;  // 500 us
  Sender s(p);
  s.send();
  int packets = 0;
  int timeouts = 0;
  const Time start = s.now;
  while (s.now - start < Duration::s(17)) {
    s.now = s.sender.next_deadline(true);
    s.sender.on_deadline(s.now);
    packets += s.send();
    ++timeouts;
  }
  EXPECT_LT(timeouts, 100);
  EXPECT_LE(packets, 8 * 64 + 100);
  s.ack(64, 63);
  EXPECT_EQ(s.send(), 64) << "it is back";
}

TEST(StreamSender, AReceiverThatWasNotReadyIsSentNothingElseBeforeItTakesTheHead) {
  Sender s(params_with(8));
  s.send(2);
  s.sender.pause(s.now, s.now + Duration::ms(1));
  s.now = s.sender.next_deadline(true);
  s.sender.on_deadline(s.now);
  EXPECT_EQ(s.send(), 1) << "the question alone, though the window has room";
  s.ack(0, 1);
  EXPECT_EQ(s.send(), 0) << "news of another packet";
  EXPECT_EQ(s.ack(1, 0), StreamSender::AckResult::kProgress);
  EXPECT_EQ(s.send(), 8) << "it is ready";

  Sender silent(params_with(8));
  silent.send(2);
  silent.sender.pause(silent.now, silent.now + Duration::ms(1));
  silent.now = silent.sender.next_deadline(true);
  silent.sender.on_deadline(silent.now);
  EXPECT_EQ(silent.send(), 1);
  silent.now += silent.sender.base_rto();
  silent.sender.on_deadline(silent.now);
  EXPECT_EQ(silent.sender.timeouts_in_a_row(), 1U) << "a peer that says nothing is found out";
  EXPECT_GT(silent.send(), 1);
}

TEST(StreamSender, APacketForWhichTheReceiverHadNoFrameCostsNothing) {
  Params p = params_with(16);
  p.loss_trigger = 8;
  Sender s(p);
  s.send();
  s.ack(1, 0);
  s.ack(1, 2);
  const uint32_t window = s.window_raw();
  s.ack(1, 3, 0, wire::NackCode::kBudgetExhausted);
  EXPECT_EQ(s.window_raw(), window);
  EXPECT_EQ(s.counters.packets_retransmitted, 0U) << "there would be no frame for a copy now";
  s.backlog = false;
  s.ack(1, 12);
  EXPECT_EQ(s.counters.retransmitted_trigger, 3U) << "two holes, and the packet that was refused";
  EXPECT_GE(s.window_raw(), window - Fixed16::kOneRaw)
      << "half a packet for each of the holes alone";
}

}  // namespace
}  // namespace mprdma::transport
