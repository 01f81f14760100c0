// Pauses of the port's peer (PFC): data waits, answers do not.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/unit/dataplane/engine/engine_host.hpp"
#include "wire/pause_frame.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Bytes;
using testing::Host;
using testing::HostPair;
using wire::PauseFrame;

// Links of 1 Gb/s: 1000 quanta are 512 us.
void obey(WorkerConfig& config) {
  config.pfc = true;
  config.pfc_priority = 3;
  config.params.link_mbps = 1000;
}

void pause(HostPair& pair, int side, const PauseFrame& frame) {
  Bytes bytes(wire::kMinFrameBytes);
  frame.store({0x02, 0, 0, 0, 0, 9}, bytes.data());
  pair.wire->inject(side, bytes);
}

void run(HostPair& pair, Duration span) {
  pair.settle(static_cast<int>(span.count_ns() / 10'000));
}

// A sends its memory to B's; true once B has all of it.
void write(HostPair& pair, uint32_t length = 40'000) {
  std::iota(pair.mr_a->bytes.begin(), pair.mr_a->bytes.end(), static_cast<unsigned char>(1));
  auto& wqe = pair.a.begin_send(*pair.qp_a, MPRDMA_ABI_WRITE, 1,
                                {{pair.mr_a->addr(), length, pair.mr_a->key}});
  wqe.remote_addr = pair.mr_b->addr();
  wqe.rkey = pair.mr_b->key;
  pair.a.end_send(*pair.qp_a);
}
bool begun(const HostPair& pair) {
  return pair.mr_b->bytes[0] == 1;
}
bool completed(HostPair& pair) {
  mprdma_abi_cqe cqe;
  return pair.cq_a->poll(&cqe) && cqe.status == MPRDMA_ABI_WC_SUCCESS;
}

TEST(WorkerPause, DataWaitsForTheQuantaAndGoesOnByItself) {
  HostPair pair(obey);
  pair.settle();
  pause(pair, 0, PauseFrame::pfc(0xff, 1000));
  pair.step();
  const Time begin = pair.a.now;
  write(pair);
  run(pair, Duration::us(490));
  EXPECT_FALSE(begun(pair));
  EXPECT_LE(pair.a.worker->next_deadline(), begin + Duration::us(517)) << "someone wakes it";
  EXPECT_TRUE(pair.a.worker->wants_wire());
  ASSERT_TRUE(pair.run_until([&] { return begun(pair); }));
  EXPECT_LE(pair.a.now - begin, Duration::us(540));
  EXPECT_TRUE(pair.run_until([&] { return completed(pair); }));
  const EngineCounters& counters = pair.a.worker->counters();
  EXPECT_EQ(counters.pfc_received, 1u);
  EXPECT_GE(counters.pfc_paused_us, 512u);
  EXPECT_LE(counters.pfc_paused_us, 530u);
}

TEST(WorkerPause, ARefreshedPauseLastsAndItsEndEndsIt) {
  HostPair pair(obey);
  pair.settle();
  pause(pair, 0, PauseFrame::pfc(1 << 3, 1000));
  pair.step();
  write(pair);
  for (int i = 0; i < 8; ++i) {
    pause(pair, 0, PauseFrame::of_link(1000));
    run(pair, Duration::us(400));
  }
  EXPECT_FALSE(begun(pair));
  pause(pair, 0, PauseFrame::pfc(1 << 3, 0));
  run(pair, Duration::us(20));
  EXPECT_TRUE(begun(pair));
  EXPECT_EQ(pair.a.worker->counters().pfc_received, 10u);
  EXPECT_GE(pair.a.worker->counters().pfc_paused_us, 3190u);
}

TEST(WorkerPause, APauseStopsAMessageUnderWay) {
  HostPair pair(obey);
  pair.settle();
  write(pair, 60'000);
  pair.a.worker->run(pair.a.now);
  EXPECT_GT(pair.wire->side[1].incoming.size(), 0u);
  pause(pair, 0, PauseFrame::pfc(1 << 3, 0xffff));
  run(pair, Duration::ms(2));
  const uint64_t sent = pair.a.worker->counters().frames_out;
  run(pair, Duration::us(500));
  EXPECT_EQ(pair.a.worker->counters().frames_out, sent);
}

TEST(WorkerPause, AcknowledgementsLeaveMeanwhile) {
  HostPair pair(obey);
  pair.settle();
  pause(pair, 1, PauseFrame::pfc(0xff, 0xffff));
  pair.step();
  write(pair);
  ASSERT_TRUE(pair.run_until([&] { return completed(pair); }));
  EXPECT_EQ(pair.b.worker->counters().pfc_paused_us, 0u) << "the pause lasts";
  EXPECT_EQ(pair.b.worker->counters().pfc_received, 1u);
}

TEST(WorkerPause, OtherPrioritiesAndPausesThatNobodyWantsAreCounted) {
  HostPair other(obey);
  pause(other, 0, PauseFrame::pfc(0xf7, 0xffff));
  other.settle();
  write(other);
  EXPECT_TRUE(other.run_until([&] { return completed(other); }));
  EXPECT_EQ(other.a.worker->counters().pfc_ignored, 1u);
  HostPair off;
  pause(off, 0, PauseFrame::pfc(0xff, 0xffff));
  off.settle();
  write(off);
  EXPECT_TRUE(off.run_until([&] { return completed(off); }));
  EXPECT_EQ(off.a.worker->counters().pfc_ignored, 1u);
  EXPECT_EQ(off.a.worker->counters().pfc_received, 0u);
  EXPECT_EQ(off.a.worker->wire_drops()[wire::DropReason::kUnknownEtherType], 0u);
}

TEST(WorkerPause, WhatIsNoPauseIsACountedDrop) {
  HostPair pair(obey);
  Bytes bytes(wire::kMinFrameBytes);
  PauseFrame::pfc(0xff, 0xffff).store({}, bytes.data());
  bytes[15] = 9;
  pair.wire->inject(0, bytes);
  bytes.resize(14);
  pair.wire->inject(0, bytes);
  pair.settle();
  EXPECT_EQ(pair.a.worker->counters().drop_bad_pause, 2u);
  bytes[12] = 0x12;
  pair.wire->inject(0, bytes);
  pair.settle();
  EXPECT_EQ(pair.a.worker->counters().drop_bad_pause, 2u);
  EXPECT_EQ(pair.a.worker->wire_drops()[wire::DropReason::kUnknownEtherType], 1u);
}

}  // namespace
}  // namespace mprdma::dataplane
