// Queue pairs whose peer is another process of the device, with a direct ring between the two.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "dataplane/engine/config.hpp"
#include "tests/support/print.hpp"
#include "tests/unit/dataplane/engine/engine_host.hpp"
#include "tests/unit/dataplane/engine/scripted_daemon.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Host;
using testing::HostCq;
using testing::HostQp;
using testing::MemoryPort;
using testing::MemoryWire;
using testing::ScriptedDaemon;

// Two processes; one wire is the daemon, the other the ring.
class DirectRingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    daemon_b.its_block = {64, 8};
    daemon_a.its_ring = &ring_a;
    daemon_b.its_ring = &ring_b;
    wire->daemon[0] = &daemon_a;
    wire->daemon[1] = &daemon_b;
    const auto same = [](WorkerConfig& config) {
      config.ipv4 = Host::ip(0);
      config.mac = derived_mac(Host::ip(0));
      config.held_frames = 64;
    };
    a.emplace(wire, 0, same);
    b.emplace(wire, 1, same);
    cq_a = a->make_cq();
    cq_b = b->make_cq();
    qp_a = a->make_qp(*cq_a);
    qp_b = b->make_qp(*cq_b);
    mr_a = a->make_mr(1 << 16);
    mr_b = b->make_mr(1 << 16);
    wire->on_frame = [this](int, const testing::Bytes&) {
      ++by_daemon;
      return !daemon_loses;
    };
    ring->on_frame = [this](int, const testing::Bytes&) {
      ++by_ring;
      return !ring_loses;
    };
  }
  void connect() {
    a->connect(*qp_a, Host::ip(0), qp_b->qpn);
    b->connect(*qp_b, Host::ip(0), qp_a->qpn);
  }
  void set_ring(bool up) {
    ring_a.up = ring_b.up = up;
    ++daemon_a.its_changes;
    ++daemon_b.its_changes;
    a->worker->service(a->now);
    b->worker->service(b->now);
  }
  void set_state(RingState state) { daemon_a.its_ring_state = daemon_b.its_ring_state = state; }
  void step() {
    a->now = b->now = a->now + Duration::us(10);
    a->worker->run(a->now);
    b->worker->run(b->now);
  }
  void go_on(Duration time) {
    for (const Time end = a->now + time; a->now < end;) step();
  }
  void post(uint32_t bytes = 16) {
    auto& wqe = a->begin_send(*qp_a, MPRDMA_ABI_WRITE, 1, {{mr_a->addr(), bytes, mr_a->key}});
    wqe.remote_addr = mr_b->addr();
    wqe.rkey = mr_b->key;
    a->end_send_silently(*qp_a);
    a->worker->run_sends(qp_a->doorbell, a->now);
  }
  // Something has changed with a ring to somebody else.
  void hear_of_other_rings() {
    ++daemon_a.its_changes;
    a->worker->service(a->now);
  }
  void read_from_a() { read(*b, *qp_b, *mr_b, *mr_a); }
  void read_from_b() { read(*a, *qp_a, *mr_a, *mr_b); }
  void reads_change_to_a_late_ring(bool both_read);
  bool completes() {
    mprdma_abi_cqe cqe{};
    for (int i = 0; i < 10'000; ++i) {
      if (cq_a->poll(&cqe)) return cqe.status == MPRDMA_ABI_WC_SUCCESS;
      step();
    }
    return false;
  }

  std::shared_ptr<MemoryWire> wire = std::make_shared<MemoryWire>();
  std::shared_ptr<MemoryWire> ring = std::make_shared<MemoryWire>();
  DirectRing ring_a{QpBlock{64, 8},
                    std::make_unique<MemoryPort>(ring, 0, derived_mac(Host::ip(0)))};
  DirectRing ring_b{QpBlock{16, 8},
                    std::make_unique<MemoryPort>(ring, 1, derived_mac(Host::ip(0)))};
  ScriptedDaemon daemon_a;
  ScriptedDaemon daemon_b;
  uint64_t by_daemon = 0;
  uint64_t by_ring = 0;
  static void read(Host& host, HostQp& qp, const testing::HostMr& to, const testing::HostMr& from) {
    constexpr uint32_t kBytes = 1 << 16;
    auto& wqe = host.begin_send(qp, MPRDMA_ABI_READ, 1, {{to.addr(), kBytes, to.key}});
    wqe.remote_addr = from.addr();
    wqe.rkey = from.key;
    host.end_send(qp);
  }

  bool daemon_loses = false;
  bool ring_loses = false;
  std::optional<Host> a;
  std::optional<Host> b;
  std::unique_ptr<HostCq> cq_a, cq_b;
  std::unique_ptr<HostQp> qp_a, qp_b;
  std::unique_ptr<testing::HostMr> mr_a, mr_b;
};

TEST_F(DirectRingTest, NewQueuePairWaitsForItsRingAndThenUsesNothingElse) {
  set_state(RingState::kComing);
  connect();
  EXPECT_EQ(daemon_a.rings_asked, 1u);
  post(5000);
  go_on(Duration::ms(40));
  EXPECT_EQ(by_daemon, 0u);
  set_ring(true);
  ASSERT_TRUE(completes());
  EXPECT_EQ(by_daemon, 0u);
  EXPECT_GE(by_ring, 6u);
  EXPECT_EQ(ring_a.users, 1u);
  EXPECT_EQ(ring_b.users, 1u);
  EXPECT_EQ(a->move_to(*qp_a, MPRDMA_ABI_QPS_RESET), 0);
  EXPECT_EQ(ring_a.users, 0u);
}

TEST_F(DirectRingTest, WaitsForAShortTimeOnly) {
  set_state(RingState::kComing);
  connect();
  post();
  ASSERT_TRUE(completes()) << "by the daemon, after 50 ms";
  EXPECT_GT(by_daemon, 0u);
  EXPECT_GE(a->now - Time::from_ns(1'000'000), Duration::ms(50));
}

TEST_F(DirectRingTest, RefusedRingIsNotWaitedFor) {
  connect();
  const Time before = a->now;
  post();
  ASSERT_TRUE(completes());
  EXPECT_LT(a->now - before, Duration::ms(1));
  EXPECT_GT(by_daemon, 0u);
}

TEST_F(DirectRingTest, ChangesItsWayOnlyWithNothingOutstanding) {
  connect();
  daemon_loses = true;
  post();
  go_on(Duration::us(100));
  ASSERT_GT(by_daemon, 0u);
  set_ring(true);
  go_on(Duration::ms(2));
  EXPECT_EQ(ring_a.users, 0u) << "a packet is on its way by the daemon";
  daemon_loses = false;
  ASSERT_TRUE(completes());
  step();
  EXPECT_EQ(ring_a.users, 1u);
  const uint64_t before = by_daemon;
  post();
  ASSERT_TRUE(completes());
  EXPECT_EQ(by_daemon, before);
}

TEST_F(DirectRingTest, BusyQueuePairTakesNoRequestsUntilItCanChangeToALateRing) {
  connect();
  constexpr int kDepth = 8;  // outstanding at any time
  constexpr int kMessages = 400;
  int posted = 0;
  int done = 0;
  uint64_t by_daemon_at_end = 0;
  for (; posted < kDepth; ++posted) {
    post();
    if (posted == kDepth / 2) step();  // completions of one half come while the other is under way
  }
  for (mprdma_abi_cqe cqe{}; done < kMessages && a->now < Time() + Duration::s(1); step()) {
    if (done > kMessages / 4) hear_of_other_rings();
    for (; cq_a->poll(&cqe); ++done) {
      ASSERT_EQ(cqe.status, uint32_t{MPRDMA_ABI_WC_SUCCESS});
      if (posted < kMessages) post(), ++posted;
      if (done == kMessages / 4) set_ring(true), set_state(RingState::kUp);
      if (done == kMessages / 2) by_daemon_at_end = by_daemon;
    }
  }
  EXPECT_EQ(done, kMessages);
  EXPECT_GT(by_daemon_at_end, 0u);
  EXPECT_EQ(by_daemon, by_daemon_at_end) << "all of the second half by the ring";
  EXPECT_EQ(a->worker->transport_counters().packets_retransmitted, 0u);
}

TEST_F(DirectRingTest, AnErrorDoesNotWaitForTheRestAfterAChange) {
  connect();
  for (int i = 0; i < 8; ++i) {
    post();
    if (i == 3) step();
  }
  set_state(RingState::kUp);
  set_ring(true);
  post();  // waits
  mprdma_abi_cqe cqe{};
  for (int done = 0; done < 8; step()) {
    for (; cq_a->poll(&cqe); ++done) ASSERT_EQ(cqe.status, uint32_t{MPRDMA_ABI_WC_SUCCESS});
    ASSERT_LT(a->now, Time() + Duration::s(1));
  }
  EXPECT_EQ(ring_a.users, 1u);
  go_on(Duration::ms(10));
  ASSERT_FALSE(cq_a->poll(&cqe)) << "it rests";
  EXPECT_EQ(a->move_to(*qp_a, MPRDMA_ABI_QPS_ERR), 0);
  step();
  ASSERT_TRUE(cq_a->poll(&cqe));
  EXPECT_EQ(cqe.status, uint32_t{MPRDMA_ABI_WC_WR_FLUSH_ERR});
}

// A peer that reads all the time never leaves this side without answers to send.
TEST_F(DirectRingTest, RequestsAreNotHeldForLongForAnswersThatDoNotEnd) {
  connect();
  for (int i = 0; i < 8; ++i) read_from_a();
  post();
  go_on(Duration::us(20));
  ring_a.up = true;  // only this process has it
  daemon_a.its_ring_state = RingState::kUp;
  ++daemon_a.its_changes;
  a->worker->service(a->now);
  int pauses = 0;
  Time last_done = a->now;
  for (const Time end = a->now + Duration::ms(150); a->now < end; step()) {
    mprdma_abi_cqe cqe{};
    for (; cq_b->poll(&cqe); read_from_a()) ASSERT_EQ(cqe.status, uint32_t{MPRDMA_ABI_WC_SUCCESS});
    if (!cq_a->poll(&cqe)) continue;
    ASSERT_EQ(cqe.status, uint32_t{MPRDMA_ABI_WC_SUCCESS});
    EXPECT_LT(a->now - last_done, Duration::ms(55));
    if (a->now - last_done > Duration::ms(1)) ++pauses;
    last_done = a->now;
    post();
  }
  EXPECT_EQ(pauses, 1) << "the next try comes a second later";
  EXPECT_LT(a->now - last_done, Duration::ms(1));
}

// One end hears of the ring after the other.
void DirectRingTest::reads_change_to_a_late_ring(bool both_read) {
  connect();
  if (both_read) {
    for (int i = 0; i < 8; ++i) read_from_b();
  }
  for (int i = 0; i < 8; ++i) read_from_a();
  const auto stream = [&](Duration time) {
    for (const Time end = a->now + time; a->now < end; step()) {
      for (mprdma_abi_cqe cqe{}; cq_a->poll(&cqe);) read_from_b();
      for (mprdma_abi_cqe cqe{}; cq_b->poll(&cqe);) read_from_a();
    }
  };
  stream(Duration::us(100));
  ring_a.up = ring_b.up = true;
  set_state(RingState::kUp);
  ++daemon_b.its_changes;
  b->worker->service(b->now);
  stream(Duration::ms(10));
  ++daemon_a.its_changes;
  a->worker->service(a->now);
  stream(Duration::ms(80));
  EXPECT_EQ(ring_a.users, 1u);
  EXPECT_EQ(ring_b.users, 1u);
  const uint64_t daemon_before = by_daemon;
  const uint64_t ring_before = by_ring;
  stream(Duration::ms(1));
  EXPECT_EQ(by_daemon, daemon_before);
  EXPECT_GT(by_ring, ring_before);
}

TEST_F(DirectRingTest, WhoAnswersReadsChangesToALateRing) {
  reads_change_to_a_late_ring(false);
}

TEST_F(DirectRingTest, TwoWhoReadFromEachOtherChangeToALateRing) {
  reads_change_to_a_late_ring(true);
}

TEST_F(DirectRingTest, RingThatGoesDownIsLeftAndWhatItLostIsRepeated) {
  set_ring(true);
  connect();
  ring_loses = true;
  post(5000);
  go_on(Duration::us(100));
  ASSERT_GT(by_ring, 0u);
  ASSERT_EQ(by_daemon, 0u);
  set_ring(false);
  ASSERT_TRUE(completes());
  EXPECT_GT(by_daemon, 0u);
  EXPECT_EQ(ring_a.users, 0u);
  EXPECT_EQ(ring_b.users, 0u);
}

TEST_F(DirectRingTest, OneDirectionHasOneWayWhateverTheOtherUses) {
  set_ring(true);
  connect();
  ring_b.up = false;  // b has not seen it come up: it answers by the daemon
  ++daemon_b.its_changes;
  b->worker->service(b->now);
  ring_b.up = true;  // but reads it
  post();
  ASSERT_TRUE(completes());
  EXPECT_EQ(ring_b.users, 0u);
  EXPECT_GT(by_ring, 0u);
  EXPECT_GT(by_daemon, 0u);
}

TEST_F(DirectRingTest, FullRingTakesNoTurnsOfOthersAndGoesOn) {
  constexpr int kBlocked = 40;
  set_ring(true);
  connect();
  std::vector<std::unique_ptr<HostQp>> blocked;
  for (int i = 0; i < kBlocked; ++i) {
    blocked.push_back(a->make_qp(*cq_a));
    a->connect(*blocked.back(), Host::ip(0), qp_b->qpn);
  }
  const auto by_port = a->make_qp(*cq_a);  // its peer is in a block without a ring
  a->connect(*by_port, Host::ip(0), 0x800002);
  const auto write = [&](HostQp& qp) {
    auto& wqe = a->begin_send(qp, MPRDMA_ABI_WRITE, 1, {{mr_a->addr(), 16, mr_a->key}});
    wqe.remote_addr = mr_b->addr();
    wqe.rkey = mr_b->key;
    a->end_send(qp);
  };
  ring->room = 0;
  for (const auto& qp : blocked) write(*qp);
  post();
  go_on(Duration::us(200));
  ASSERT_EQ(by_ring, 0u);
  EXPECT_TRUE(a->worker->wants_wire());
  const uint64_t before = by_daemon;
  write(*by_port);
  step();
  EXPECT_EQ(by_daemon, before + 1) << "in the first burst";
  a->execute(MPRDMA_ABI_DESTROY_QP, mprdma_abi_handle{blocked.back()->handle, 0});
  ring->room = 1024;
  ASSERT_TRUE(completes());
  go_on(Duration::us(200));
  EXPECT_GE(by_ring, static_cast<uint64_t>(kBlocked)) << "each of the others";
}

// Takes frames off one way, changes them, and puts them into the ring.
class HostileRingTest : public DirectRingTest {
 protected:
  // What a sends to b, as it would leave in this moment.
  testing::Bytes frame_of_a() {
    testing::Bytes copy;
    ring->on_frame = [&](int side, const testing::Bytes& frame) {
      if (side == 0 && copy.empty()) copy = frame;
      return false;
    };
    post();
    step();
    return copy;
  }
  uint64_t accepted() { return b->worker->counters().payload_bytes_in; }
  uint64_t refused() { return b->worker->counters().drop_wrong_source; }
  void inject(const testing::Bytes& frame) {
    ring->inject(1, frame);
    step();
  }
};

TEST_F(HostileRingTest, OnlyThePeersOwnQueuePairsAreReached) {
  set_ring(true);
  connect();
  const testing::Bytes frame = frame_of_a();
  ASSERT_FALSE(frame.empty());
  // The ring's other end turns out to be a third process.
  ring_b.peers = {128, 8};
  inject(frame);
  EXPECT_EQ(accepted(), 0u);
  EXPECT_EQ(refused(), 1u);
  ring_b.peers = {16, 8};
  inject(frame);
  EXPECT_EQ(accepted(), 16u) << "the same frame from the process that may send it";
}

TEST_F(HostileRingTest, NeighboursGroupsAndManagementAreNotForRings) {
  set_ring(true);
  connect();
  const testing::Bytes frame = frame_of_a();
  ASSERT_GT(frame.size(), 60u);
  testing::Bytes arp(60, 0);
  arp[12] = 0x08;
  arp[13] = 0x06;
  inject(arp);
  EXPECT_EQ(b->worker->counters().arp_received, 0u);
  testing::Bytes management = frame;
  // BTH follows Ethernet, IPv4 and UDP; the destination queue pair is its bytes 5 to 7.
  management[14 + 20 + 8 + 5] = management[14 + 20 + 8 + 6] = 0;
  management[14 + 20 + 8 + 7] = 1;
  inject(management);
  EXPECT_EQ(b->worker->counters().drop_unknown_qp, 1u);
  const auto datagrams =
      b->make_qp_with(*cq_b, [](mprdma_abi_create_qp& in) { in.type = MPRDMA_ABI_QP_UD; });
  testing::Bytes to_ud = frame;
  to_ud[14 + 20 + 8 + 5] = static_cast<unsigned char>(datagrams->qpn >> 16);
  to_ud[14 + 20 + 8 + 6] = static_cast<unsigned char>(datagrams->qpn >> 8);
  to_ud[14 + 20 + 8 + 7] = static_cast<unsigned char>(datagrams->qpn);
  inject(to_ud);
  EXPECT_EQ(refused(), 1u);
  EXPECT_EQ(accepted(), 0u);
}

}  // namespace
}  // namespace mprdma::dataplane
