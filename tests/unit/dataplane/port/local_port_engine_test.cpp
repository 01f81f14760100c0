// What two engines exchange over a LocalPort, and nobody else: bare packets and large frames.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/dataplane/port/two_ends.hpp"
#include "wire/bare_packet.hpp"

namespace mprdma::dataplane {
namespace {

using testing::now;
using testing::TwoEnds;
using testing::until;

constexpr uint32_t kLargeSlots = 256 / local::kSlotsPerLarge;

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
    large[1].form = FrameForm::kBare;
    fill(&small[0], kHeader, kHeader, 2);
    small[0].form = FrameForm::kBare;
    fill(&small[1], kFrameHeadroom, 4096, 3);
    fill(&large[0], kFrameHeadroom, kFrameHeadroom + wire::kMaxSegment + kFrameTailroom, 4);
    for (const TxFrame& frame : {large[1], small[0], small[1], large[0]}) send(*from, frame);
    RxFrame frames[kBurst];
    ASSERT_EQ(to.rx_burst(frames, kBurst), 4u);
    EXPECT_TRUE(frames[0].form == FrameForm::kBare && frames[1].form == FrameForm::kBare);
    EXPECT_TRUE(frames[2].form == FrameForm::kFrame && frames[3].form == FrameForm::kFrame);
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
    frame.form = FrameForm::kBare;
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
    frame.form = FrameForm::kBare;
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
  frame.form = FrameForm::kBare;
  send(*a_, frame);
  ASSERT_EQ(b_->tx_reserve_large(&frame, 1), 1u);
  fill(&frame, 48, 12'000, 0x88);
  frame.form = FrameForm::kBare;
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

// ---- Two short packets that leave together

class Beside : public TwoEnds {
 protected:
  static constexpr uint32_t kShort = local::kBesideBytes;

  // Bare packets, each of one value, that leave in one flush. `hidden`: their slots hold other
  // values afterwards, so that whoever reads there is found out.
  static void send_together(Port& port, std::initializer_list<std::pair<uint32_t, int>> packets,
                            bool hidden = false) {
    std::vector<TxFrame> frames;
    for (const auto& [bytes, value] : packets) {
      TxFrame& frame = frames.emplace_back();
      ASSERT_EQ(port.tx_reserve(&frame, 1), 1u);
      fill(&frame, wire::BarePacket::kBytes, bytes, static_cast<unsigned char>(value));
      frame.form = FrameForm::kBare;
      port.tx_commit(&frame, 1);
    }
    port.flush();
    for (TxFrame& frame : frames) {
      if (hidden) std::memset(frame.payload - wire::BarePacket::kBytes, 0xee, kShort);
    }
  }
  static void expect(const RxFrame& frame, uint32_t bytes, int value) {
    EXPECT_EQ(frame.form, FrameForm::kBare);
    EXPECT_TRUE(holds(frame, bytes, static_cast<unsigned char>(value))) << value;
  }
};

TEST_F(Beside, ArriveWholeHoweverManyLeftBeforeTheyAreRead) {
  connect(true, true);
  RxFrame frames[kBurst];
  const auto take = [&](std::initializer_list<std::pair<uint32_t, int>> packets) {
    ASSERT_EQ(b_->rx_burst(frames, kBurst), packets.size());
    unsigned i = 0;
    for (const auto& [bytes, value] : packets) expect(frames[i++], bytes, value);
    for (i = 0; i < packets.size(); ++i) b_->rx_release(&frames[i].cookie, 1);
    b_->flush();
  };
  for (int i = 0; i < 300; ++i) {  // more often than there are slots
    send_together(*a_, {{48, 1}, {kShort, 2}}, true);
    take({{48, 1}, {kShort, 2}});
  }
  send_together(*a_, {{48, 3}, {50, 4}});
  send_together(*a_, {{48, 5}, {kShort, 6}});
  take({{48, 3}, {50, 4}, {48, 5}, {kShort, 6}});
  send_together(*a_, {{48, 7}, {kShort, 8}});
  send_together(*a_, {{48, 9}});
  take({{48, 7}, {kShort, 8}, {48, 9}});
  send_together(*a_, {{48, 10}, {kShort + 1, 11}});
  take({{48, 10}, {kShort + 1, 11}});
  send_together(*a_, {{48, 12}, {48, 13}, {48, 14}});
  take({{48, 12}, {48, 13}, {48, 14}});
  send_together(*a_, {{48, 15}, {kShort, 16}});
  ASSERT_EQ(b_->rx_burst(frames, 1), 1u) << "one by one";
  expect(frames[0], 48, 15);
  ASSERT_EQ(b_->rx_burst(&frames[1], 1), 1u);
  expect(frames[1], kShort, 16);
  for (unsigned i = 0; i < 2; ++i) b_->rx_release(&frames[i].cookie, 1);
  EXPECT_EQ(b_->stats().rx_malformed, 0u);
}

// An idle reader keeps a few frames to itself; the peer gets them with the next frame that leaves,
// when the reader sleeps, or when there are more.
TEST_F(Beside, TheLastFramesThatAreGivenBackLeaveWithSomething) {
  connect(true, true);
  RxFrame frames[kBurst];
  const auto give_back = [&](uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) send_together(*a_, {{48, 1}});
    ASSERT_EQ(b_->rx_burst(frames, kBurst), count);
    for (uint32_t i = 0; i < count; ++i) b_->rx_release(&frames[i].cookie, 1);
    b_->flush();
  };
  // How many of its 256 frames the sender can have, none of which it holds afterwards.
  const auto free_frames = [&] {
    std::vector<TxFrame> taken(256);
    unsigned count = 0;
    while (unsigned got = a_->tx_reserve(&taken[count], 1)) count += got;
    a_->tx_abandon(taken.data(), count);
    return count;
  };
  give_back(local::kReturnsKept);
  EXPECT_EQ(free_frames(), 256 - local::kReturnsKept);
  send_together(*b_, {{48, 2}});
  EXPECT_EQ(free_frames(), 256u) << "with a frame";
  give_back(local::kReturnsKept + 1);
  EXPECT_EQ(free_frames(), 256u) << "more than a few";
  give_back(1);
  EXPECT_EQ(free_frames(), 255u);
  ASSERT_TRUE(b_->arm());
  EXPECT_EQ(free_frames(), 256u) << "before it sleeps";
  b_->disarm();
  give_back(1);
  b_->service(now());
  EXPECT_EQ(free_frames(), 256u) << "in its service";
}

TEST_F(Beside, StayReadableUntilTheyAreReleased) {
  connect(true, true);
  send_together(*a_, {{48, 1}, {kShort, 2}}, true);
  RxFrame held[2];
  ASSERT_EQ(b_->rx_burst(held, 2), 2u);
  RxFrame frames[2];
  for (int i = 0; i < 300; ++i) {
    send_together(*a_, {{48, 3}, {kShort, 4}});
    ASSERT_EQ(b_->rx_burst(frames, 2), 2u);
    for (const RxFrame& frame : frames) b_->rx_release(&frame.cookie, 1);
    b_->flush();
  }
  expect(held[0], 48, 1);
  expect(held[1], kShort, 2);
  a_.reset();
  ASSERT_TRUE(until([&] {
    b_->service(now());
    return !b_->link_up();
  }));
  a_ = open(true, local::Role::kListen);
  ASSERT_TRUE(until([&] {
    a_->service(now());
    b_->service(now());
    return a_->link_up() && b_->link_up();
  }));
  send_together(*a_, {{48, 5}, {kShort, 6}});
  ASSERT_EQ(b_->rx_burst(frames, 2), 2u);
  expect(held[0], 48, 1);
  expect(held[1], kShort, 2);
  for (const RxFrame& frame : {held[0], held[1], frames[0], frames[1]}) {
    b_->rx_release(&frame.cookie, 1);
  }
  b_->service(now());
}

// Two pairs leave one soon after the other, while another thread reads: no packet is torn, lost or
// read twice.
TEST_F(Beside, AreNeverTorn) {
  connect(true, true);
  constexpr uint32_t kPackets = 200'000;
  std::atomic<uint64_t> read = 0;
  std::thread sender([&] {
    const auto send_pair = [&](uint32_t first) {
      TxFrame pair[2];
      while (a_->tx_reserve(pair, 2) < 2) {
      }
      for (uint32_t i = 0; i < 2; ++i) {
        uint64_t words[kShort / 8];
        std::fill(std::begin(words), std::end(words), first + i);
        std::memcpy(pair[i].payload - wire::BarePacket::kBytes, words, sizeof words);
        pair[i].header_bytes = wire::BarePacket::kBytes;
        pair[i].frame_bytes = kShort;
        pair[i].form = FrameForm::kBare;
      }
      a_->tx_commit(pair, 2);
      a_->flush();
    };
    for (uint32_t sent = 0; sent < kPackets; sent += 4) {
      while (read < sent) {
      }
      send_pair(sent);
      for (uint32_t pause = sent / 4 % 64; pause > 0; --pause) __builtin_ia32_pause();
      send_pair(sent + 2);
    }
  });
  uint64_t wrong = 0;
  for (uint64_t expected = 0; expected < kPackets; read = expected) {
    RxFrame frames[kBurst];
    const unsigned taken = b_->rx_burst(frames, kBurst);
    for (unsigned i = 0; i < taken; ++i, ++expected) {
      uint64_t words[kShort / 8];
      std::memcpy(words, frames[i].data, sizeof words);
      for (const uint64_t word : words) wrong += word != expected ? 1 : 0;
      b_->rx_release(&frames[i].cookie, 1);
    }
    b_->flush();
  }
  sender.join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace mprdma::dataplane
