// What two engines exchange over a LocalPort, and nobody else: bare packets and large frames.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "dataplane/port/local_port.hpp"
#include "tests/unit/dataplane/port/port_test_support.hpp"
#include "wire/bare_packet.hpp"

namespace mprdma::dataplane {
namespace {

using testing::now;
using testing::until;

constexpr uint32_t kLargeSlots = 256 / local::kSlotsPerLarge;

class TwoEnds : public ::testing::Test {
 protected:
  std::unique_ptr<Port> open(bool engine, local::Role role) {
    PortResult result =
        LocalPort::open({.path = directory_.wire(), .slots = 256, .role = role, .engine = engine});
    EXPECT_TRUE(result) << result.status.text;
    return std::move(result.port);
  }
  void connect(bool a_is_engine, bool b_is_engine) {
    a_ = open(a_is_engine, local::Role::kListen);
    b_ = open(b_is_engine, local::Role::kDial);
    ASSERT_TRUE(until([&] {
      a_->service(now());
      b_->service(now());
      return a_->link_up() && b_->link_up();
    }));
  }
  // A frame of these bytes, all of one value; `header`: of them before the payload.
  static void fill(TxFrame* frame, uint32_t header, uint32_t bytes, unsigned char value) {
    frame->header_bytes = header;
    frame->frame_bytes = bytes;
    std::memset(frame->payload - header, value, bytes);
  }
  static bool holds(const RxFrame& frame, uint32_t bytes, unsigned char value) {
    const std::vector<unsigned char> expected(bytes, value);
    return frame.length == bytes && std::memcmp(frame.data, expected.data(), bytes) == 0;
  }
  static void send(Port& port, const TxFrame& frame) {
    port.tx_commit(&frame, 1);
    port.flush();
  }

  testing::WireDirectory directory_;
  std::unique_ptr<Port> a_;
  std::unique_ptr<Port> b_;
};

TEST_F(TwoEnds, EnginesExchangeBareAndLargeFramesInOrderAndWhole) {
  connect(true, true);
  for (Port* from : {a_.get(), b_.get()}) {
    Port& to = from == a_.get() ? *b_ : *a_;
    ASSERT_TRUE(from->takes_bare());
    ASSERT_GE(from->large_payload(), wire::kMaxSegment);
    TxFrame small[2];
    TxFrame large[2];
    ASSERT_EQ(from->tx_reserve(small, 2), 2u);
    ASSERT_EQ(from->tx_reserve_large(large, 2), 2u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(large[0].payload) % 64, 0u);
    EXPECT_GE(large[0].capacity, wire::kMaxSegment + kFrameTailroom);
    constexpr uint32_t kHeader = wire::BarePacket::kBytes;
    // Reserved in one order, sent in another.
    fill(&large[1], kHeader, kHeader + wire::kMaxSegment, 1);
    large[1].bare = true;
    fill(&small[0], kHeader, kHeader, 2);
    small[0].bare = true;
    fill(&small[1], kFrameHeadroom, 4096, 3);
    fill(&large[0], kFrameHeadroom, kFrameHeadroom + wire::kMaxSegment + kFrameTailroom, 4);
    for (const TxFrame& frame : {large[1], small[0], small[1], large[0]}) send(*from, frame);
    RxFrame frames[kBurst];
    ASSERT_EQ(to.rx_burst(frames, kBurst), 4u);
    EXPECT_TRUE(frames[0].bare && frames[1].bare);
    EXPECT_FALSE(frames[2].bare || frames[3].bare);
    EXPECT_TRUE(holds(frames[0], large[1].frame_bytes, 1));
    EXPECT_TRUE(holds(frames[1], small[0].frame_bytes, 2));
    EXPECT_TRUE(holds(frames[2], small[1].frame_bytes, 3));
    EXPECT_TRUE(holds(frames[3], large[0].frame_bytes, 4));
    for (int i = 0; i < 4; ++i) to.rx_release(&frames[i].cookie, 1);
    EXPECT_EQ(to.stats().rx_malformed, 0u);
  }
}

TEST_F(TwoEnds, AnEngineAndAnotherPeerExchangeNeitherBareNorLargeFrames) {
  connect(true, false);
  EXPECT_FALSE(a_->takes_bare());
  EXPECT_EQ(a_->large_payload(), 0u);
  EXPECT_TRUE(b_->takes_bare());
  EXPECT_EQ(b_->large_payload(), 0u) << "it has no large frames";
  TxFrame frame{};
  EXPECT_EQ(b_->tx_reserve_large(&frame, 1), 0u);
  // Of a burst for a peer that is gone: dropped and counted, and its slot comes back.
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_EQ(a_->tx_reserve(&frame, 1), 1u);
    fill(&frame, 48, 48, 1);
    frame.bare = true;
    send(*a_, frame);
  }
  RxFrame frames[kBurst];
  EXPECT_EQ(b_->rx_burst(frames, kBurst), 0u);
  EXPECT_EQ(b_->stats().rx_malformed, 0u);
  EXPECT_EQ(a_->stats().tx_dropped, 1'000u);
  EXPECT_EQ(a_->stats().tx_frames, 0u);
  EXPECT_EQ(testing::send_patterns(*a_, 9, 1), 1u);
  ASSERT_EQ(b_->rx_burst(frames, kBurst), 1u);
  EXPECT_EQ(testing::read_pattern(frames[0]), 9u);
  b_->rx_release(&frames[0].cookie, 1);
}

TEST_F(TwoEnds, LargeFramesRunOutWithoutSmallOnesAndComeBack) {
  connect(true, true);
  EXPECT_EQ(b_->info().rx_large_frames, kLargeSlots);
  TxFrame frame{};
  uint32_t sent = 0;
  for (; a_->tx_reserve_large(&frame, 1) == 1; ++sent) {
    fill(&frame, 48, 10'000, static_cast<unsigned char>(sent));
    frame.bare = true;
    send(*a_, frame);
  }
  EXPECT_EQ(sent, kLargeSlots);
  EXPECT_GT(a_->stats().tx_back_pressure, 0u);
  EXPECT_FALSE(a_->tx_tight()) << "small frames are another matter";
  EXPECT_EQ(testing::send_patterns(*a_, 0, kBurst), kBurst);
  EXPECT_TRUE(a_->arm()) << "nothing came back, so sleeping is right";
  RxFrame frames[2 * kBurst];
  unsigned taken = b_->rx_burst(frames, kBurst);
  EXPECT_EQ(taken, (local::kBurstBytes + 9'999) / 10'000) << "few, to be given back soon";
  while (const unsigned n = b_->rx_burst(&frames[taken], kBurst)) taken += n;
  ASSERT_EQ(taken, kLargeSlots + kBurst);
  for (uint32_t i = 0; i < kLargeSlots; ++i) {
    EXPECT_TRUE(holds(frames[i], 10'000, static_cast<unsigned char>(i)));
  }
  EXPECT_EQ(a_->tx_reserve_large(&frame, 1), 0u);
  b_->rx_release(&frames[7].cookie, 1);
  b_->flush();
  EXPECT_FALSE(a_->arm()) << "one is back";
  ASSERT_EQ(a_->tx_reserve_large(&frame, 1), 1u);
  TxFrame none{};
  EXPECT_EQ(a_->tx_reserve_large(&none, 1), 0u);
  a_->tx_abandon(&frame, 1);
  EXPECT_EQ(a_->tx_reserve_large(&frame, 1), 1u) << "an abandoned one, too";
  a_->tx_abandon(&frame, 1);
  for (unsigned i = 0; i < taken; ++i) {
    if (i != 7) b_->rx_release(&frames[i].cookie, 1);
  }
}

TEST_F(TwoEnds, LargeFramesOfADeadPeerStayReadableAndOursComeBack) {
  connect(true, true);
  TxFrame frame{};
  ASSERT_EQ(a_->tx_reserve_large(&frame, 1), 1u);
  fill(&frame, 48, 12'000, 0x77);
  frame.bare = true;
  send(*a_, frame);
  ASSERT_EQ(b_->tx_reserve_large(&frame, 1), 1u);
  fill(&frame, 48, 12'000, 0x88);
  frame.bare = true;
  send(*b_, frame);
  RxFrame received{};
  ASSERT_EQ(b_->rx_burst(&received, 1), 1u);
  a_.reset();
  ASSERT_TRUE(until([&] {
    b_->service(now());
    return !b_->link_up();
  }));
  EXPECT_TRUE(holds(received, 12'000, 0x77));
  EXPECT_FALSE(b_->takes_bare());
  EXPECT_EQ(b_->stats().tx_dropped, 1u);
  b_->rx_release(&received.cookie, 1);
  a_ = open(true, local::Role::kListen);
  ASSERT_TRUE(until([&] {
    a_->service(now());
    b_->service(now());
    return a_->link_up() && b_->link_up();
  }));
  std::vector<TxFrame> all(kLargeSlots);
  for (TxFrame& one : all) ASSERT_EQ(b_->tx_reserve_large(&one, 1), 1u);
  for (const TxFrame& one : all) b_->tx_abandon(&one, 1);
}

}  // namespace
}  // namespace mprdma::dataplane
