// A LocalPort against a peer that claims to be an engine, and breaks the rules for those.
#include <gtest/gtest.h>

#include <iterator>
#include <memory>

#include "tests/unit/dataplane/port/hostile_peer.hpp"

namespace mprdma::dataplane {
namespace {

using local::Descriptor;
using testing::HostilePeer;
using testing::HostilePeerTest;
using testing::now;

constexpr HostilePeer::Claim kEngineClaim{
    .large_slots = 16, .large_stride = local::kLargeStride, .flags = local::kReadsBare};
constexpr uint16_t bare(uint32_t offset) {
  return Descriptor::pack_offset(offset, FrameForm::kBare);
}
constexpr uint16_t lent(uint32_t offset) {
  return Descriptor::pack_offset(offset, FrameForm::kLent);
}

class HostileEngineTest : public HostilePeerTest {
 protected:
  // The port is an engine's, too.
  void attach_to_engine() {
    peer_.reset();
    port_.reset();
    port_ = LocalPort::open({.path = directory_.wire(), .slots = 256, .engine = true}).port;
    ASSERT_NE(port_, nullptr);
    port_->service(now());
    peer_ = std::make_unique<HostilePeer>(directory_.wire());
    attach(kEngineClaim);
  }
};

TEST_F(HostileEngineTest, BareFramesForOneWhoDoesNotReadThemAreCountedDrops) {
  attach(kEngineClaim);
  EXPECT_EQ(port_->large_payload(), 0u) << "we have none";
  peer_->put(0, {.slot = 1, .length = 100, .offset = bare(64), .sequence = 0});
  peer_->put(1, {.slot = 2, .length = 100, .offset = 64, .sequence = 0});
  peer_->put(2, {.slot = 3, .length = 64, .offset = lent(64), .sequence = 0});
  RxFrame frames[kBurst];
  ASSERT_EQ(port_->rx_burst(frames, kBurst), 1u);
  EXPECT_EQ(frames[0].form, FrameForm::kFrame);
  EXPECT_EQ(port_->stats().rx_malformed, 2u);
  port_->rx_release(&frames[0].cookie, 1);
  expect_next_peer_works();
}

TEST_F(HostileEngineTest, BadDescriptorsOfLargeAndBareFramesAreCountedDrops) {
  attach_to_engine();
  constexpr auto kAll = static_cast<uint16_t>(local::kLargeStride);
  const Descriptor bad[] = {
      {.slot = 272, .length = 100, .offset = 64, .sequence = 0},        // no such slot
      {.slot = 256, .length = kAll, .offset = 1, .sequence = 0},        // beyond its end
      {.slot = 257, .length = kAll, .offset = bare(1), .sequence = 0},  // the same, bare
      {.slot = 258, .length = 0xffff, .offset = 0, .sequence = 0},
      {.slot = 259, .length = 1, .offset = bare(16000), .sequence = 0},
      {.slot = 3, .length = 8192, .offset = 0, .sequence = 0},           // a small slot
      {.slot = 4, .length = 47, .offset = bare(80), .sequence = 0},      // less than its header
      {.slot = 6, .length = 65, .offset = lent(64), .sequence = 0},      // more than a lent one has
      {.slot = 7, .length = 64, .offset = lent(65), .sequence = 0},      // not aligned
      {.slot = 8, .length = 64, .offset = 1 << 14 | 64, .sequence = 0},  // of no form
  };
  uint16_t position = 0;
  for (const Descriptor& descriptor : bad) peer_->put(position++, descriptor);
  peer_->put(position++, {.slot = 271, .length = kAll, .offset = 0, .sequence = 0});
  peer_->put(position++, {.slot = 5, .length = 48, .offset = bare(80), .sequence = 0});
  RxFrame frames[kBurst];
  ASSERT_EQ(port_->rx_burst(frames, kBurst), 2u);
  EXPECT_EQ(frames[0].length, kAll);
  EXPECT_EQ(frames[0].form, FrameForm::kFrame);
  EXPECT_EQ(frames[1].length, 48u);
  EXPECT_EQ(frames[1].form, FrameForm::kBare);
  EXPECT_EQ(port_->stats().rx_malformed, std::size(bad));
  EXPECT_TRUE(port_->link_up());
  for (const RxFrame& frame : {frames[0], frames[1]}) port_->rx_release(&frame.cookie, 1);
  expect_next_peer_works();
}

TEST_F(HostileEngineTest, BadDescriptorsOfPacketsInTheHeaderAreCountedDrops) {
  attach_to_engine();
  const auto put_both = [&](uint16_t position, Descriptor before, Descriptor newest) {
    before.sequence = static_cast<uint16_t>(position + 1);
    newest.sequence = static_cast<uint16_t>(position + 2);
    peer_->header().before.descriptor = before.pack();
    peer_->header().newest.descriptor = newest.pack() | Descriptor::kBeside;
  };
  RxFrame frames[kBurst];
  // No such slot; the same slot twice.
  put_both(0, {.slot = 300, .length = 48, .offset = bare(80), .sequence = 0},
           {.slot = 9, .length = 48, .offset = bare(80), .sequence = 0});
  ASSERT_EQ(port_->rx_burst(frames, kBurst), 1u);
  EXPECT_EQ(port_->stats().rx_malformed, 1u);
  put_both(2, {.slot = 9, .length = 48, .offset = bare(80), .sequence = 0},
           {.slot = 10, .length = 48, .offset = bare(80), .sequence = 0});
  ASSERT_EQ(port_->rx_burst(&frames[1], kBurst - 1), 1u);
  EXPECT_EQ(port_->stats().rx_malformed, 2u);
  // Longer than what stands there: read where it is.
  for (auto* line : {&peer_->header().before, &peer_->header().newest}) {
    for (auto& words : line->frame) words = ~uint64_t{0};
  }
  put_both(4, {.slot = 11, .length = 4000, .offset = 64, .sequence = 0},
           {.slot = 256, .length = 10'000, .offset = bare(80), .sequence = 0});
  ASSERT_EQ(port_->rx_burst(&frames[2], kBurst - 2), 2u);
  for (const RxFrame* frame = &frames[2]; frame != &frames[4]; ++frame) {
    unsigned sum = 0;
    for (uint32_t i = 0; i < frame->length; ++i) sum += frame->data[i];
    EXPECT_EQ(sum, 0u);
  }
  for (unsigned i = 0; i < 4; ++i) port_->rx_release(&frames[i].cookie, 1);
  EXPECT_TRUE(port_->link_up());
  expect_next_peer_works();
}

// Who finds the pair of `newest` while the next one is being written reads ring and slots.
TEST_F(HostileEngineTest, APairThatIsBeingOverwrittenIsNotRead) {
  attach_to_engine();
  const Descriptor before{.slot = 9, .length = 48, .offset = bare(80), .sequence = 1};
  const Descriptor newest{.slot = 10, .length = 48, .offset = bare(80), .sequence = 2};
  peer_->put(0, before);
  peer_->put(1, newest);
  for (auto* line : {&peer_->header().before, &peer_->header().newest}) {
    for (auto& words : line->frame) words = ~uint64_t{0};
  }
  Descriptor next = before;
  next.sequence = 3;
  peer_->header().before.descriptor = next.pack();
  peer_->header().newest.descriptor = newest.pack() | Descriptor::kBeside;
  RxFrame frames[kBurst];
  ASSERT_EQ(port_->rx_burst(frames, kBurst), 2u);
  for (const RxFrame& frame : {frames[0], frames[1]}) {
    EXPECT_EQ(frame.data[0], 0u) << "of the slot";
    port_->rx_release(&frame.cookie, 1);
  }
  EXPECT_EQ(port_->stats().rx_malformed, 0u);
}

// It may be the mark of any process.
TEST_F(HostileEngineTest, APeerThatDoesNotHaveTheMarkThatItShowsIsNotRead) {
  attach_to_engine();
  const uint64_t word = 1;
  peer_->header().mark_value = word + 1;
  peer_->header().mark_address = reinterpret_cast<uint64_t>(&word);
  port_->service(now());
  uint64_t copy = 0;
  const iovec to{&copy, sizeof copy};
  const iovec from{const_cast<uint64_t*>(&word), sizeof copy};
  EXPECT_FALSE(port_->pull({&to, 1}, {&from, 1}, sizeof copy));
  peer_->header().pulls = 1;
  EXPECT_TRUE(port_->takes_lent()) << "it may read us, if the kernel lets it";
  expect_next_peer_works();
}

}  // namespace
}  // namespace mprdma::dataplane
