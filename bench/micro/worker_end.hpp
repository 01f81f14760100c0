// One end of a connection for benchmarks that run two workers in one thread: a worker on a
// LocalPort with its queues, driven over the queue ABI as a verbs provider drives it. Nothing polls
// in vain, so that counts of instructions are exact.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "abi/mprdma_ring.h"
#include "base/check.hpp"
#include "dataplane/engine/commands.hpp"
#include "dataplane/port/local_port.hpp"
#include "dataplane/sys/address_text.hpp"
#include "dataplane/worker/worker.hpp"

namespace mprdma::bench {

class WorkerEnd {
 public:
  static constexpr uint32_t kDepth = 256;
  static constexpr uint32_t kSendStride = 128;
  static constexpr uint32_t kRecvStride = 64;
  static constexpr uint32_t kMaxSge = 2;
  static constexpr size_t kMemory = 1 << 20;

  // `side` is 0 or 1; the two ends meet at the socket `path`. Each has `qps` queue pairs, which
  // have queues of `depth` requests, kDepth at most, and complete to one queue.
  WorkerEnd(const std::string& path, uint32_t side, const transport::Params& params,
            bool agree_modes, uint32_t qps, uint32_t depth)
      : ip_(0x0a490001 + side), depth_(depth), cqes_(2 * kDepth), pairs_(qps), memory_(kMemory) {
    dataplane::PortResult port = dataplane::LocalPort::open({.path = path, .engine = true});
    CHECK(port);
    dataplane::WorkerConfig config;
    config.ipv4 = ip_;
    config.mac = dataplane::derived_mac(ip_);
    config.seed = 7 + side;
    config.params = params;
    config.agree_modes = agree_modes;
    worker_ = std::make_unique<dataplane::Worker>(config, std::move(port.port), now);
    client_.abi_major = MPRDMA_ABI_MAJOR;
    client_.context = this;
    client_.on_event = [](void*, const mprdma_abi_event*) {};
    worker_->add_client(&client_);
    commands_ = std::make_unique<dataplane::Commands>(*worker_);
    make_objects();
  }

  // Queue pair i of one end is connected with queue pair i of the other one.
  void connect(const WorkerEnd& peer) {
    for (size_t i = 0; i < pairs_.size(); ++i) connect(pairs_[i], peer, peer.pairs_[i].qpn);
    peer_address_ = peer.address();
    peer_key_ = peer.key_;
  }
  // The queue pair of the next calls.
  void choose(uint32_t pair) { chosen_ = &pairs_[pair]; }

  // Posts a WRITE, a READ or a SEND of `bytes`.
  void post(uint8_t opcode, uint32_t bytes) {
    QueuePair& to = *chosen_;
    void* slot =
        mprdma_abi_send_slot(to.send_ring.data(), depth_, kSendStride, to.send_dbr.producer);
    auto* wqe = static_cast<mprdma_abi_send_wqe*>(slot);
    *wqe = mprdma_abi_send_wqe{};
    wqe->opcode = opcode;
    wqe->flags = MPRDMA_ABI_WQE_SIGNALED;
    wqe->num_sge = 1;
    wqe->remote_addr = peer_address_;
    wqe->rkey = peer_key_;
    *reinterpret_cast<mprdma_abi_sge*>(wqe + 1) = {address(), bytes, key_};
    mprdma_abi_store_release(&to.send_dbr.producer, to.send_dbr.producer + 1);
  }
  // A receive for a SEND.
  void post_receive(uint32_t bytes) {
    QueuePair& to = *chosen_;
    void* slot =
        mprdma_abi_recv_slot(to.recv_ring.data(), depth_, kRecvStride, to.recv_dbr.producer);
    auto* wqe = static_cast<mprdma_abi_recv_wqe*>(slot);
    *wqe = mprdma_abi_recv_wqe{};
    wqe->num_sge = 1;
    *reinterpret_cast<mprdma_abi_sge*>(wqe + 1) = {address(), bytes, key_};
    mprdma_abi_store_release(&to.recv_dbr.producer, to.recv_dbr.producer + 1);
    mprdma_abi_ring_doorbell(&worker_->doorbells(), to.doorbell);
  }
  // The worker takes what was posted and sends it, as a post of the provider has it done.
  bool run_sends() { return worker_->run_sends(chosen_->doorbell, now); }
  bool run() { return worker_->run(now); }
  // Returns the number of completions; each has to be a success.
  uint32_t poll() {
    uint32_t found = 0;
    while (const mprdma_abi_cqe* cqe =
               mprdma_abi_peek_cqe(cqes_.data(), 2 * kDepth, cq_dbr_.consumer)) {
      CHECK(cqe->status == MPRDMA_ABI_WC_SUCCESS);
      mprdma_abi_store_release(&cq_dbr_.consumer, cq_dbr_.consumer + 1);
      ++found;
    }
    return found;
  }
  void keep_acks(Duration patience) { worker_->set_ack_patience(patience); }
  void service() { worker_->service(now); }
  [[nodiscard]] bool link_up() const { return worker_->link_up(); }
  [[nodiscard]] bool busy() const { return worker_->busy(); }

  Time now = Time::from_ns(1'000'000);

 private:
  struct alignas(64) SendSlot {
    unsigned char bytes[kSendStride];
  };
  struct alignas(64) RecvSlot {
    unsigned char bytes[kRecvStride];
  };
  struct QueuePair {
    std::vector<SendSlot> send_ring;
    mprdma_abi_queue_dbr send_dbr{};
    std::vector<RecvSlot> recv_ring;
    mprdma_abi_queue_dbr recv_dbr{};
    uint32_t qp = 0;
    uint32_t qpn = 0;
    uint32_t doorbell = 0;
  };
  static constexpr uint32_t kAccess = MPRDMA_ABI_ACCESS_LOCAL_WRITE |
                                      MPRDMA_ABI_ACCESS_REMOTE_WRITE |
                                      MPRDMA_ABI_ACCESS_REMOTE_READ;

  template <class In, class Out>
  void execute(uint32_t command, const In& in, Out* out) {
    const dataplane::Commands::Call call{command, &in, sizeof(in), out, sizeof(*out)};
    CHECK(dataplane::Commands::prepare(call) == 0);
    CHECK(commands_->execute(&client_, call, now) == 0);
  }
  template <class In>
  void execute(uint32_t command, const In& in) {
    const dataplane::Commands::Call call{command, &in, sizeof(in), nullptr, 0};
    CHECK(dataplane::Commands::prepare(call) == 0);
    CHECK(commands_->execute(&client_, call, now) == 0);
  }

  void make_objects() {
    mprdma_abi_handle pd{};
    execute(MPRDMA_ABI_ALLOC_PD, mprdma_abi_handle{}, &pd);
    mprdma_abi_create_cq cq{};
    cq.ring = reinterpret_cast<uint64_t>(cqes_.data());
    cq.dbr = reinterpret_cast<uint64_t>(&cq_dbr_);
    cq.depth = 2 * kDepth;
    mprdma_abi_handle cq_out{};
    execute(MPRDMA_ABI_CREATE_CQ, cq, &cq_out);
    for (QueuePair& pair : pairs_) make_pair(pair, pd.handle, cq_out.handle);
    const mprdma_abi_reg_mr mr{address(), kMemory, address(), pd.handle, kAccess, 0, 0};
    mprdma_abi_reg_mr_out mr_out{};
    execute(MPRDMA_ABI_REG_MR, mr, &mr_out);
    key_ = mr_out.rkey;
  }
  void make_pair(QueuePair& pair, uint32_t pd, uint32_t cq) {
    pair.send_ring.resize(depth_);
    pair.recv_ring.resize(depth_);
    mprdma_abi_create_qp qp{};
    qp.type = MPRDMA_ABI_QP_RC;
    qp.pd = pd;
    qp.send_cq = qp.recv_cq = cq;
    qp.sq = {reinterpret_cast<uint64_t>(pair.send_ring.data()),
             reinterpret_cast<uint64_t>(&pair.send_dbr),
             depth_,
             kSendStride,
             kMaxSge,
             0};
    qp.rq = {reinterpret_cast<uint64_t>(pair.recv_ring.data()),
             reinterpret_cast<uint64_t>(&pair.recv_dbr),
             depth_,
             kRecvStride,
             1,
             0};
    mprdma_abi_create_qp_out out{};
    execute(MPRDMA_ABI_CREATE_QP, qp, &out);
    pair.qp = out.handle;
    pair.qpn = out.qpn;
    pair.doorbell = out.doorbell;
  }
  void connect(const QueuePair& pair, const WorkerEnd& peer, uint32_t dest_qpn) {
    move_to(pair.qp, MPRDMA_ABI_QPS_INIT);
    mprdma_abi_modify_qp in{};
    in.handle = pair.qp;
    in.attr.mask = MPRDMA_ABI_QP_ACCESS | MPRDMA_ABI_QP_PATH | MPRDMA_ABI_QP_PATH_MTU |
                   MPRDMA_ABI_QP_DEST_QPN | MPRDMA_ABI_QP_RQ_PSN | MPRDMA_ABI_QP_SQ_PSN |
                   MPRDMA_ABI_QP_TIMEOUT | MPRDMA_ABI_QP_RETRY_CNT | MPRDMA_ABI_QP_MAX_RD_ATOMIC |
                   MPRDMA_ABI_QP_MAX_DEST_RD_ATOMIC;
    in.attr.access = kAccess;
    in.attr.path_mtu = 4096;
    in.attr.dest_qpn = dest_qpn;
    in.attr.timeout = 14;
    in.attr.retry_cnt = 7;
    in.attr.max_rd_atomic = in.attr.max_dest_rd_atomic = 16;
    in.attr.sgid_index = 1;
    const wire::IpAddress gid = wire::map_ipv4(peer.ip_);
    std::memcpy(in.attr.dgid, gid.data(), gid.size());
    execute(MPRDMA_ABI_MODIFY_QP, in);
    move_to(pair.qp, MPRDMA_ABI_QPS_RTR);
    move_to(pair.qp, MPRDMA_ABI_QPS_RTS);
  }

  void move_to(uint32_t qp, uint32_t state) {
    mprdma_abi_modify_qp in{};
    in.handle = qp;
    in.attr.mask = MPRDMA_ABI_QP_STATE;
    in.attr.state = state;
    execute(MPRDMA_ABI_MODIFY_QP, in);
  }
  [[nodiscard]] uint64_t address() const { return reinterpret_cast<uint64_t>(memory_.data()); }

  Ipv4 ip_;
  uint32_t depth_;
  std::vector<mprdma_abi_cqe> cqes_;
  mprdma_abi_cq_dbr cq_dbr_{};
  std::vector<QueuePair> pairs_;
  QueuePair* chosen_ = pairs_.data();
  std::vector<unsigned char> memory_;
  mprdma_abi_client client_{};
  std::unique_ptr<dataplane::Worker> worker_;
  std::unique_ptr<dataplane::Commands> commands_;
  uint32_t key_ = 0;
  uint64_t peer_address_ = 0;
  uint32_t peer_key_ = 0;
};

}  // namespace mprdma::bench
