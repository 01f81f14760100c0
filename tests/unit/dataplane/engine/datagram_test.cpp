// Unreliable datagrams through the queue ABI: address handles, groups, what a peer's frame brings.
#include <algorithm>
#include <cerrno>
#include <numeric>

#include "base/ipv4.hpp"
#include "dataplane/worker/worker.hpp"
#include "tests/support/print.hpp"
#include "tests/unit/dataplane/engine/engine_host.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Bytes;
using testing::Host;
using testing::HostCq;
using testing::HostMr;
using testing::HostQp;
using testing::MemoryWire;

constexpr uint32_t kQkey = Host::kQkey;
constexpr Ipv4 kGroup{0xe0000107};  // 224.0.1.7

mprdma_abi_create_ah address(uint32_t pd, const wire::IpAddress& gid) {
  mprdma_abi_create_ah ah{};
  ah.pd = pd;
  ah.sgid_index = 1;
  std::memcpy(ah.dgid, gid.data(), gid.size());
  return ah;
}

// A host with one UD queue pair that is ready, and memory that is open.
struct Node {
  Node(const std::shared_ptr<MemoryWire>& wire, int side) : host(wire, side) {
    cq = host.make_cq();
    mr = host.make_mr(16384);
    qp = make_qp();
  }
  std::unique_ptr<HostQp> make_qp(uint32_t flags = 0) { return host.make_ud_qp(*cq, flags); }
  uint32_t make_ah(const wire::IpAddress& gid) {
    mprdma_abi_handle out{};
    EXPECT_EQ(host.execute(MPRDMA_ABI_CREATE_AH, address(host.pd, gid), &out), 0);
    return out.handle;
  }
  int destroy_ah(uint32_t handle) {
    return host.execute(MPRDMA_ABI_DESTROY_AH, mprdma_abi_handle{handle, 0});
  }
  int mcast(uint32_t command, const HostQp& of, Ipv4 group) {
    mprdma_abi_mcast in{};
    in.qp = of.handle;
    const wire::IpAddress gid = wire::map_ipv4(group);
    std::memcpy(in.mgid, gid.data(), gid.size());
    return host.execute(command, in);
  }
  void send(uint32_t ah, uint32_t to, uint32_t bytes, uint64_t wr_id = 1) {
    auto& wqe = host.begin_send(*qp, MPRDMA_ABI_SEND, wr_id, {{mr->addr(), bytes, mr->key}});
    wqe.ah = ah;
    wqe.remote_qpn = to;
    wqe.remote_qkey = kQkey;
    host.end_send(*qp);
  }
  void post_recv(HostQp& to, uint64_t wr_id, uint64_t offset = 8192) {
    host.post_recv(to, wr_id, {{mr->addr() + offset, 4096, mr->key}});
  }
  EngineCounters& counters() { return host.worker->counters(); }

  Host host;
  std::unique_ptr<HostCq> cq;
  std::unique_ptr<HostMr> mr;
  std::unique_ptr<HostQp> qp;
};

class DatagramTest : public ::testing::Test {
 protected:
  // Runs bursts on both sides until both have been idle for a while.
  void run() {
    for (int i = 0; i < 100; ++i) {
      a.host.now = b.host.now = a.host.now + Duration::us(5);
      a.host.worker->run(a.host.now);
      b.host.worker->run(b.host.now);
    }
  }
  static std::vector<mprdma_abi_cqe> completions(Node& node) {
    std::vector<mprdma_abi_cqe> all;
    mprdma_abi_cqe cqe;
    while (node.cq->poll(&cqe)) all.push_back(cqe);
    return all;
  }

  std::shared_ptr<MemoryWire> wire = std::make_shared<MemoryWire>();
  Node a{wire, 0};
  Node b{wire, 1};
};

TEST_F(DatagramTest, ADatagramReachesAnyPeerAndBringsItsIpHeader) {
  std::iota(a.mr->bytes.begin(), a.mr->bytes.begin() + 1000, 7);
  const uint32_t ah = a.make_ah(b.host.worker->gid(1));
  b.post_recv(*b.qp, 5);
  a.send(ah, b.qp->qpn, 1000, 77);
  run();
  const auto sent = completions(a);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].wr_id, 77u);
  EXPECT_EQ(sent[0].status, MPRDMA_ABI_WC_SUCCESS);
  const auto received = completions(b);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].wr_id, 5u);
  EXPECT_EQ(received[0].byte_len, 1040u);
  EXPECT_EQ(received[0].src_qpn, a.qp->qpn);
  EXPECT_NE(received[0].flags & MPRDMA_ABI_CQE_GRH, 0);
  const unsigned char* grh = &b.mr->bytes[8192];
  EXPECT_TRUE(std::all_of(grh, grh + 20, [](unsigned char byte) { return byte == 0; }));
  const wire::Ipv4Header ip = wire::Ipv4Header::load(grh + 20);
  EXPECT_EQ(ip.src, Host::ip(0));
  EXPECT_EQ(ip.dst, Host::ip(1));
  EXPECT_TRUE(std::equal(&a.mr->bytes[0], &a.mr->bytes[1000], grh + 40));
}

TEST_F(DatagramTest, ALinkLocalAddressNeedsNoQuestionAndBringsAnIpv6Header) {
  mprdma_abi_create_ah in = address(a.host.pd, b.host.worker->gid(0));
  in.sgid_index = 0;
  mprdma_abi_handle ah{};
  ASSERT_EQ(a.host.execute(MPRDMA_ABI_CREATE_AH, in, &ah), 0);
  b.post_recv(*b.qp, 5);
  a.send(ah.handle, b.qp->qpn, 8);
  run();
  ASSERT_EQ(completions(b).size(), 1u);
  const wire::Ipv6 ip = wire::Ipv6::load(&b.mr->bytes[8192]);
  EXPECT_EQ(ip.src, a.host.worker->gid(0));
  EXPECT_EQ(ip.dst, b.host.worker->gid(0));
}

TEST_F(DatagramTest, ADatagramToOurselvesComesOverTheLoop) {
  const uint32_t ah = a.make_ah(a.host.worker->gid(1));
  a.post_recv(*a.qp, 5);
  a.send(ah, a.qp->qpn, 100, 6);
  run();
  EXPECT_EQ(completions(a).size(), 2u);
  EXPECT_EQ(a.host.worker->port().stats().tx_frames, 0u);
}

// Nobody polls between a post and a sleep until the completion's event.
TEST_F(DatagramTest, APostLeavesADatagramToOurselvesToWhoeverRunsTheWorker) {
  const uint32_t ah = a.make_ah(a.host.worker->gid(1));
  a.post_recv(*a.qp, 5);
  run();
  a.send(ah, a.qp->qpn, 100, 6);
  a.host.worker->run_sends(a.qp->doorbell, a.host.now);
  EXPECT_TRUE(a.host.worker->has_pending());
}

TEST_F(DatagramTest, WhatWaitsForANeighbourIsDroppedWhenNobodyAnswers) {
  const uint32_t ah = a.make_ah(wire::map_ipv4(Ipv4(0x0a4900fe)));
  a.send(ah, 5, 8);
  run();
  EXPECT_TRUE(completions(a).empty()) << "the address is being asked for";
  a.host.now = a.host.now + Duration::s(3);
  run();
  EXPECT_EQ(completions(a).size(), 1u);
  EXPECT_EQ(a.counters().drop_no_path, 1u);
}

TEST_F(DatagramTest, ADestroyedAddressHandleIsACountedDrop) {
  const uint32_t waiting = a.make_ah(wire::map_ipv4(Ipv4(0x0a4900fe)));
  a.send(waiting, 5, 8);
  run();
  EXPECT_EQ(a.destroy_ah(waiting), 0);
  EXPECT_EQ(a.destroy_ah(waiting), EINVAL);
  run();
  const auto sent = completions(a);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].status, MPRDMA_ABI_WC_SUCCESS) << "it was handed out; nobody says more";
  EXPECT_EQ(a.counters().drop_no_address, 1u);
  a.send(0xffffffff, 5, 8);
  run();
  EXPECT_EQ(a.counters().drop_no_address, 2u);
}

TEST_F(DatagramTest, AnAddressHandleKeepsItsProtectionDomain) {
  EXPECT_EQ(a.host.execute(MPRDMA_ABI_CREATE_AH, address(99, b.host.worker->gid(1))), EINVAL);
  mprdma_abi_handle out{};
  EXPECT_EQ(a.host.execute(MPRDMA_ABI_CREATE_AH, address(99, b.host.worker->gid(1)), &out), EINVAL);
  const uint32_t pd = a.host.out_handle(MPRDMA_ABI_ALLOC_PD);
  ASSERT_EQ(a.host.execute(MPRDMA_ABI_CREATE_AH, address(pd, b.host.worker->gid(1)), &out), 0);
  EXPECT_EQ(a.host.execute(MPRDMA_ABI_FREE_PD, mprdma_abi_handle{pd, 0}), EBUSY);
  b.post_recv(*b.qp, 5);
  a.send(out.handle, b.qp->qpn, 8);
  run();
  EXPECT_EQ(a.counters().drop_no_address, 1u) << "of another domain than the queue pair's";
  EXPECT_EQ(a.destroy_ah(out.handle), 0);
  EXPECT_EQ(a.host.execute(MPRDMA_ABI_FREE_PD, mprdma_abi_handle{pd, 0}), 0);
}

TEST_F(DatagramTest, AForeignQkeyIsAViolationOfThePort) {
  const uint32_t ah = a.make_ah(b.host.worker->gid(1));
  b.post_recv(*b.qp, 5);
  auto& wqe = a.host.begin_send(*a.qp, MPRDMA_ABI_SEND, 1, {{a.mr->addr(), 8, a.mr->key}});
  wqe.ah = ah;
  wqe.remote_qpn = b.qp->qpn;
  wqe.remote_qkey = kQkey + 1;
  a.host.end_send(*a.qp);
  run();
  EXPECT_TRUE(completions(b).empty());
  mprdma_abi_port_info info{};
  ASSERT_EQ(b.host.execute(MPRDMA_ABI_QUERY_PORT, mprdma_abi_handle{}, &info), 0);
  EXPECT_EQ(info.qkey_violations, 1u);
}

TEST_F(DatagramTest, AGroupTakesItsAddressFromTheGroupAndGivesEachMemberACopy) {
  const auto second = b.make_qp();
  ASSERT_EQ(b.mcast(MPRDMA_ABI_ATTACH_MCAST, *b.qp, kGroup), 0);
  ASSERT_EQ(b.mcast(MPRDMA_ABI_ATTACH_MCAST, *second, kGroup), 0);
  EXPECT_EQ(b.mcast(MPRDMA_ABI_ATTACH_MCAST, *second, kGroup), 0) << "once is enough";
  Bytes seen;
  wire->on_frame = [&](int, const Bytes& frame) { return seen = frame, true; };
  b.post_recv(*b.qp, 5);
  b.post_recv(*second, 6, 12288 - 4096);
  a.send(a.make_ah(wire::map_ipv4(kGroup)), wire::kMulticastQpn.value(), 64);
  run();
  ASSERT_GE(seen.size(), 14u);
  EXPECT_EQ(Bytes(seen.begin(), seen.begin() + 6), (Bytes{0x01, 0x00, 0x5e, 0x00, 0x01, 0x07}));
  const auto received = completions(b);
  ASSERT_EQ(received.size(), 2u);
  EXPECT_NE(received[0].qpn, received[1].qpn);
  EXPECT_EQ(b.host.worker->frames_borrowed(), 0u);
  EXPECT_EQ(a.counters().drop_no_group, 0u);
}

TEST_F(DatagramTest, OwnDatagramsToAGroupComeBackUnlessTheQueuePairBlocksThem) {
  const auto other = a.make_qp();
  ASSERT_EQ(a.host.execute(MPRDMA_ABI_DESTROY_QP, mprdma_abi_handle{a.qp->handle, 0}), 0);
  a.qp = a.make_qp(MPRDMA_ABI_QP_BLOCK_SELF_MCAST);
  ASSERT_EQ(a.mcast(MPRDMA_ABI_ATTACH_MCAST, *other, kGroup), 0);
  ASSERT_EQ(a.mcast(MPRDMA_ABI_ATTACH_MCAST, *a.qp, kGroup), 0);
  a.post_recv(*other, 5);
  a.post_recv(*a.qp, 6);
  a.send(a.make_ah(wire::map_ipv4(kGroup)), wire::kMulticastQpn.value(), 64, 7);
  run();
  const auto all = completions(a);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_TRUE((all[0].wr_id == 7 && all[1].wr_id == 5) || (all[0].wr_id == 5 && all[1].wr_id == 7));
}

TEST_F(DatagramTest, WhoLeftAGroupOrNeverCameHearsNothing) {
  EXPECT_EQ(b.mcast(MPRDMA_ABI_DETACH_MCAST, *b.qp, kGroup), EINVAL);
  ASSERT_EQ(b.mcast(MPRDMA_ABI_ATTACH_MCAST, *b.qp, kGroup), 0);
  EXPECT_EQ(b.host.execute(MPRDMA_ABI_DESTROY_QP, mprdma_abi_handle{b.qp->handle, 0}), EBUSY);
  ASSERT_EQ(b.mcast(MPRDMA_ABI_DETACH_MCAST, *b.qp, kGroup), 0);
  EXPECT_EQ(b.mcast(MPRDMA_ABI_ATTACH_MCAST, *b.qp, Host::ip(1)), EINVAL) << "not a group";
  b.post_recv(*b.qp, 5);
  a.send(a.make_ah(wire::map_ipv4(kGroup)), wire::kMulticastQpn.value(), 64);
  run();
  EXPECT_TRUE(completions(b).empty());
  EXPECT_EQ(b.counters().drop_no_group, 1u);
  EXPECT_EQ(b.host.execute(MPRDMA_ABI_DESTROY_QP, mprdma_abi_handle{b.qp->handle, 0}), 0);
}

}  // namespace
}  // namespace mprdma::dataplane
