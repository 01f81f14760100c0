// Payloads that two engines read in each other's memory.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <vector>

#include "dataplane/port/lent_payload.hpp"
#include "tests/unit/dataplane/port/two_ends.hpp"
#include "wire/bare_packet.hpp"

namespace mprdma::dataplane {
namespace {

using testing::now;
using testing::TwoEnds;
using testing::until;

class Lent : public TwoEnds {
 protected:
  static constexpr uint32_t kFrameBytes = wire::BarePacket::kBytes + LentPayload::kBytes;

  static void lend(Port& port, const void* payload, uint32_t lender) {
    TxFrame frame{};
    ASSERT_EQ(port.tx_reserve(&frame, 1), 1u);
    fill(&frame, kFrameBytes, kFrameBytes, 1);
    frame.form = FrameForm::kLent;
    port.lend(&frame, reinterpret_cast<uint64_t>(payload), lender);
    send(port, frame);
  }
  void connect_and_agree() {
    connect(true, true);
    ASSERT_TRUE(until([&] {
      a_->service(now());
      b_->service(now());
      return a_->takes_lent() && b_->takes_lent();
    }));
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
  connect_and_agree();
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
  connect_and_agree();
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
  connect_and_agree();
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

TEST_F(Lent, APayloadIsTakenBackByItsAddress) {
  connect_and_agree();
  const std::vector<unsigned char> payload(40'000);
  for (const size_t at : {0, 10'000, 20'000}) lend(*a_, payload.data() + at, 5);
  RxFrame frames[3];
  ASSERT_EQ(b_->rx_burst(frames, 3), 3u);
  const auto address = reinterpret_cast<uint64_t>(payload.data());
  a_->take_back_memory(address + 20'001, 100);
  a_->take_back_memory(address + 9'000, 1'000);
  for (const RxFrame& frame : frames) EXPECT_TRUE(lent_of(frame).still_stands(lent_at(frame)));
  a_->take_back_memory(address + 10'000, 10'000);
  EXPECT_TRUE(lent_of(frames[0]).still_stands(lent_at(frames[0])));
  EXPECT_FALSE(lent_of(frames[1]).still_stands(lent_at(frames[1])));
  EXPECT_TRUE(lent_of(frames[2]).still_stands(lent_at(frames[2])));
  for (const RxFrame& frame : frames) b_->rx_release(&frame.cookie, 1);
}

TEST_F(Lent, APayloadIsTakenBackBeforeItLeaves) {
  connect_and_agree();
  const std::vector<unsigned char> payload(10'000);
  TxFrame frames[2];
  ASSERT_EQ(a_->tx_reserve(frames, 2), 2u);
  for (TxFrame& frame : frames) {
    fill(&frame, kFrameBytes, kFrameBytes, 1);
    frame.form = FrameForm::kLent;
    a_->lend(&frame, reinterpret_cast<uint64_t>(payload.data()), 5);
  }
  a_->take_back(5);
  send(*a_, frames[0]);
  a_->tx_abandon(&frames[1], 1);
  RxFrame received{};
  ASSERT_EQ(b_->rx_burst(&received, 1), 1u);
  EXPECT_FALSE(lent_of(received).still_stands(lent_at(received)));
  b_->rx_release(&received.cookie, 1);
}

TEST_F(Lent, WhoeverWantsNoMoreIsLentNoMore) {
  connect_and_agree();
  const unsigned char there = 7;
  unsigned char byte = 0;
  EXPECT_FALSE(pull(*b_, &byte, 0, 1));
  EXPECT_TRUE(pull(*b_, &byte, reinterpret_cast<uint64_t>(&there), 1));
  EXPECT_EQ(byte, 7);
  b_->pull_no_more();
  EXPECT_FALSE(a_->takes_lent());
  EXPECT_TRUE(b_->takes_lent()) << "the other way";
  EXPECT_FALSE(pull(*b_, &byte, reinterpret_cast<uint64_t>(&there), 1));
  b_->service(now());
  EXPECT_FALSE(a_->takes_lent()) << "as long as the link stands";
  // A frame that was filled before is dropped.
  a_->service(now());
  const uint64_t dropped = a_->stats().tx_dropped;
  lend(*a_, &there, 5);
  RxFrame frame{};
  EXPECT_EQ(b_->rx_burst(&frame, 1), 0u);
  EXPECT_EQ(a_->stats().tx_dropped, dropped + 1);
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
    a_->service(now());
    b_->service(now());
    EXPECT_FALSE(a_->takes_lent() || b_->takes_lent());
  }
}

}  // namespace
}  // namespace mprdma::dataplane
