// Objects that come and go leave nothing behind: ten thousand of each kind, used, destroyed.
#include <malloc.h>

#include <algorithm>

#include "tests/unit/dataplane/engine/engine_host.hpp"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MPRDMA_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define MPRDMA_ASAN 1
#endif
#ifdef MPRDMA_ASAN
extern "C" size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace mprdma::dataplane {
namespace {

using testing::Host;
using testing::HostCq;
using testing::HostPair;
using testing::HostQp;
using testing::HostSrq;

size_t allocated_bytes() {
#ifdef MPRDMA_ASAN
  return __sanitizer_get_current_allocated_bytes();
#else
  return mallinfo2().uordblks;
#endif
}

constexpr int kCycles = 10'000;

class Lifetime : public ::testing::Test {
 protected:
  // Objects of host a; the pair keeps what they need.
  template <class Cycle>
  void expect_no_growth(Cycle&& cycle) {
    for (int i = 0; i < kCycles / 10; ++i) cycle(i);
    pair_.settle(5);
    const size_t before = allocated_bytes();
    const uint32_t regions = pair_.a.worker->mrs().in_use();
    for (int i = 0; i < kCycles; ++i) cycle(i);
    pair_.settle(5);
    EXPECT_LE(allocated_bytes(), before + 65536) << "bytes of 10 000 objects";
    EXPECT_EQ(pair_.a.worker->mrs().in_use(), regions);
    EXPECT_EQ(pair_.a.worker->qps().in_use(), 1u);
    EXPECT_EQ(pair_.a.worker->srqs().in_use(), 0u);
    EXPECT_EQ(pair_.a.worker->ahs().in_use(), 0u);
    EXPECT_EQ(pair_.a.worker->frames_borrowed(), 0u);
    EXPECT_FALSE(pair_.a.worker->busy());
    // Nothing refers to the pair's own objects any more, so they can be destroyed, too.
    Host& a = pair_.a;
    destroy(MPRDMA_ABI_DESTROY_QP, pair_.qp_a->handle);
    destroy(MPRDMA_ABI_DESTROY_CQ, pair_.cq_a->handle);
    destroy(MPRDMA_ABI_DEREG_MR, pair_.mr_a->handle);
    EXPECT_EQ(a.execute(MPRDMA_ABI_FREE_PD, mprdma_abi_handle{a.pd, 0}), 0);
  }
  void destroy(uint32_t command, uint32_t handle) {
    ASSERT_EQ(pair_.a.execute(command, mprdma_abi_handle{handle, 0}), 0) << command;
  }
  // Makes a queue pair of this type over existing rings.
  uint32_t make_qp(uint32_t type, uint32_t xrcd = 0, uint32_t srq = 0) {
    mprdma_abi_create_qp in = pair_.a.describe(rings_, *pair_.cq_a);
    in.type = type;
    in.srq = srq;
    rings_.sq = rings_.rq = {};
    if (type == MPRDMA_ABI_QP_XRC_SEND) in.recv_cq = 0;
    if (type == MPRDMA_ABI_QP_XRC_RECV) {
      in.pd = in.send_cq = in.recv_cq = 0;
      in.sq = {};
      in.xrcd = xrcd;
    }
    if (type == MPRDMA_ABI_QP_XRC_SEND || type == MPRDMA_ABI_QP_XRC_RECV || srq != 0) in.rq = {};
    mprdma_abi_create_qp_out out{};
    EXPECT_EQ(pair_.a.execute(MPRDMA_ABI_CREATE_QP, in, &out), 0);
    rings_.handle = out.handle;
    rings_.qpn = out.qpn;
    rings_.doorbell = out.doorbell;
    return out.handle;
  }
  // Some queue pairs are connected and have work that nobody answers.
  void use_qp(int i, uint32_t type, uint32_t xrcd) {
    const uint32_t handle = make_qp(type, type == MPRDMA_ABI_QP_XRC_RECV ? xrcd : 0);
    if (i % 3 == 0) {
      pair_.a.connect(rings_, Host::ip(1), 0x00abcd);
      if (type != MPRDMA_ABI_QP_XRC_RECV && type != MPRDMA_ABI_QP_UD) {
        auto& wqe = pair_.a.begin_send(rings_, MPRDMA_ABI_WRITE, 1,
                                       {{pair_.mr_a->addr(), 3000, pair_.mr_a->key}});
        wqe.remote_addr = 64;
        pair_.a.end_send(rings_);
        pair_.step();
      }
      if (i % 2 == 0) pair_.a.move_to(rings_, MPRDMA_ABI_QPS_ERR);
    }
    destroy(MPRDMA_ABI_DESTROY_QP, handle);
    drain();
    pair_.a.events.clear();
  }
  void drain() {
    mprdma_abi_cqe cqe;
    while (pair_.cq_a->poll(&cqe)) {
    }
  }

  HostPair pair_;
  HostQp rings_;
};

TEST_F(Lifetime, QueuePairsOfEveryType) {
  const uint32_t xrcd = pair_.a.out_handle(MPRDMA_ABI_ALLOC_XRCD);
  constexpr uint32_t kTypes[] = {MPRDMA_ABI_QP_RC, MPRDMA_ABI_QP_UC, MPRDMA_ABI_QP_UD,
                                 MPRDMA_ABI_QP_XRC_SEND, MPRDMA_ABI_QP_XRC_RECV};
  expect_no_growth([&](int i) {
    for (const uint32_t type : kTypes) use_qp(i, type, xrcd);
  });
  EXPECT_EQ(pair_.a.execute(MPRDMA_ABI_FREE_XRCD, mprdma_abi_handle{xrcd, 0}), 0);
}

TEST_F(Lifetime, DomainsRegionsAndWindows) {
  std::vector<unsigned char> memory(4096);
  const auto base = reinterpret_cast<uint64_t>(memory.data());
  expect_no_growth([&](int i) {
    Host& a = pair_.a;
    const uint32_t pd = a.out_handle(MPRDMA_ABI_ALLOC_PD);
    const uint32_t flags = i % 3 == 0 ? MPRDMA_ABI_MR_ON_DEMAND : 0;
    const mprdma_abi_reg_mr mr{base,
                               memory.size(),
                               base,
                               pd,
                               MPRDMA_ABI_ACCESS_LOCAL_WRITE | MPRDMA_ABI_ACCESS_MW_BIND,
                               flags,
                               0};
    mprdma_abi_reg_mr_out region{};
    ASSERT_EQ(a.execute(MPRDMA_ABI_REG_MR, mr, &region), 0);
    mprdma_abi_mw_out window{};
    const uint32_t type = 1 + static_cast<uint32_t>(i) % 2;
    ASSERT_EQ(a.execute(MPRDMA_ABI_ALLOC_MW, mprdma_abi_alloc_mw{pd, type}, &window), 0);
    transport::WindowBind bind;
    bind.pd = pd;
    bind.qpn = Qpn(5);
    bind.window = Key(window.rkey);
    bind.new_key = Key((window.rkey & ~0xffu) | ((window.rkey + 1) & 0xff));
    bind.region = Key(region.lkey);
    bind.access = transport::kRemoteRead;
    bind.addr = base;
    bind.length = 100;
    ASSERT_EQ(a.worker->mrs().memory().bind(bind), transport::BindError::kNone);
    destroy(MPRDMA_ABI_DEALLOC_MW, window.handle);
    const mprdma_abi_rereg_mr again{region.handle, MPRDMA_ABI_REREG_ACCESS, {}};
    ASSERT_EQ(a.execute(MPRDMA_ABI_REREG_MR, again, &region), 0);
    destroy(MPRDMA_ABI_DEREG_MR, region.handle);
    destroy(MPRDMA_ABI_FREE_PD, pd);
  });
}

TEST_F(Lifetime, CompletionQueuesAndSharedQueues) {
  HostCq ring(16);
  HostSrq shared(16);
  expect_no_growth([&](int i) {
    Host& a = pair_.a;
    mprdma_abi_create_cq cq_in{};
    cq_in.ring = reinterpret_cast<uint64_t>(ring.ring.data());
    cq_in.dbr = reinterpret_cast<uint64_t>(&ring.dbr);
    cq_in.depth = 16;
    mprdma_abi_handle cq{};
    ASSERT_EQ(a.execute(MPRDMA_ABI_CREATE_CQ, cq_in, &cq), 0);
    const uint32_t xrcd = a.out_handle(MPRDMA_ABI_ALLOC_XRCD);
    mprdma_abi_create_srq in = a.describe_srq(shared);
    shared.dbr = {};
    mprdma_abi_srq_out basic{};
    ASSERT_EQ(a.execute(MPRDMA_ABI_CREATE_SRQ, in, &basic), 0);
    in.type = MPRDMA_ABI_SRQ_XRC;
    in.recv_cq = cq.handle;
    in.xrcd = xrcd;
    mprdma_abi_srq_out xrc{};
    ASSERT_EQ(a.execute(MPRDMA_ABI_CREATE_SRQ, in, &xrc), 0);
    const uint32_t user = make_qp(MPRDMA_ABI_QP_RC, 0, basic.handle);
    const mprdma_abi_modify_srq moved{basic.handle, MPRDMA_ABI_SRQ_RING | MPRDMA_ABI_SRQ_LIMIT,
                                      static_cast<uint32_t>(i) % 8, 0, shared.queue()};
    ASSERT_EQ(a.execute(MPRDMA_ABI_MODIFY_SRQ, moved), 0);
    destroy(MPRDMA_ABI_DESTROY_QP, user);
    destroy(MPRDMA_ABI_DESTROY_SRQ, basic.handle);
    destroy(MPRDMA_ABI_DESTROY_SRQ, xrc.handle);
    destroy(MPRDMA_ABI_FREE_XRCD, xrcd);
    destroy(MPRDMA_ABI_DESTROY_CQ, cq.handle);
    a.events.clear();
  });
}

TEST_F(Lifetime, AddressHandlesAndGroups) {
  const uint32_t handle = make_qp(MPRDMA_ABI_QP_UD);
  mprdma_abi_mcast group{};
  group.qp = handle;
  group.mgid[0] = 0xff;
  group.mgid[1] = 0x0e;
  const auto cycle = [&](int i) {
    Host& a = pair_.a;
    mprdma_abi_create_ah in{};
    in.pd = a.pd;
    in.sgid_index = 1;
    const wire::IpAddress gid = wire::map_ipv4(Host::ip(1));
    std::memcpy(in.dgid, gid.data(), gid.size());
    mprdma_abi_handle ah{};
    ASSERT_EQ(a.execute(MPRDMA_ABI_CREATE_AH, in, &ah), 0);
    destroy(MPRDMA_ABI_DESTROY_AH, ah.handle);
    group.mgid[15] = static_cast<uint8_t>(i);
    ASSERT_EQ(a.execute(MPRDMA_ABI_ATTACH_MCAST, group), 0);
    ASSERT_EQ(a.execute(MPRDMA_ABI_DETACH_MCAST, group), 0);
  };
  for (int i = 0; i < kCycles / 10; ++i) cycle(i);
  const size_t before = allocated_bytes();
  for (int i = 0; i < kCycles; ++i) cycle(i);
  EXPECT_LE(allocated_bytes(), before + 65536);
  EXPECT_EQ(pair_.a.worker->ahs().in_use(), 0u);
  destroy(MPRDMA_ABI_DESTROY_QP, handle);
}

// A closed context takes its regions along, even if another context's window is bound to one of
// them; the window opens nothing from then on.
TEST_F(Lifetime, RegionOfAClosedContextGoesThoughAWindowIsBoundToIt) {
  Host& a = pair_.a;
  transport::MemoryTable& memory = a.worker->mrs().memory();
  const auto mr = a.make_mr(4096, Host::kAllRights | MPRDMA_ABI_ACCESS_MW_BIND);
  for (const uint32_t type : {MPRDMA_ABI_MW_TYPE_1, MPRDMA_ABI_MW_TYPE_2}) {
    mprdma_abi_mw_out window{};
    ASSERT_EQ(a.execute(MPRDMA_ABI_ALLOC_MW, mprdma_abi_alloc_mw{a.pd, type}, &window), 0);
    transport::WindowBind bind{
        .pd = a.pd, .qpn = Qpn(5), .window = Key(window.rkey), .region = Key(mr->key)};
    bind.new_key = Key((window.rkey & ~0xffu) | ((window.rkey + 1) & 0xff));
    bind.access = transport::kRemoteRead;
    bind.addr = mr->addr();
    bind.length = 100;
    ASSERT_EQ(memory.bind(bind), transport::BindError::kNone);
    uint64_t addr = 0;
    ASSERT_TRUE(memory.translate_remote(bind.new_key, a.pd, Qpn(5), mr->addr(), 8,
                                        transport::kRemoteRead, &addr));
    if (type == MPRDMA_ABI_MW_TYPE_1) continue;
    const mprdma_abi_handle as_asked{mr->handle, 0};
    EXPECT_EQ(a.execute(MPRDMA_ABI_DEREG_MR, as_asked), EBUSY);
    const mprdma_abi_handle as_left{mr->handle, MPRDMA_ABI_DEREG_UNBINDS};
    EXPECT_EQ(a.execute(MPRDMA_ABI_DEREG_MR, as_left), 0);
    EXPECT_FALSE(memory.translate_remote(bind.new_key, a.pd, Qpn(5), mr->addr(), 8,
                                         transport::kRemoteRead, &addr));
    memory.forget_queue_pair(Qpn(5));
  }
  EXPECT_EQ(a.worker->mrs().in_use(), 3u) << "two windows, and the region that was there before";
  a.forget_client();
  EXPECT_EQ(a.worker->mrs().in_use(), 0u);
}

TEST_F(Lifetime, ClientThatGoesTakesAllWithIt) {
  Host& a = pair_.a;
  const uint32_t xrcd = a.out_handle(MPRDMA_ABI_ALLOC_XRCD);
  const auto xrc = a.make_srq(16, xrcd, pair_.cq_a->handle);
  const auto basic = a.make_srq(16);
  const auto user = a.make_qp_on_srq(*pair_.cq_a, *basic);
  make_qp(MPRDMA_ABI_QP_XRC_RECV, xrcd);
  mprdma_abi_mw_out window{};
  ASSERT_EQ(a.execute(MPRDMA_ABI_ALLOC_MW, mprdma_abi_alloc_mw{a.pd, 1}, &window), 0);
  a.forget_client();
  EXPECT_EQ(a.worker->qps().in_use(), 0u);
  EXPECT_EQ(a.worker->mrs().in_use(), 0u);
  EXPECT_EQ(a.worker->srqs().in_use(), 0u);
  EXPECT_EQ(a.execute(MPRDMA_ABI_FREE_XRCD, mprdma_abi_handle{xrcd, 0}), EINVAL);
  pair_.settle();
}

}  // namespace
}  // namespace mprdma::dataplane
