// A host for tests of the engine: plays the provider over the queue ABI. Rings, doorbells and
// commands as a verbs provider would use them, and nothing of the engine but its entry points.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "abi/mprdma_ring.h"
#include "base/ipv4.hpp"
#include "dataplane/engine/commands.hpp"
#include "dataplane/engine/config.hpp"
#include "dataplane/worker/worker.hpp"
#include "tests/unit/dataplane/port/memory_port.hpp"
#include "wire/constants.hpp"

namespace mprdma::dataplane::testing {

// The longest payload of a packet between processes of a host.
inline constexpr uint32_t kSegment = wire::kMaxSegment;

// Rings of one queue pair, and of its completion queue, as a provider lays them out.
struct HostCq {
  explicit HostCq(uint32_t entries) : depth(entries), ring(entries) {}
  uint32_t handle = 0;
  uint32_t depth;
  std::vector<mprdma_abi_cqe> ring;
  mprdma_abi_cq_dbr dbr{};
  uint32_t consumer = 0;

  bool poll(mprdma_abi_cqe* out) {
    const mprdma_abi_cqe* entry = mprdma_abi_peek_cqe(ring.data(), depth, consumer);
    if (entry == nullptr) return false;
    *out = *entry;
    mprdma_abi_store_release(&dbr.consumer, ++consumer);
    return true;
  }
};

struct HostQp {
  static constexpr uint32_t kDepth = 64;
  static constexpr uint32_t kSendStride = 192;
  static constexpr uint32_t kRecvStride = 64;
  static constexpr uint32_t kMaxSge = 3;
  static constexpr uint32_t kMaxInline = 128;

  struct alignas(64) Block {
    unsigned char bytes[64];
  };
  std::vector<Block> sq_memory{kDepth * kSendStride / 64};
  std::vector<Block> rq_memory{kDepth * kRecvStride / 64};
  mprdma_abi_queue_dbr sq{};
  mprdma_abi_queue_dbr rq{};
  uint32_t handle = 0;
  uint32_t qpn = 0;
  uint32_t doorbell = 0;

  mprdma_abi_send_wqe* send_slot() {
    return mprdma_abi_send_slot(sq_memory.data(), kDepth, kSendStride, sq.producer);
  }
  // As the engine is told of them.
  [[nodiscard]] mprdma_abi_queue sends() {
    return {reinterpret_cast<uint64_t>(sq_memory.data()),
            reinterpret_cast<uint64_t>(&sq),
            kDepth,
            kSendStride,
            kMaxSge,
            kMaxInline};
  }
  [[nodiscard]] mprdma_abi_queue receives() {
    return {reinterpret_cast<uint64_t>(rq_memory.data()),
            reinterpret_cast<uint64_t>(&rq),
            kDepth,
            kRecvStride,
            kMaxSge,
            0};
  }
  mprdma_abi_recv_wqe* recv_slot() {
    return mprdma_abi_recv_slot(rq_memory.data(), kDepth, kRecvStride, rq.producer);
  }
};

// A shared receive queue's ring.
struct HostSrq {
  explicit HostSrq(uint32_t entries) : depth(entries), memory(entries) {}
  uint32_t handle = 0;
  uint32_t number = 0;
  uint32_t depth;
  std::vector<HostQp::Block> memory;
  mprdma_abi_queue_dbr dbr{};

  [[nodiscard]] mprdma_abi_queue queue() {
    return {reinterpret_cast<uint64_t>(memory.data()),
            reinterpret_cast<uint64_t>(&dbr),
            depth,
            HostQp::kRecvStride,
            HostQp::kMaxSge,
            0};
  }
  void post(uint64_t wr_id, std::initializer_list<mprdma_abi_sge> sges) {
    mprdma_abi_recv_wqe* wqe =
        mprdma_abi_recv_slot(memory.data(), depth, HostQp::kRecvStride, dbr.producer);
    *wqe = {wr_id, static_cast<uint32_t>(sges.size()), 0};
    auto* out = reinterpret_cast<mprdma_abi_sge*>(wqe + 1);
    for (const mprdma_abi_sge& sge : sges) *out++ = sge;
    mprdma_abi_store_release(&dbr.producer, dbr.producer + 1);
  }
  [[nodiscard]] uint32_t left() const { return dbr.producer - dbr.consumer; }
};

struct HostMr {
  std::vector<unsigned char> bytes;
  uint32_t handle = 0;
  uint32_t key = 0;
  [[nodiscard]] uint64_t addr() const { return reinterpret_cast<uint64_t>(bytes.data()); }
};

class Host {
 public:
  Host(std::shared_ptr<MemoryWire> wire, int side,
       const std::function<void(WorkerConfig&)>& change = nullptr)
      : Host(std::make_unique<MemoryPort>(std::move(wire), side, derived_mac(ip(side))), side,
             Time::from_ns(1'000'000), change) {
    port_ = static_cast<MemoryPort*>(&worker->port());
  }
  // On a port of the caller's, at a time of its choice.
  Host(std::unique_ptr<Port> port, int side, Time start,
       const std::function<void(WorkerConfig&)>& change = nullptr)
      : now(start) {
    client_.abi_major = MPRDMA_ABI_MAJOR;
    client_.context = this;
    client_.on_event = [](void* context, const mprdma_abi_event* event) {
      static_cast<Host*>(context)->events.push_back(*event);
    };
    WorkerConfig config;
    config.mac = derived_mac(ip(side));
    config.ipv4 = ip(side);
    config.seed = 7 + static_cast<uint64_t>(side);
    config.params.rto_floor = Duration::ms(1);
    if (change) change(config);
    worker = std::make_unique<Worker>(config, std::move(port), now);
    worker->add_client(&client_);
    commands = std::make_unique<Commands>(*worker);
    pd = out_handle(MPRDMA_ABI_ALLOC_PD);
  }

  static Ipv4 ip(int side) { return Ipv4(0x0a490001 + static_cast<uint32_t>(side)); }
  // Of a host on a MemoryWire.
  MemoryPort& port() { return *port_; }

  // With lengths of the caller's choice.
  int execute_raw(uint32_t command, const void* in, size_t in_bytes, void* out, size_t out_bytes) {
    const Commands::Call call{command, in, in_bytes, out, out_bytes};
    const int error = Commands::prepare(call);
    return error != 0 ? error : commands->execute(&client_, call, now);
  }
  template <class In, class Out>
  int execute(uint32_t command, const In& in, Out* out) {
    const Commands::Call call{command, &in, sizeof(in), out, sizeof(*out)};
    const int error = Commands::prepare(call);
    return error != 0 ? error : commands->execute(&client_, call, now);
  }
  template <class In>
  int execute(uint32_t command, const In& in) {
    const Commands::Call call{command, &in, sizeof(in), nullptr, 0};
    const int error = Commands::prepare(call);
    return error != 0 ? error : commands->execute(&client_, call, now);
  }
  // Forgets the client, as when its context is closed.
  void forget_client() { commands->forget_client(&client_, now); }
  uint32_t out_handle(uint32_t command) {
    mprdma_abi_handle in{};
    mprdma_abi_handle out{};
    EXPECT_EQ(execute(command, in, &out), 0);
    return out.handle;
  }

  std::unique_ptr<HostCq> make_cq(uint32_t depth = 64) {
    auto cq = std::make_unique<HostCq>(depth);
    mprdma_abi_create_cq in{};
    in.ring = reinterpret_cast<uint64_t>(cq->ring.data());
    in.dbr = reinterpret_cast<uint64_t>(&cq->dbr);
    in.cookie = reinterpret_cast<uint64_t>(cq.get());
    in.depth = depth;
    mprdma_abi_handle out{};
    EXPECT_EQ(execute(MPRDMA_ABI_CREATE_CQ, in, &out), 0);
    cq->handle = out.handle;
    return cq;
  }

  std::unique_ptr<HostQp> make_qp(const HostCq& cq) {
    auto qp = std::make_unique<HostQp>();
    mprdma_abi_create_qp in = describe(*qp, cq);
    mprdma_abi_create_qp_out out{};
    EXPECT_EQ(execute(MPRDMA_ABI_CREATE_QP, in, &out), 0);
    qp->handle = out.handle;
    qp->qpn = out.qpn;
    qp->doorbell = out.doorbell;
    return qp;
  }

  mprdma_abi_create_qp describe(HostQp& qp, const HostCq& cq) const {
    mprdma_abi_create_qp in{};
    in.type = MPRDMA_ABI_QP_RC;
    in.pd = pd;
    in.send_cq = in.recv_cq = cq.handle;
    in.cookie = reinterpret_cast<uint64_t>(&qp);
    in.sq = qp.sends();
    in.rq = qp.receives();
    return in;
  }

  // Creates a queue pair from a description that the caller changed.
  template <class Change>
  std::unique_ptr<HostQp> make_qp_with(const HostCq& cq, Change&& change) {
    auto qp = std::make_unique<HostQp>();
    mprdma_abi_create_qp in = describe(*qp, cq);
    change(in);
    mprdma_abi_create_qp_out out{};
    EXPECT_EQ(execute(MPRDMA_ABI_CREATE_QP, in, &out), 0);
    qp->handle = out.handle;
    qp->qpn = out.qpn;
    qp->doorbell = out.doorbell;
    return qp;
  }
  static constexpr uint32_t kQkey = 0x11111111;
  // A UD queue pair that is ready to send.
  std::unique_ptr<HostQp> make_ud_qp(const HostCq& cq, uint32_t flags = 0) {
    auto made = make_qp_with(cq, [&](mprdma_abi_create_qp& in) {
      in.type = MPRDMA_ABI_QP_UD;
      in.flags = flags;
    });
    mprdma_abi_qp_attr attr{};
    attr.mask = MPRDMA_ABI_QP_STATE | MPRDMA_ABI_QP_QKEY;
    attr.state = MPRDMA_ABI_QPS_INIT;
    attr.qkey = kQkey;
    EXPECT_EQ(modify(*made, attr), 0);
    EXPECT_EQ(move_to(*made, MPRDMA_ABI_QPS_RTR), 0);
    attr.mask = MPRDMA_ABI_QP_STATE | MPRDMA_ABI_QP_SQ_PSN;
    attr.state = MPRDMA_ABI_QPS_RTS;
    attr.sq_psn = 3;
    EXPECT_EQ(modify(*made, attr), 0);
    return made;
  }
  std::unique_ptr<HostQp> make_qp_on_srq(const HostCq& cq, const HostSrq& srq) {
    return make_qp_with(cq, [&](mprdma_abi_create_qp& in) {
      in.srq = srq.handle;
      in.rq = {};
    });
  }

  mprdma_abi_create_srq describe_srq(HostSrq& srq) const {
    mprdma_abi_create_srq in{};
    in.type = MPRDMA_ABI_SRQ_BASIC;
    in.pd = pd;
    in.cookie = reinterpret_cast<uint64_t>(&srq);
    in.rq = srq.queue();
    return in;
  }
  // XRC with a domain and a completion queue.
  std::unique_ptr<HostSrq> make_srq(uint32_t depth = 64, uint32_t xrcd = 0, uint32_t cq = 0) {
    auto srq = std::make_unique<HostSrq>(depth);
    mprdma_abi_create_srq in = describe_srq(*srq);
    if (xrcd != 0) in.type = MPRDMA_ABI_SRQ_XRC;
    in.xrcd = xrcd;
    in.recv_cq = cq;
    mprdma_abi_srq_out out{};
    EXPECT_EQ(execute(MPRDMA_ABI_CREATE_SRQ, in, &out), 0);
    srq->handle = out.handle;
    srq->number = out.srqn;
    return srq;
  }

  std::unique_ptr<HostMr> make_mr(size_t bytes, uint32_t access = kAllRights) {
    auto mr = std::make_unique<HostMr>();
    mr->bytes.resize(bytes);
    mprdma_abi_reg_mr in{mr->addr(), bytes, mr->addr(), pd, access, 0, 0};
    mprdma_abi_reg_mr_out out{};
    EXPECT_EQ(execute(MPRDMA_ABI_REG_MR, in, &out), 0);
    mr->handle = out.handle;
    mr->key = out.rkey;
    return mr;
  }

  static mprdma_abi_qp_attr attributes(Ipv4 peer_ip, uint32_t peer_qpn) {
    mprdma_abi_qp_attr attr{};
    attr.mask = MPRDMA_ABI_QP_ACCESS | MPRDMA_ABI_QP_PATH | MPRDMA_ABI_QP_PATH_MTU |
                MPRDMA_ABI_QP_DEST_QPN | MPRDMA_ABI_QP_RQ_PSN | MPRDMA_ABI_QP_SQ_PSN |
                MPRDMA_ABI_QP_TIMEOUT | MPRDMA_ABI_QP_RETRY_CNT | MPRDMA_ABI_QP_RNR_RETRY |
                MPRDMA_ABI_QP_MAX_RD_ATOMIC | MPRDMA_ABI_QP_MAX_DEST_RD_ATOMIC;
    attr.access = kAllRights;
    attr.path_mtu = 1024;
    attr.dest_qpn = peer_qpn;
    attr.rq_psn = attr.sq_psn = 100;
    attr.timeout = 8;  // about a millisecond
    attr.retry_cnt = 3;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 4;
    attr.sgid_index = 1;
    const wire::IpAddress gid = wire::map_ipv4(peer_ip);
    std::memcpy(attr.dgid, gid.data(), gid.size());
    return attr;
  }

  int modify(const HostQp& qp, mprdma_abi_qp_attr attr) {
    mprdma_abi_modify_qp in{};
    in.handle = qp.handle;
    in.attr = attr;
    return execute(MPRDMA_ABI_MODIFY_QP, in);
  }
  int move_to(const HostQp& qp, uint32_t state) {
    mprdma_abi_qp_attr attr{};
    attr.mask = MPRDMA_ABI_QP_STATE;
    attr.state = state;
    return modify(qp, attr);
  }
  // RESET to RTS towards the peer.
  void connect(const HostQp& qp, Ipv4 peer_ip, uint32_t peer_qpn) {
    ASSERT_EQ(move_to(qp, MPRDMA_ABI_QPS_INIT), 0);
    ASSERT_EQ(modify(qp, attributes(peer_ip, peer_qpn)), 0);
    ASSERT_EQ(move_to(qp, MPRDMA_ABI_QPS_RTR), 0);
    ASSERT_EQ(move_to(qp, MPRDMA_ABI_QPS_RTS), 0);
  }
  mprdma_abi_qp_attr query(const HostQp& qp) {
    mprdma_abi_handle in{qp.handle, 0};
    mprdma_abi_qp_attr out{};
    EXPECT_EQ(execute(MPRDMA_ABI_QUERY_QP, in, &out), 0);
    return out;
  }

  void ring(const HostQp& qp) { mprdma_abi_ring_doorbell(&worker->doorbells(), qp.doorbell); }

  mprdma_abi_send_wqe& begin_send(HostQp& qp, uint8_t opcode, uint64_t wr_id,
                                  std::initializer_list<mprdma_abi_sge> sges) {
    mprdma_abi_send_wqe* wqe = qp.send_slot();
    *wqe = mprdma_abi_send_wqe{};
    wqe->wr_id = wr_id;
    wqe->opcode = opcode;
    wqe->flags = MPRDMA_ABI_WQE_SIGNALED;
    wqe->num_sge = static_cast<uint8_t>(sges.size());
    auto* out = reinterpret_cast<mprdma_abi_sge*>(wqe + 1);
    for (const mprdma_abi_sge& sge : sges) *out++ = sge;
    return *wqe;
  }
  void end_send(HostQp& qp) {
    end_send_silently(qp);
    ring(qp);
  }
  // As a provider that tells the engine by the function `send`.
  static void end_send_silently(HostQp& qp) {
    mprdma_abi_store_release(&qp.sq.producer, qp.sq.producer + 1);
  }
  void post_recv(HostQp& qp, uint64_t wr_id, std::initializer_list<mprdma_abi_sge> sges) {
    mprdma_abi_recv_wqe* wqe = qp.recv_slot();
    wqe->wr_id = wr_id;
    wqe->num_sge = static_cast<uint32_t>(sges.size());
    auto* out = reinterpret_cast<mprdma_abi_sge*>(wqe + 1);
    for (const mprdma_abi_sge& sge : sges) *out++ = sge;
    mprdma_abi_store_release(&qp.rq.producer, qp.rq.producer + 1);
    ring(qp);
  }

  static constexpr uint32_t kAllRights = MPRDMA_ABI_ACCESS_LOCAL_WRITE |
                                         MPRDMA_ABI_ACCESS_REMOTE_WRITE |
                                         MPRDMA_ABI_ACCESS_REMOTE_READ;

  Time now;
  std::unique_ptr<Worker> worker;
  std::unique_ptr<Commands> commands;
  std::vector<mprdma_abi_event> events;
  uint32_t pd = 0;

 private:
  MemoryPort* port_ = nullptr;
  mprdma_abi_client client_{};
};

// Two hosts, a connected queue pair on each, memory on each; time goes by in steps of 10 us.
class HostPair {
 public:
  explicit HostPair(const std::function<void(WorkerConfig&)>& change = nullptr)
      : wire(std::make_shared<MemoryWire>()), a(wire, 0, change), b(wire, 1, change) {
    cq_a = a.make_cq();
    cq_b = b.make_cq();
    qp_a = a.make_qp(*cq_a);
    qp_b = b.make_qp(*cq_b);
    mr_a = a.make_mr(1 << 16);
    mr_b = b.make_mr(1 << 16);
    a.connect(*qp_a, Host::ip(1), qp_b->qpn);
    b.connect(*qp_b, Host::ip(0), qp_a->qpn);
  }

  void step() {
    a.now = b.now = a.now + Duration::us(10);
    a.worker->run(a.now);
    b.worker->run(b.now);
  }
  // Until the condition holds; false when it did not in a second of the hosts' time.
  template <class Condition>
  bool run_until(Condition&& condition) {
    for (int i = 0; i < 100'000; ++i) {
      if (condition()) return true;
      step();
    }
    return false;
  }
  bool completion(Host& host, HostCq& cq, mprdma_abi_cqe* out) {
    (void)host;
    return run_until([&] { return cq.poll(out); });
  }
  void settle(int steps = 50) {
    for (int i = 0; i < steps; ++i) step();
  }

  std::shared_ptr<MemoryWire> wire;
  Host a;
  Host b;
  std::unique_ptr<HostCq> cq_a, cq_b;
  std::unique_ptr<HostQp> qp_a, qp_b;
  std::unique_ptr<HostMr> mr_a, mr_b;
};

}  // namespace mprdma::dataplane::testing
