// Commands: wrong input is an errno value, objects in use stay, one client's handles are its own.
#include "dataplane/engine/commands.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "tests/unit/dataplane/engine/engine_host.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Host;
using testing::HostQp;
using testing::MemoryWire;

class CommandsTest : public ::testing::Test {
 protected:
  Host host_{std::make_shared<MemoryWire>(), 0};

  int reg_mr(uint64_t addr, uint64_t length, uint32_t access) {
    const mprdma_abi_reg_mr in{addr, length, addr, host_.pd, access, 0, 0};
    mprdma_abi_reg_mr_out out{};
    return host_.execute(MPRDMA_ABI_REG_MR, in, &out);
  }
};

TEST_F(CommandsTest, ShortInputUnknownCommandsAndHandlesAreEinval) {
  const uint32_t tiny = 0;
  for (uint32_t command = 0; command < 40; ++command) {
    const Commands::Call call{command, &tiny, 2, nullptr, 0};
    const int error =
        Commands::prepare(call) != 0 ? EINVAL : host_.commands->execute(nullptr, call, host_.now);
    EXPECT_EQ(error, EINVAL) << command;
  }
  for (const uint32_t command : {MPRDMA_ABI_FREE_PD, MPRDMA_ABI_DEREG_MR, MPRDMA_ABI_DESTROY_CQ,
                                 MPRDMA_ABI_DESTROY_QP, MPRDMA_ABI_DESTROY_AH}) {
    EXPECT_EQ(host_.execute(command, mprdma_abi_handle{0x00777777, 0}), EINVAL) << command;
  }
}

TEST_F(CommandsTest, RegistrationProbesTheRange) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* mapped =
      mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const auto base = reinterpret_cast<uint64_t>(mapped);
  munmap(reinterpret_cast<char*>(mapped) + 3 * page, page);
  mprotect(reinterpret_cast<char*>(mapped) + 2 * page, page, PROT_READ);
  const uint32_t write = MPRDMA_ABI_ACCESS_LOCAL_WRITE;
  EXPECT_EQ(reg_mr(base, 2 * page, write), 0);
  EXPECT_EQ(reg_mr(base + 1, 2 * page - 1, write), 0);
  EXPECT_EQ(reg_mr(base, 3 * page, write), EFAULT) << "the third page is read-only";
  EXPECT_EQ(reg_mr(base, 3 * page, 0), 0);
  EXPECT_EQ(reg_mr(base, 3 * page + 1, 0), EFAULT) << "the fourth is not there";
  EXPECT_EQ(reg_mr(UINT64_MAX - 10, 100, 0), EINVAL) << "wraps";
  EXPECT_EQ(reg_mr(base, 8, MPRDMA_ABI_ACCESS_REMOTE_WRITE), EINVAL)
      << "remote write without local write";
  EXPECT_EQ(reg_mr(base, 8, 1u << 30), EINVAL);
  munmap(mapped, 3 * page);
}

TEST_F(CommandsTest, ObjectsInUseAreBusy) {
  auto cq = host_.make_cq();
  auto mr = host_.make_mr(100);
  auto qp = host_.make_qp(*cq);
  EXPECT_EQ(host_.execute(MPRDMA_ABI_DESTROY_CQ, mprdma_abi_handle{cq->handle, 0}), EBUSY);
  EXPECT_EQ(host_.execute(MPRDMA_ABI_FREE_PD, mprdma_abi_handle{host_.pd, 0}), EBUSY);
  EXPECT_EQ(host_.execute(MPRDMA_ABI_DESTROY_QP, mprdma_abi_handle{qp->handle, 0}), 0);
  EXPECT_EQ(host_.execute(MPRDMA_ABI_DESTROY_QP, mprdma_abi_handle{qp->handle, 0}), EINVAL);
  EXPECT_EQ(host_.execute(MPRDMA_ABI_DESTROY_CQ, mprdma_abi_handle{cq->handle, 0}), 0);
  EXPECT_EQ(host_.execute(MPRDMA_ABI_FREE_PD, mprdma_abi_handle{host_.pd, 0}), EBUSY);
  EXPECT_EQ(host_.execute(MPRDMA_ABI_DEREG_MR, mprdma_abi_handle{mr->handle, 0}), 0);
  EXPECT_EQ(host_.execute(MPRDMA_ABI_FREE_PD, mprdma_abi_handle{host_.pd, 0}), 0);
}

// Creates queue pairs with transport parameters; attempt() returns the status.
class QpTransport : public CommandsTest {
 protected:
  static mprdma_abi_qp_transport ask(uint32_t mode, uint32_t initial_window = 0,
                                     uint32_t window_max = 0, uint32_t reorder_delta = 0,
                                     uint32_t window_slots = 0) {
    return {mode, initial_window, window_max, reorder_delta, window_slots, {}};
  }
  int attempt(const mprdma_abi_qp_transport& transport, HostQp* qp = nullptr) {
    HostQp other;
    HostQp& made = qp != nullptr ? *qp : other;
    mprdma_abi_create_qp in = host_.describe(made, *cq_);
    in.transport = transport;
    mprdma_abi_create_qp_out out{};
    const int error = host_.execute(MPRDMA_ABI_CREATE_QP, in, &out);
    made.handle = out.handle;
    return error;
  }
  mprdma_abi_qp_stats stats(const HostQp& qp) {
    mprdma_abi_qp_stats out{};
    EXPECT_EQ(host_.execute(MPRDMA_ABI_QUERY_QP_STATS, mprdma_abi_handle{qp.handle, 0}, &out), 0);
    return out;
  }
  std::unique_ptr<testing::HostCq> cq_ = host_.make_cq();
};

TEST_F(QpTransport, UnknownModesAreInvalid) {
  for (const uint32_t mode : {MPRDMA_ABI_MODE_DEFAULT, MPRDMA_ABI_MODE_MP, MPRDMA_ABI_MODE_MP_PAPER,
                              MPRDMA_ABI_MODE_MP_SINGLE, MPRDMA_ABI_MODE_IRN}) {
    EXPECT_EQ(attempt(ask(mode)), 0) << mode;
  }
  EXPECT_EQ(attempt(ask(99)), EINVAL);
  mprdma_abi_qp_transport reserved{};
  reserved.reserved[1] = 1;
  EXPECT_EQ(attempt(reserved), EINVAL);
}

TEST_F(QpTransport, NumbersOutOfRangeOrAtOddsAreInvalid) {
  EXPECT_EQ(attempt(ask(0, 10, 20, 16)), 0);
  EXPECT_EQ(attempt(ask(0, 30, 20)), EINVAL);
  EXPECT_EQ(attempt(ask(0, 0, 4097)), EINVAL);
  EXPECT_EQ(attempt(ask(0, 257)), EINVAL);
  EXPECT_EQ(attempt(ask(0, 0, 0, 7)), EINVAL);
  EXPECT_EQ(attempt(ask(0, 0, 0, 0, 48)), EINVAL);
  EXPECT_EQ(attempt(ask(0, 0, 0, 0, 4096)), EINVAL);
  EXPECT_EQ(attempt(ask(0, 17, 0, 0, 16)), EINVAL);
  EXPECT_EQ(attempt(ask(0, 0, 0, 0, 8)), 0) << "the least that is in range";
  EXPECT_EQ(attempt(ask(0, 0, 0, 0, 16)), 0) << "what lies within the window shrinks with it";
}

TEST_F(QpTransport, TheWindowBeginsAsAskedFor) {
  HostQp qp;
  ASSERT_EQ(attempt(ask(MPRDMA_ABI_MODE_MP_SINGLE, 7), &qp), 0);
  host_.connect(qp, Host::ip(1), 0x1234);
  const mprdma_abi_qp_stats out = stats(qp);
  EXPECT_EQ(out.requests.window_q16, 7u << 16);
  EXPECT_EQ(out.mode, uint32_t{MPRDMA_ABI_MODE_MP_SINGLE});
  EXPECT_EQ(out.dest_qpn, 0x1234u);
  EXPECT_EQ(out.state, uint32_t{MPRDMA_ABI_QPS_RTS});
}

// An acknowledgement lies in the port when a disconnection makes a program end its side.
TEST(ModifyToError, WhatHasArrivedBeforeIsTakenFirst) {
  testing::HostPair pair;
  pair.mr_a->bytes[0] = 1;
  mprdma_abi_send_wqe& wqe =
      pair.a.begin_send(*pair.qp_a, MPRDMA_ABI_WRITE, 1, {{pair.mr_a->addr(), 8, pair.mr_a->key}});
  wqe.remote_addr = pair.mr_b->addr();
  wqe.rkey = pair.mr_b->key;
  pair.a.end_send(*pair.qp_a);
  ASSERT_TRUE(pair.run_until([&] { return pair.mr_b->bytes[0] == 1; }));
  mprdma_abi_cqe entry{};
  ASSERT_FALSE(pair.cq_a->poll(&entry)) << "the acknowledgement was not to be taken yet";
  ASSERT_EQ(pair.a.move_to(*pair.qp_a, MPRDMA_ABI_QPS_ERR), 0);
  ASSERT_TRUE(pair.cq_a->poll(&entry));
  EXPECT_EQ(entry.status, MPRDMA_ABI_WC_SUCCESS);
}

TEST(QpStats, CountEachByteOnceOnACleanWire) {
  testing::HostPair pair;
  constexpr uint32_t kBytes = 10'000;
  mprdma_abi_send_wqe& wqe = pair.a.begin_send(*pair.qp_a, MPRDMA_ABI_WRITE, 1,
                                               {{pair.mr_a->addr(), kBytes, pair.mr_a->key}});
  wqe.remote_addr = pair.mr_b->addr();
  wqe.rkey = pair.mr_b->key;
  pair.a.end_send(*pair.qp_a);
  mprdma_abi_cqe entry{};
  ASSERT_TRUE(pair.completion(pair.a, *pair.cq_a, &entry));
  mprdma_abi_qp_stats a{};
  mprdma_abi_qp_stats b{};
  const mprdma_abi_handle qp_a{pair.qp_a->handle, 0};
  const mprdma_abi_handle qp_b{pair.qp_b->handle, 0};
  ASSERT_EQ(pair.a.execute(MPRDMA_ABI_QUERY_QP_STATS, qp_a, &a), 0);
  ASSERT_EQ(pair.b.execute(MPRDMA_ABI_QUERY_QP_STATS, qp_b, &b), 0);
  EXPECT_EQ(a.bytes_out, kBytes);
  EXPECT_EQ(b.bytes_in, kBytes);
  EXPECT_EQ(a.bytes_in + b.bytes_out + a.bytes_retransmitted, 0u);
  EXPECT_EQ(a.requests.packets_sent, 10u);
  EXPECT_EQ(a.requests.retransmitted, 0u);
  EXPECT_GT(a.requests.srtt_ns, 0u);
  EXPECT_EQ(a.sends_outstanding, 0u);
  EXPECT_EQ(pair.b.execute(MPRDMA_ABI_QUERY_QP_STATS, mprdma_abi_handle{99, 0}, &b), EINVAL);
  pair.a.move_to(*pair.qp_a, MPRDMA_ABI_QPS_RESET);
  ASSERT_EQ(pair.a.execute(MPRDMA_ABI_QUERY_QP_STATS, qp_a, &a), 0);
  EXPECT_EQ(a.bytes_out, 0u);
}

TEST_F(CommandsTest, RingsThatCannotHoldWhatTheyPromiseAreEinval) {
  auto cq = host_.make_cq();
  HostQp qp;
  mprdma_abi_create_qp_out out{};
  const auto attempt = [&](auto&& change) {
    mprdma_abi_create_qp in = host_.describe(qp, *cq);
    change(in);
    return host_.execute(MPRDMA_ABI_CREATE_QP, in, &out);
  };
  EXPECT_EQ(attempt([](auto& in) { in.sq.stride = 64; }), EINVAL);
  EXPECT_EQ(attempt([](auto& in) { in.rq.depth = 63; }), EINVAL);
  EXPECT_EQ(attempt([](auto& in) { in.sq.ring = 0; }), EINVAL);
  EXPECT_EQ(attempt([](auto& in) { in.rq.dbr = 0; }), EINVAL);
  EXPECT_EQ(attempt([](auto& in) { in.sq.max_sge = 17; }), EINVAL);
  EXPECT_EQ(attempt([](auto& in) { in.sq.depth = 1u << 20; }), EINVAL);
  EXPECT_EQ(attempt([](auto& in) { in.pd = 999; }), EINVAL);
  EXPECT_EQ(attempt([](auto& in) { in.recv_cq = 999; }), EINVAL);
  EXPECT_EQ(attempt([](auto&) {}), 0);
}

TEST_F(CommandsTest, ModifyChecksValuesAndTransitionsAndChangesNothingOnError) {
  auto cq = host_.make_cq();
  auto qp = host_.make_qp(*cq);
  EXPECT_EQ(host_.move_to(*qp, MPRDMA_ABI_QPS_RTR), EINVAL) << "from RESET";
  ASSERT_EQ(host_.move_to(*qp, MPRDMA_ABI_QPS_INIT), 0);
  EXPECT_EQ(host_.move_to(*qp, MPRDMA_ABI_QPS_RTR), EINVAL) << "no address";
  const mprdma_abi_qp_attr good = Host::attributes(Host::ip(1), 9);
  const auto attempt = [&](auto&& change) {
    mprdma_abi_qp_attr attr = good;
    change(attr);
    return host_.modify(*qp, attr);
  };
  EXPECT_EQ(attempt([](auto& a) { a.path_mtu = 1500; }), EINVAL);
  EXPECT_EQ(attempt([](auto& a) { a.path_mtu = 8192; }), EINVAL);
  EXPECT_EQ(attempt([](auto& a) { a.dest_qpn = 1u << 24; }), EINVAL);
  EXPECT_EQ(attempt([](auto& a) { a.rq_psn = 1u << 24; }), EINVAL);
  EXPECT_EQ(attempt([](auto& a) { a.timeout = 32; }), EINVAL);
  EXPECT_EQ(attempt([](auto& a) { a.retry_cnt = 8; }), EINVAL);
  EXPECT_EQ(attempt([](auto& a) { a.max_rd_atomic = 200; }), EINVAL);
  EXPECT_EQ(attempt([](auto& a) { a.sgid_index = 2; }), EINVAL);
  EXPECT_EQ(attempt([](auto& a) { a.sgid_index = 0; }), EINVAL) << "IPv4 peer from an IPv6 GID";
  EXPECT_EQ(host_.query(*qp).dest_qpn, 0u);
  ASSERT_EQ(attempt([](auto&) {}), 0);
  const mprdma_abi_qp_attr now = host_.query(*qp);
  EXPECT_EQ(now.dest_qpn, 9u);
  EXPECT_EQ(now.path_mtu, 1024u);
  EXPECT_EQ(now.state, uint32_t{MPRDMA_ABI_QPS_INIT});
  EXPECT_EQ(host_.move_to(*qp, MPRDMA_ABI_QPS_RTS), EINVAL) << "over RTR";
  EXPECT_EQ(host_.move_to(*qp, MPRDMA_ABI_QPS_RTR), 0);
}

TEST_F(CommandsTest, LinkLocalPeerNeedsNoResolution) {
  auto cq = host_.make_cq();
  auto qp = host_.make_qp(*cq);
  ASSERT_EQ(host_.move_to(*qp, MPRDMA_ABI_QPS_INIT), 0);
  mprdma_abi_qp_attr attr = Host::attributes(Host::ip(1), 9);
  attr.sgid_index = 0;
  const wire::MacAddress mac = derived_mac(Host::ip(1));
  const uint8_t gid[16] = {0xfe, 0x80,   0,      0,    0,    0,      0,      0,
                           0x00, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
  std::memcpy(attr.dgid, gid, sizeof(gid));
  ASSERT_EQ(host_.modify(*qp, attr), 0);
  const QpContext* context = host_.worker->qps().find(Qpn(qp->qpn));
  EXPECT_EQ(context->path, PathState::kReady);
  EXPECT_EQ(context->outer.address().dst_mac, mac);
  EXPECT_TRUE(context->outer.address().is_ipv6);
}

TEST_F(CommandsTest, ModifyThatFailsLeavesThePathAlone) {
  auto cq = host_.make_cq();
  auto qp = host_.make_qp(*cq);
  host_.connect(*qp, Host::ip(0), 9);
  const QpContext* context = host_.worker->qps().find(Qpn(qp->qpn));
  ASSERT_EQ(context->path, PathState::kReady);
  const wire::IpAddress peer = context->outer.address().dst_ip;
  mprdma_abi_qp_attr attr = Host::attributes(Host::ip(1), 9);
  attr.mask |= MPRDMA_ABI_QP_STATE;
  attr.state = MPRDMA_ABI_QPS_INIT;
  EXPECT_EQ(host_.modify(*qp, attr), EINVAL);
  EXPECT_EQ(context->outer.address().dst_ip, peer);
  EXPECT_EQ(context->path, PathState::kReady);
  EXPECT_TRUE(context->loop);
}

TEST_F(CommandsTest, ForgottenClientTakesItsObjectsAlong) {
  auto cq = host_.make_cq();
  auto qp = host_.make_qp(*cq);
  auto mr = host_.make_mr(100);
  const mprdma_abi_client stranger{};
  const mprdma_abi_handle handle{qp->handle, 0};
  const Commands::Call call{MPRDMA_ABI_DESTROY_QP, &handle, sizeof(handle), nullptr, 0};
  EXPECT_EQ(host_.commands->execute(&stranger, call, host_.now), EINVAL)
      << "another client's handle";
  host_.commands->forget_client(host_.worker->qps().find(Qpn(qp->qpn))->client, host_.now);
  EXPECT_EQ(host_.worker->qps().in_use(), 0u);
  EXPECT_EQ(host_.worker->mrs().in_use(), 0u);
}

TEST_F(CommandsTest, CountersComeByNameAsFarAsThereIsRoom) {
  std::vector<unsigned char> out(sizeof(mprdma_abi_counters) + 3 * sizeof(mprdma_abi_counter));
  Commands::Call call{MPRDMA_ABI_QUERY_COUNTERS, nullptr, 0, out.data(), out.size()};
  ASSERT_EQ(host_.commands->execute(nullptr, call, host_.now), 0);
  mprdma_abi_counters head;
  std::memcpy(&head, out.data(), sizeof(head));
  EXPECT_EQ(head.filled, 3u);
  EXPECT_GT(head.total, 60u);
  EXPECT_STREQ(reinterpret_cast<const char*>(out.data() + sizeof(head)), "bursts");
}

}  // namespace
}  // namespace mprdma::dataplane
