// Pauses of the port's peer (PFC): data waits, answers do not.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/unit/dataplane/engine/engine_host.hpp"
#include "wire/pause_frame.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Bytes;
using testing::Host;
using testing::HostPair;
using testing::HostQp;
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
  EXPECT_TRUE(pair.a.worker->busy());
  EXPECT_FALSE(pair.a.worker->wants_wire()) << "nobody has to look again and again";
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

// By the traffic class of each queue pair.
void obey_by_class(WorkerConfig& config) {
  config.pfc = true;
  config.params.link_mbps = 1000;
}

// A connected queue pair on each host, which sends at this priority.
struct Stream {
  Stream(HostPair& pair, uint8_t priority)
      : a(pair.a.make_qp(*pair.cq_a)), b(pair.b.make_qp(*pair.cq_b)) {
    connect(pair.a, *a, Host::attributes(Host::ip(1), b->qpn), priority);
    connect(pair.b, *b, Host::attributes(Host::ip(0), a->qpn), priority);
  }
  static void connect(Host& host, const HostQp& qp, mprdma_abi_qp_attr attr, uint8_t priority) {
    attr.traffic_class = static_cast<uint8_t>(priority << 5);
    ASSERT_EQ(host.move_to(qp, MPRDMA_ABI_QPS_INIT), 0);
    ASSERT_EQ(host.modify(qp, attr), 0);
    ASSERT_EQ(host.move_to(qp, MPRDMA_ABI_QPS_RTR), 0);
    ASSERT_EQ(host.move_to(qp, MPRDMA_ABI_QPS_RTS), 0);
  }
  void write(HostPair& pair, uint64_t wr_id, uint32_t length = 3000) const {
    auto& wqe = pair.a.begin_send(*a, MPRDMA_ABI_WRITE, wr_id,
                                  {{pair.mr_a->addr(), length, pair.mr_a->key}});
    wqe.remote_addr = pair.mr_b->addr();
    wqe.rkey = pair.mr_b->key;
    pair.a.end_send(*a);
  }

  std::unique_ptr<HostQp> a;
  std::unique_ptr<HostQp> b;
};

// A UD queue pair on each host.
struct DatagramPair {
  explicit DatagramPair(HostPair& hosts)
      : pair(hosts), from(pair.a.make_ud_qp(*pair.cq_a)), to(pair.b.make_ud_qp(*pair.cq_b)) {}
  // Of b, for datagrams of this priority.
  [[nodiscard]] uint32_t address(uint8_t priority) const {
    mprdma_abi_create_ah in{};
    const wire::IpAddress gid = wire::map_ipv4(Host::ip(1));
    std::memcpy(in.dgid, gid.data(), gid.size());
    in.pd = pair.a.pd;
    in.sgid_index = 1;
    in.traffic_class = static_cast<uint8_t>(priority << 5);
    mprdma_abi_handle out{};
    EXPECT_EQ(pair.a.execute(MPRDMA_ABI_CREATE_AH, in, &out), 0);
    return out.handle;
  }
  void send(HostQp& qp, uint32_t ah, uint64_t wr_id) const {
    auto& wqe =
        pair.a.begin_send(qp, MPRDMA_ABI_SEND, wr_id, {{pair.mr_a->addr(), 100, pair.mr_a->key}});
    wqe.ah = ah;
    wqe.remote_qpn = to->qpn;
    wqe.remote_qkey = Host::kQkey;
    pair.a.end_send(qp);
  }

  HostPair& pair;
  std::unique_ptr<HostQp> from;
  std::unique_ptr<HostQp> to;
};

// The requests that have completed since the last call, in order.
std::vector<uint64_t> take_completed(HostPair& pair) {
  std::vector<uint64_t> ids;
  mprdma_abi_cqe cqe;
  while (pair.cq_a->poll(&cqe)) {
    EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_SUCCESS);
    ids.push_back(cqe.wr_id);
  }
  return ids;
}

// More paused queue pairs than bursts would ask in time, each of which takes the wire to be full
// after some.
TEST(WorkerPause, APriorityThatIsPausedStopsNoOther) {
  HostPair pair(obey_by_class);
  std::vector<std::unique_ptr<Stream>> paused;
  for (int i = 0; i < 60; ++i) paused.push_back(std::make_unique<Stream>(pair, 3));
  const Stream free(pair, 0);
  const Stream other(pair, 5);
  pair.settle();
  pause(pair, 0, PauseFrame::pfc(1 << 3 | 1 << 6, 0xffff));
  pair.step();
  for (const auto& stream : paused) stream->write(pair, 3);
  free.write(pair, 1);
  other.write(pair, 2);
  run(pair, Duration::ms(1));
  EXPECT_EQ(take_completed(pair), (std::vector<uint64_t>{1, 2}));
  for (uint64_t i = 10; i < 20; ++i) {
    free.write(pair, i);
    run(pair, Duration::us(50));
    EXPECT_EQ(take_completed(pair), std::vector<uint64_t>{i});
  }
  EXPECT_TRUE(pair.a.worker->busy());
  pause(pair, 0, PauseFrame::pfc(1 << 3, 0));
  run(pair, Duration::ms(1));
  EXPECT_EQ(take_completed(pair), std::vector<uint64_t>(60, 3));
}

// As an application's thread posts that has the engine to itself, to another engine.
TEST(WorkerPause, APostByTheShortWayWaits) {
  HostPair pair(obey_by_class);
  pair.wire->bare = true;
  const Stream stream(pair, 3);
  pair.settle();
  stream.write(pair, 1);
  run(pair, Duration::us(100));
  EXPECT_EQ(take_completed(pair), std::vector<uint64_t>{1});
  pause(pair, 0, PauseFrame::pfc(1 << 3, 1000));
  pair.step();
  const uint64_t sent = pair.a.worker->counters().frames_out;
  stream.write(pair, 2, 500);
  pair.a.worker->run_sends(stream.a->doorbell, pair.a.now);
  EXPECT_EQ(pair.a.worker->counters().frames_out, sent);
  run(pair, Duration::ms(1));
  EXPECT_EQ(take_completed(pair), std::vector<uint64_t>{2});
}

TEST(WorkerPause, ALinkThatGoesDownEndsAPauseAndSomebodyIsWoken) {
  HostPair pair(obey_by_class);
  const Stream stream(pair, 3);
  pair.settle();
  pause(pair, 0, PauseFrame::pfc(1 << 3, 0xffff));
  pair.step();
  stream.write(pair, 1);
  run(pair, Duration::us(100));
  pair.a.port().up = false;
  pair.a.worker->service(pair.a.now);
  pair.a.port().up = true;
  pair.a.worker->service(pair.a.now);
  EXPECT_LE(pair.a.worker->next_deadline(), pair.a.now + Duration::us(5));
  run(pair, Duration::ms(1));
  EXPECT_EQ(take_completed(pair), std::vector<uint64_t>{1});
}

// A connection to ourselves is not on the link.
TEST(WorkerPause, WhatStaysInTheHostIsNotPaused) {
  HostPair pair(obey_by_class);
  const auto from = pair.a.make_qp(*pair.cq_a);
  const auto to = pair.a.make_qp(*pair.cq_a);
  Stream::connect(pair.a, *from, Host::attributes(Host::ip(0), to->qpn), 3);
  Stream::connect(pair.a, *to, Host::attributes(Host::ip(0), from->qpn), 3);
  pair.settle();
  pause(pair, 0, PauseFrame::pfc(0xff, 0xffff));
  pair.step();
  auto& wqe =
      pair.a.begin_send(*from, MPRDMA_ABI_WRITE, 1, {{pair.mr_a->addr(), 3000, pair.mr_a->key}});
  wqe.remote_addr = pair.mr_a->addr() + 4096;
  wqe.rkey = pair.mr_a->key;
  pair.a.end_send(*from);
  run(pair, Duration::us(200));
  EXPECT_EQ(take_completed(pair), std::vector<uint64_t>{1});
}

TEST(WorkerPause, ADatagramWhoseAddressHasGoneDoesNotHoldUpTheNext) {
  HostPair pair(obey_by_class);
  DatagramPair datagrams(pair);
  const uint32_t paused = datagrams.address(3);
  const uint32_t free = datagrams.address(0);
  pair.settle();
  pause(pair, 0, PauseFrame::pfc(1 << 3, 0xffff));
  pair.step();
  datagrams.send(*datagrams.from, paused, 1);
  datagrams.send(*datagrams.from, free, 2);
  run(pair, Duration::us(100));
  EXPECT_TRUE(take_completed(pair).empty());
  ASSERT_EQ(pair.a.execute(MPRDMA_ABI_DESTROY_AH, mprdma_abi_handle{paused, 0}), 0);
  run(pair, Duration::us(100));
  EXPECT_EQ(take_completed(pair), (std::vector<uint64_t>{1, 2}));
}

TEST(WorkerPause, EachPriorityHasAnEndOfItsOwn) {
  HostPair pair(obey_by_class);
  const Stream early(pair, 7);
  const Stream late(pair, 0);
  pair.settle();
  PauseFrame both = PauseFrame::pfc(1 << 7 | 1 << 0, 1000);
  both.quanta[0] = 3000;
  pause(pair, 0, both);
  pair.step();
  const Time begin = pair.a.now;
  early.write(pair, 7);
  late.write(pair, 1);
  std::vector<uint64_t> ids;
  std::vector<Duration> after;
  ASSERT_TRUE(pair.run_until([&] {
    for (const uint64_t id : take_completed(pair)) {
      ids.push_back(id);
      after.push_back(pair.a.now - begin);
    }
    return ids.size() == 2;
  }));
  EXPECT_EQ(ids, (std::vector<uint64_t>{7, 1}));
  EXPECT_GE(after[0], Duration::us(500));
  EXPECT_LE(after[0], Duration::us(570));
  EXPECT_GE(after[1], Duration::us(1520));
  EXPECT_LE(after[1], Duration::us(1590));
  EXPECT_GE(pair.a.worker->counters().pfc_paused_us, 1536u);
  EXPECT_LE(pair.a.worker->counters().pfc_paused_us, 1560u);
}

// A queue pair that is destroyed while it is parked is asked nothing more.
TEST(WorkerPause, AQueuePairMayGoInAPause) {
  HostPair pair(obey_by_class);
  const Stream gone(pair, 3);
  const Stream stays(pair, 3);
  pair.settle();
  pause(pair, 0, PauseFrame::pfc(1 << 3, 1000));
  pair.step();
  gone.write(pair, 1);
  stays.write(pair, 2);
  pair.step();
  mprdma_abi_handle handle{gone.a->handle, 0};
  ASSERT_EQ(pair.a.execute(MPRDMA_ABI_DESTROY_QP, handle), 0);
  run(pair, Duration::ms(1));
  EXPECT_EQ(take_completed(pair), std::vector<uint64_t>{2});
}

// Datagrams of a queue pair leave in order, each at the priority of its address handle.
TEST(WorkerPause, ADatagramWaitsForThePriorityOfItsAddress) {
  HostPair pair(obey_by_class);
  DatagramPair datagrams(pair);
  const auto beside = pair.a.make_ud_qp(*pair.cq_a);
  const uint32_t paused = datagrams.address(3);
  const uint32_t free = datagrams.address(0);
  pair.settle();
  pause(pair, 0, PauseFrame::pfc(1 << 3, 1000));
  pair.step();
  datagrams.send(*datagrams.from, free, 1);
  datagrams.send(*datagrams.from, paused, 2);
  datagrams.send(*datagrams.from, free, 3);
  datagrams.send(*beside, free, 4);
  run(pair, Duration::us(400));
  std::vector<uint64_t> early = take_completed(pair);
  std::sort(early.begin(), early.end());
  EXPECT_EQ(early, (std::vector<uint64_t>{1, 4}));
  run(pair, Duration::us(300));
  EXPECT_EQ(take_completed(pair), (std::vector<uint64_t>{2, 3}));
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
