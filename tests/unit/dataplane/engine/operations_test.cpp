// Atomics, windows and invalidation from one ring to the other, in the mode mp and in roce.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "base/ipv4.hpp"
#include "base/prng.hpp"
#include "tests/unit/dataplane/engine/engine_host.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Bytes;
using testing::Host;
using testing::HostCq;
using testing::HostMr;
using testing::HostPair;
using testing::HostQp;

constexpr uint32_t kAllAccess = Host::kAllRights | MPRDMA_ABI_ACCESS_REMOTE_ATOMIC;

mprdma_abi_sge sge(const HostMr& mr, uint32_t offset, uint32_t bytes) {
  return {mr.addr() + offset, bytes, mr.key};
}
uint64_t& word(HostMr& mr, uint32_t offset) {
  return *reinterpret_cast<uint64_t*>(&mr.bytes[offset]);
}

// A requester on host a, a responder on host b that allows everything.
class Operations : public ::testing::TestWithParam<uint32_t> {
 protected:
  Operations() {
    from_ = make(pair_.a, *pair_.cq_a);
    to_ = make(pair_.b, *pair_.cq_b);
    connect(pair_.a, *from_, Host::ip(1), to_->qpn);
    connect(pair_.b, *to_, Host::ip(0), from_->qpn);
    local_ = pair_.a.make_mr(4096);
    remote_ = pair_.b.make_mr(4096, kAllAccess | MPRDMA_ABI_ACCESS_MW_BIND);
  }
  std::unique_ptr<HostQp> make(Host& host, const HostCq& cq) {
    return host.make_qp_with(cq, [](mprdma_abi_create_qp& in) { in.transport.mode = GetParam(); });
  }
  static void connect(Host& host, const HostQp& qp, Ipv4 peer, uint32_t qpn) {
    ASSERT_EQ(host.move_to(qp, MPRDMA_ABI_QPS_INIT), 0);
    mprdma_abi_qp_attr attr = Host::attributes(peer, qpn);
    attr.access = kAllAccess;
    ASSERT_EQ(host.modify(qp, attr), 0);
    ASSERT_EQ(host.move_to(qp, MPRDMA_ABI_QPS_RTR), 0);
    ASSERT_EQ(host.move_to(qp, MPRDMA_ABI_QPS_RTS), 0);
  }
  // Loses one frame of `every`, drawn from a seed.
  void lose(uint32_t per_mille) {
    pair_.wire->on_frame = [this, per_mille](int, const Bytes&) {
      return prng_.below(1000) >= per_mille;
    };
  }
  mprdma_abi_send_wqe& atomic(uint8_t opcode, uint64_t wr_id, uint32_t offset) {
    auto& wqe = pair_.a.begin_send(*from_, opcode, wr_id, {sge(*local_, offset, 8)});
    wqe.remote_addr = remote_->addr();
    wqe.rkey = remote_->key;
    return wqe;
  }
  mprdma_abi_cqe sent() {
    mprdma_abi_cqe cqe{};
    EXPECT_TRUE(pair_.completion(pair_.a, *pair_.cq_a, &cqe));
    return cqe;
  }
  mprdma_abi_cqe received() {
    mprdma_abi_cqe cqe{};
    EXPECT_TRUE(pair_.completion(pair_.b, *pair_.cq_b, &cqe));
    return cqe;
  }

  Prng prng_{20261121};
  HostPair pair_;
  std::unique_ptr<HostQp> from_, to_;
  std::unique_ptr<HostMr> local_, remote_;
};

INSTANTIATE_TEST_SUITE_P(Modes, Operations,
                         ::testing::Values(MPRDMA_ABI_MODE_MP, MPRDMA_ABI_MODE_ROCE));

TEST_P(Operations, AtomicsAreDoneExactlyOnceOnALossyWire) {
  lose(100);
  constexpr uint64_t kRounds = 300;
  std::set<uint64_t> seen;
  uint64_t posted = 0;
  for (uint64_t done = 0; done < kRounds; ++done) {
    for (; posted < kRounds && posted - done < 8; ++posted) {
      atomic(MPRDMA_ABI_FETCH_ADD, posted, static_cast<uint32_t>(posted % 8) * 8).compare_add = 3;
      pair_.a.end_send(*from_);
    }
    const mprdma_abi_cqe cqe = sent();
    ASSERT_EQ(cqe.status, MPRDMA_ABI_WC_SUCCESS);
    ASSERT_EQ(cqe.wr_id, done);
    EXPECT_EQ(cqe.opcode, MPRDMA_ABI_WC_FETCH_ADD);
    EXPECT_EQ(cqe.byte_len, 8u);
    EXPECT_EQ(word(*local_, static_cast<uint32_t>(done % 8) * 8), 3 * done);
  }
  EXPECT_EQ(word(*remote_, 0), 3 * kRounds);
}

TEST_P(Operations, CompareAndSwapReturnsWhatWasThereAndSwapsOnlyOnAMatch) {
  word(*remote_, 0) = 42;
  auto& other = atomic(MPRDMA_ABI_COMPARE_SWAP, 1, 0);
  other.compare_add = 41;
  other.swap = 7;
  pair_.a.end_send(*from_);
  EXPECT_EQ(sent().status, MPRDMA_ABI_WC_SUCCESS);
  EXPECT_EQ(word(*local_, 0), 42u);
  EXPECT_EQ(word(*remote_, 0), 42u);
  auto& match = atomic(MPRDMA_ABI_COMPARE_SWAP, 2, 0);
  match.compare_add = 42;
  match.swap = 7;
  pair_.a.end_send(*from_);
  EXPECT_EQ(sent().opcode, MPRDMA_ABI_WC_COMPARE_SWAP);
  EXPECT_EQ(word(*remote_, 0), 7u);
}

TEST_P(Operations, AtomicWriteIsEightAlignedBytesAndNothingElse) {
  word(*local_, 0) = 0x1122334455667788;
  atomic(MPRDMA_ABI_ATOMIC_WRITE, 1, 0);
  pair_.a.end_send(*from_);
  const mprdma_abi_cqe cqe = sent();
  EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_SUCCESS);
  EXPECT_EQ(cqe.opcode, MPRDMA_ABI_WC_ATOMIC_WRITE);
  EXPECT_EQ(word(*remote_, 0), word(*local_, 0));
  atomic(MPRDMA_ABI_ATOMIC_WRITE, 2, 0).remote_addr += 4;
  pair_.a.end_send(*from_);
  EXPECT_EQ(sent().status, MPRDMA_ABI_WC_LOC_QP_OP_ERR);
}

TEST_P(Operations, SendWithInvalidateClosesTheWindowAndTheReceiverIsTold) {
  mprdma_abi_mw_out mw{};
  ASSERT_EQ(pair_.b.execute(MPRDMA_ABI_ALLOC_MW,
                            mprdma_abi_alloc_mw{pair_.b.pd, MPRDMA_ABI_MW_TYPE_2}, &mw),
            0);
  const uint32_t key = (mw.rkey & ~0xffu) | ((mw.rkey + 1) & 0xff);
  // The responder binds the window by a send request of its own.
  auto& bind = pair_.b.begin_send(*to_, MPRDMA_ABI_BIND_MW, 5, {});
  bind.rkey = mw.rkey;
  bind.imm_or_rkey = key;
  bind.remote_addr = remote_->addr() + 64;
  bind.compare_add = 64;
  bind.swap = remote_->key;
  bind.remote_qkey = MPRDMA_ABI_ACCESS_REMOTE_WRITE;
  pair_.b.end_send(*to_);
  mprdma_abi_cqe cqe = received();
  ASSERT_EQ(cqe.status, MPRDMA_ABI_WC_SUCCESS);
  EXPECT_EQ(cqe.opcode, MPRDMA_ABI_WC_BIND_MW);

  const auto write = [&](uint64_t wr_id) {
    auto& wqe = pair_.a.begin_send(*from_, MPRDMA_ABI_WRITE, wr_id, {sge(*local_, 0, 8)});
    wqe.remote_addr = remote_->addr() + 64;
    wqe.rkey = key;
    pair_.a.end_send(*from_);
    return sent().status;
  };
  word(*local_, 0) = 99;
  ASSERT_EQ(write(1), MPRDMA_ABI_WC_SUCCESS);
  EXPECT_EQ(word(*remote_, 64), 99u);
  EXPECT_EQ(pair_.b.execute(MPRDMA_ABI_DEREG_MR, mprdma_abi_handle{remote_->handle, 0}), EBUSY);

  pair_.b.post_recv(*to_, 6, {});
  pair_.a.begin_send(*from_, MPRDMA_ABI_SEND_INVALIDATE, 2, {}).imm_or_rkey = key;
  pair_.a.end_send(*from_);
  EXPECT_EQ(sent().status, MPRDMA_ABI_WC_SUCCESS);
  cqe = received();
  EXPECT_EQ(cqe.wr_id, 6u);
  EXPECT_NE(cqe.flags & MPRDMA_ABI_CQE_INVALIDATED, 0);
  EXPECT_EQ(cqe.imm_or_rkey, key);
  EXPECT_EQ(write(3), MPRDMA_ABI_WC_REM_ACCESS_ERR);
  EXPECT_EQ(pair_.b.execute(MPRDMA_ABI_DEREG_MR, mprdma_abi_handle{remote_->handle, 0}), 0);
}

TEST_P(Operations, LocalInvalidateClosesTheWindow) {
  mprdma_abi_mw_out mw{};
  ASSERT_EQ(pair_.b.execute(MPRDMA_ABI_ALLOC_MW,
                            mprdma_abi_alloc_mw{pair_.b.pd, MPRDMA_ABI_MW_TYPE_2}, &mw),
            0);
  auto& bind = pair_.b.begin_send(*to_, MPRDMA_ABI_BIND_MW, 5, {});
  bind.rkey = bind.imm_or_rkey = mw.rkey;
  bind.remote_addr = remote_->addr();
  bind.compare_add = 64;
  bind.swap = remote_->key;
  bind.remote_qkey = MPRDMA_ABI_ACCESS_REMOTE_READ;
  pair_.b.end_send(*to_);
  EXPECT_EQ(received().status, MPRDMA_ABI_WC_SUCCESS);
  pair_.b.begin_send(*to_, MPRDMA_ABI_LOCAL_INVALIDATE, 6, {}).imm_or_rkey = mw.rkey;
  pair_.b.end_send(*to_);
  const mprdma_abi_cqe cqe = received();
  EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_SUCCESS);
  EXPECT_EQ(cqe.opcode, MPRDMA_ABI_WC_LOCAL_INVALIDATE);
  EXPECT_EQ(pair_.b.execute(MPRDMA_ABI_DEREG_MR, mprdma_abi_handle{remote_->handle, 0}), 0);
}

TEST_P(Operations, BytesThatWereSentAgainAreCountedApart) {
  lose(100);
  constexpr uint32_t kRounds = 50;
  for (uint32_t i = 0; i < kRounds; ++i) {
    const bool reads = i % 2 == 0;
    auto& wqe = pair_.a.begin_send(*from_, reads ? MPRDMA_ABI_READ : MPRDMA_ABI_WRITE, i,
                                   {sge(*local_, 0, 4000)});
    wqe.remote_addr = remote_->addr();
    wqe.rkey = remote_->key;
    pair_.a.end_send(*from_);
    ASSERT_EQ(sent().status, MPRDMA_ABI_WC_SUCCESS);
  }
  const auto expect_stats = [](Host& host, const HostQp& qp) {
    mprdma_abi_qp_stats stats{};
    const mprdma_abi_handle handle{qp.handle, 0};
    ASSERT_EQ(host.execute(MPRDMA_ABI_QUERY_QP_STATS, handle, &stats), 0);
    EXPECT_EQ(stats.bytes_out, kRounds / 2 * 4000) << "each once";
    EXPECT_GT(stats.bytes_retransmitted, 0u);
  };
  expect_stats(pair_.a, *from_);
  expect_stats(pair_.b, *to_);
}

// Memory that was registered on demand and is not there when it is used.
class OnDemand : public Operations {
 protected:
  static constexpr size_t kBytes = 1 << 16;
  OnDemand()
      : memory_(static_cast<unsigned char*>(
            mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~OnDemand() override { munmap(memory_, kBytes); }
  [[nodiscard]] uint64_t addr() const { return reinterpret_cast<uint64_t>(memory_); }
  uint32_t register_at(Host& host) {
    const mprdma_abi_reg_mr in{addr(), kBytes, addr(), host.pd, kAllAccess, MPRDMA_ABI_MR_ON_DEMAND,
                               0};
    mprdma_abi_reg_mr_out out{};
    EXPECT_EQ(host.execute(MPRDMA_ABI_REG_MR, in, &out), 0);
    return out.lkey;
  }
  void map() { ASSERT_EQ(mprotect(memory_, kBytes, PROT_READ | PROT_WRITE), 0); }
  void write(mprdma_abi_sge from, uint64_t to, uint32_t rkey) {
    auto& wqe = pair_.a.begin_send(*from_, MPRDMA_ABI_WRITE, 1, {from});
    wqe.remote_addr = to;
    wqe.rkey = rkey;
    pair_.a.end_send(*from_);
  }
  static bool has(const Host& host, uint32_t type) {
    return std::ranges::count(host.events, type, &mprdma_abi_event::type) > 0;
  }

  unsigned char* memory_;
};

INSTANTIATE_TEST_SUITE_P(Modes, OnDemand,
                         ::testing::Values(MPRDMA_ABI_MODE_MP, MPRDMA_ABI_MODE_ROCE));

TEST_P(OnDemand, MemoryThatIsThereInTimeIsLikeAnyOther) {
  const uint32_t rkey = register_at(pair_.b);
  map();
  local_->bytes[2999] = 7;
  write(sge(*local_, 0, 3000), addr() + 100, rkey);
  EXPECT_EQ(sent().status, MPRDMA_ABI_WC_SUCCESS);
  EXPECT_EQ(memory_[3099], 7);
  EXPECT_EQ(pair_.b.worker->counters().memory_absent, 0u);
}

TEST_P(OnDemand, WriteToWhatIsNotThereEndsTheQueuePairAndNothingElse) {
  const uint32_t rkey = register_at(pair_.b);
  write(sge(*local_, 0, 3000), addr(), rkey);
  EXPECT_EQ(sent().status, MPRDMA_ABI_WC_REM_ACCESS_ERR);
  EXPECT_EQ(pair_.b.query(*to_).state, uint32_t{MPRDMA_ABI_QPS_ERR});
  EXPECT_TRUE(has(pair_.b, MPRDMA_ABI_EVENT_QP_ACCESS_ERR));
  EXPECT_EQ(pair_.b.worker->counters().memory_absent, 1u);
  pair_.settle();
  EXPECT_EQ(pair_.b.worker->frames_borrowed(), 0u);
}

// The memory was present when the region was made, and for the first packets.
TEST_P(OnDemand, WriteToWhatHasGoneMeanwhileIsRefused) {
  const uint32_t rkey = register_at(pair_.b);
  map();
  local_->bytes[999] = 7;
  write(sge(*local_, 0, 1000), addr(), rkey);
  EXPECT_EQ(sent().status, MPRDMA_ABI_WC_SUCCESS);
  EXPECT_EQ(memory_[999], 7);
  ASSERT_EQ(mprotect(memory_ + 4096, kBytes - 4096, PROT_NONE), 0);
  write(sge(*local_, 0, 3000), addr() + 3072, rkey);
  EXPECT_EQ(sent().status, MPRDMA_ABI_WC_REM_ACCESS_ERR);
}

TEST_P(OnDemand, ReadOfWhatIsNotThereIsRefused) {
  const uint32_t rkey = register_at(pair_.b);
  auto& wqe = pair_.a.begin_send(*from_, MPRDMA_ABI_READ, 1, {sge(*local_, 0, 3000)});
  wqe.remote_addr = addr();
  wqe.rkey = rkey;
  pair_.a.end_send(*from_);
  EXPECT_EQ(sent().status, MPRDMA_ABI_WC_REM_ACCESS_ERR);
  EXPECT_TRUE(has(pair_.b, MPRDMA_ABI_EVENT_QP_ACCESS_ERR));
}

TEST_P(OnDemand, ReadIntoWhatIsNotThereIsALocalError) {
  const uint32_t lkey = register_at(pair_.a);
  auto& wqe = pair_.a.begin_send(*from_, MPRDMA_ABI_READ, 1, {{addr(), 3000, lkey}});
  wqe.remote_addr = remote_->addr();
  wqe.rkey = remote_->key;
  pair_.a.end_send(*from_);
  EXPECT_EQ(sent().status, MPRDMA_ABI_WC_LOC_PROT_ERR);
}

TEST_P(OnDemand, AtomicOnWhatIsNotThereIsRefused) {
  const uint32_t rkey = register_at(pair_.b);
  auto& wqe = atomic(MPRDMA_ABI_FETCH_ADD, 1, 0);
  wqe.remote_addr = addr();
  wqe.rkey = rkey;
  pair_.a.end_send(*from_);
  EXPECT_EQ(sent().status, MPRDMA_ABI_WC_REM_ACCESS_ERR);
}

TEST_P(OnDemand, SendFromWhatIsNotThereIsALocalError) {
  const uint32_t lkey = register_at(pair_.a);
  write({addr(), 3000, lkey}, remote_->addr(), remote_->key);
  write(sge(*local_, 0, 8), remote_->addr(), remote_->key);
  EXPECT_EQ(sent().status, MPRDMA_ABI_WC_LOC_PROT_ERR);
  EXPECT_EQ(sent().status, MPRDMA_ABI_WC_WR_FLUSH_ERR);
}

TEST_P(OnDemand, ReceiveIntoWhatIsNotThereNeverSucceeds) {
  const uint32_t lkey = register_at(pair_.b);
  pair_.b.post_recv(*to_, 3, {{addr(), 100, lkey}});
  pair_.a.begin_send(*from_, MPRDMA_ABI_SEND, 1, {sge(*local_, 0, 100)});
  pair_.a.end_send(*from_);
  const mprdma_abi_cqe cqe = received();
  EXPECT_EQ(cqe.wr_id, 3u);
  EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_LOC_PROT_ERR);
  EXPECT_EQ(sent().status, MPRDMA_ABI_WC_REM_OP_ERR);
}

TEST(SendQueueError, StopsTheSendsOfAnUnreliableConnectionUntilItIsReadyAgain) {
  HostPair pair;
  const auto from =
      pair.a.make_qp_with(*pair.cq_a, [](mprdma_abi_create_qp& in) { in.type = MPRDMA_ABI_QP_UC; });
  const auto to =
      pair.b.make_qp_with(*pair.cq_b, [](mprdma_abi_create_qp& in) { in.type = MPRDMA_ABI_QP_UC; });
  pair.a.connect(*from, Host::ip(1), to->qpn);
  pair.b.connect(*to, Host::ip(0), from->qpn);
  const auto send = [&](uint64_t wr_id, uint32_t lkey) {
    pair.a.begin_send(*from, MPRDMA_ABI_SEND, wr_id, {{pair.mr_a->addr(), 100, lkey}});
    pair.a.end_send(*from);
    mprdma_abi_cqe cqe{};
    EXPECT_TRUE(pair.completion(pair.a, *pair.cq_a, &cqe));
    EXPECT_EQ(cqe.wr_id, wr_id);
    return cqe.status;
  };
  EXPECT_EQ(send(1, pair.mr_a->key + 1), MPRDMA_ABI_WC_LOC_PROT_ERR);
  EXPECT_EQ(pair.a.query(*from).state, uint32_t{MPRDMA_ABI_QPS_SQE});
  EXPECT_EQ(send(2, pair.mr_a->key), MPRDMA_ABI_WC_WR_FLUSH_ERR) << "taken, and flushed";
  ASSERT_EQ(pair.a.move_to(*from, MPRDMA_ABI_QPS_RTS), 0);
  pair.b.post_recv(*to, 9, {sge(*pair.mr_b, 0, 100)});
  EXPECT_EQ(send(3, pair.mr_a->key), MPRDMA_ABI_WC_SUCCESS);
  mprdma_abi_cqe cqe{};
  ASSERT_TRUE(pair.completion(pair.b, *pair.cq_b, &cqe));
  EXPECT_EQ(cqe.wr_id, 9u);
}

TEST(Moderation, EventThatWaitsComesWhenItsTimeIsOverThoughNothingElseHappens) {
  HostPair pair;
  pair.settle();
  ASSERT_EQ(pair.a.execute(MPRDMA_ABI_MODIFY_CQ, mprdma_abi_modify_cq{pair.cq_a->handle, 8, 500}),
            0);
  mprdma_abi_store_release(&pair.cq_a->dbr.arm, 1u << 2 | MPRDMA_ABI_ARM_NEXT);
  auto& wqe = pair.a.begin_send(*pair.qp_a, MPRDMA_ABI_WRITE, 1, {sge(*pair.mr_a, 0, 8)});
  wqe.remote_addr = pair.mr_b->addr();
  wqe.rkey = pair.mr_b->key;
  pair.a.end_send(*pair.qp_a);
  const auto written = [&] { return pair.cq_a->ring[0].sequence == 1; };
  ASSERT_TRUE(pair.run_until(written));
  EXPECT_TRUE(pair.a.events.empty());
  const Time due = pair.a.worker->next_deadline();
  EXPECT_LE(due, pair.a.now + Duration::us(510));
  ASSERT_TRUE(pair.run_until([&] { return !pair.a.events.empty(); }));
  EXPECT_EQ(pair.a.events[0].type, uint32_t{MPRDMA_ABI_EVENT_COMPLETION});
}

TEST(LastReceive, QueuePairOnASharedQueueSaysWhenItTakesNoMore) {
  HostPair pair;
  const auto srq = pair.b.make_srq(8);
  const auto to = pair.b.make_qp_on_srq(*pair.cq_b, *srq);
  pair.b.connect(*to, Host::ip(0), 99);
  srq->post(1, {});
  ASSERT_EQ(pair.b.move_to(*to, MPRDMA_ABI_QPS_ERR), 0);
  const auto last = [&] {
    return std::ranges::count(pair.b.events, uint32_t{MPRDMA_ABI_EVENT_QP_LAST_WQE_REACHED},
                              &mprdma_abi_event::type);
  };
  EXPECT_EQ(last(), 1);
  EXPECT_EQ(srq->left(), 1u) << "what it did not take stays for others";
}

}  // namespace
}  // namespace mprdma::dataplane
