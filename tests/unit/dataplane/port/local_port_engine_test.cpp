// What two engines exchange over a LocalPort, and nobody else: bare packets and large frames.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "dataplane/port/lent_payload.hpp"
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

  // Bare packets, each of one value, that leave in one flush.
  static void send_together(Port& port, std::initializer_list<std::pair<uint32_t, int>> packets) {
    for (const auto& [bytes, value] : packets) {
      TxFrame frame{};
      ASSERT_EQ(port.tx_reserve(&frame, 1), 1u);
      fill(&frame, wire::BarePacket::kBytes, bytes, static_cast<unsigned char>(value));
      std::memset(frame.payload, value, bytes - wire::BarePacket::kBytes);
      frame.form = FrameForm::kBare;
      port.tx_commit(&frame, 1);
    }
    port.flush();
  }
  // Whole lines of the sender's memory hold other values than the frames: what was read was read
  // elsewhere.
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
    send_together(*a_, {{48, 1}, {kShort, 2}});
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

TEST_F(Beside, StayReadableUntilTheyAreReleased) {
  connect(true, true);
  send_together(*a_, {{48, 1}, {kShort, 2}});
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

// ---- Lent payloads

class Lent : public TwoEnds {
 protected:
  static constexpr uint32_t kFrameBytes = wire::BarePacket::kBytes + LentPayload::kBytes;

  static void lend(Port& port, const void* payload, uint32_t lender) {
    TxFrame frame{};
    ASSERT_EQ(port.tx_reserve(&frame, 1), 1u);
    fill(&frame, kFrameBytes, kFrameBytes, 1);
    const auto address = reinterpret_cast<uint64_t>(payload);
    std::memcpy(frame.payload - LentPayload::kBytes, &address, sizeof address);
    frame.form = FrameForm::kLent;
    frame.lender = lender;
    send(port, frame);
  }
  static const unsigned char* lent_at(const RxFrame& frame) {
    return frame.data + wire::BarePacket::kBytes;
  }
  static LentPayload lent_of(const RxFrame& frame) { return LentPayload::load(lent_at(frame)); }
  static bool pull(Port& port, void* to, uint64_t from, size_t bytes) {
    const iovec local{to, bytes};
    const iovec remote{reinterpret_cast<void*>(from), bytes};
    return port.pull({&local, 1}, {&remote, 1}, bytes);
  }
};

TEST_F(Lent, EnginesReadEachOthersPayloads) {
  connect(true, true);
  const std::vector<unsigned char> payload(20'000, 0x42);
  for (Port* from : {a_.get(), b_.get()}) {
    Port& to = from == a_.get() ? *b_ : *a_;
    ASSERT_TRUE(from->takes_lent());
    lend(*from, payload.data(), 5);
    RxFrame frame{};
    ASSERT_EQ(to.rx_burst(&frame, 1), 1u);
    EXPECT_EQ(frame.form, FrameForm::kLent);
    EXPECT_EQ(frame.length, kFrameBytes);
    std::vector<unsigned char> read(payload.size());
    EXPECT_TRUE(pull(to, read.data(), lent_of(frame).address, read.size()));
    EXPECT_TRUE(read == payload);
    to.rx_release(&frame.cookie, 1);
    EXPECT_EQ(testing::send_patterns(*from, 0, 1), 1u);
    ASSERT_EQ(to.rx_burst(&frame, 1), 1u);
    EXPECT_EQ(frame.form, FrameForm::kFrame);
    to.rx_release(&frame.cookie, 1);
  }
}

TEST_F(Lent, APayloadIsTakenBackFromOneLenderAndNobodyElse) {
  connect(true, true);
  const std::vector<unsigned char> payload(10'000);
  for (const uint32_t lender : {5u, 6u, 5u}) lend(*a_, payload.data(), lender);
  EXPECT_EQ(testing::send_patterns(*a_, 0, 1), 1u);
  RxFrame frames[4];
  ASSERT_EQ(b_->rx_burst(frames, 4), 4u);
  const LentPayload before[] = {lent_of(frames[0]), lent_of(frames[1]), lent_of(frames[2])};
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(before[i].still_stands(lent_at(frames[i])));
  a_->take_back(5);
  EXPECT_FALSE(before[0].still_stands(lent_at(frames[0])));
  EXPECT_TRUE(before[1].still_stands(lent_at(frames[1])));
  EXPECT_FALSE(before[2].still_stands(lent_at(frames[2])));
  EXPECT_FALSE(lent_of(frames[0]).still_stands(lent_at(frames[0]))) << "looked at afterwards";
  for (const RxFrame& frame : frames) b_->rx_release(&frame.cookie, 1);
  // The same frames, used for something else, are left alone.
  b_->flush();
  for (int i = 0; i < 1'000; ++i) {
    TxFrame frame{};
    ASSERT_EQ(a_->tx_reserve(&frame, 1), 1u);
    fill(&frame, kFrameBytes, kFrameBytes, 0x66);
    send(*a_, frame);
    a_->take_back(5);
    RxFrame received{};
    ASSERT_EQ(b_->rx_burst(&received, 1), 1u);
    EXPECT_TRUE(holds(received, kFrameBytes, 0x66));
    b_->rx_release(&received.cookie, 1);
    b_->flush();
  }
}

TEST_F(Lent, APeerThatLeavesIsLentNothingAnyMore) {
  connect(true, true);
  const std::vector<unsigned char> payload(10'000);
  lend(*a_, payload.data(), 5);
  RxFrame frame{};
  ASSERT_EQ(b_->rx_burst(&frame, 1), 1u);
  const LentPayload lent = lent_of(frame);
  static_cast<LocalPort&>(*b_).hang_up();
  ASSERT_TRUE(until([&] {
    a_->service(now());
    return !a_->link_up();
  }));
  EXPECT_FALSE(a_->takes_lent());
  EXPECT_FALSE(lent.still_stands(lent_at(frame)));
  b_->rx_release(&frame.cookie, 1);
}

TEST_F(Lent, WhoeverCannotReadIsLentNoMore) {
  connect(true, true);
  unsigned char byte = 0;
  EXPECT_FALSE(pull(*b_, &byte, 0, 1));
  EXPECT_FALSE(a_->takes_lent());
  EXPECT_TRUE(b_->takes_lent()) << "the other way";
  const unsigned char there = 1;
  EXPECT_FALSE(pull(*b_, &byte, reinterpret_cast<uint64_t>(&there), 1)) << "from here on";
}

TEST_F(Lent, OnlyEnginesThatTrustEachOtherLend) {
  connect(true, false);
  EXPECT_FALSE(a_->takes_lent() || b_->takes_lent());
  a_.reset();
  b_.reset();
  for (const bool lends : {true, false}) {
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
    const auto open_end = [&](int socket, bool stranger) {
      return LocalPort::open({.path = {},
                              .slots = 256,
                              .role = local::Role::kAdopted,
                              .socket = socket,
                              .engine = true,
                              .stranger = stranger,
                              .lends = lends})
          .port;
    };
    a_ = open_end(sockets[0], lends);
    b_ = open_end(sockets[1], false);
    ASSERT_TRUE(until([&] {
      a_->service(now());
      b_->service(now());
      return a_->link_up() && b_->link_up();
    }));
    EXPECT_TRUE(a_->takes_bare() && b_->takes_bare());
    EXPECT_FALSE(a_->takes_lent() || b_->takes_lent());
  }
}

}  // namespace
}  // namespace mprdma::dataplane
