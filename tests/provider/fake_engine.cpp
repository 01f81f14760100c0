#include "tests/provider/fake_engine.hpp"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <mutex>
#include <string>
#include <utility>

#include "abi/mprdma_abi.h"
#include "abi/mprdma_ring.h"
#include "dataplane/engine.h"
#include "tests/provider/fake_engine_state.hpp"

namespace mprdma::provider_test {
namespace {

void (*before_event)() = nullptr;
thread_local bool in_before_event = false;  // we hold the mutex and run the queues already

void raise(Connection* to, uint32_t type, uint64_t cookie, uint32_t arm_serial = 0) {
  const mprdma_abi_event event{type, arm_serial, cookie};
  to->client.on_event(to->client.context, &event);
}

void fire_if_armed(Cq& cq, bool solicited_or_error) {
  const uint32_t arm = mprdma_abi_load_acquire(&cq.dbr->arm);
  if (arm == cq.fired_arm) return;
  if ((arm & 3u) == MPRDMA_ABI_ARM_SOLICITED && !solicited_or_error) return;
  cq.fired_arm = arm;
  // What a thread of the application did at this moment comes before the event.
  if (before_event != nullptr) {
    in_before_event = true;
    std::exchange(before_event, nullptr)();
    in_before_event = false;
  }
  raise(cq.owner, MPRDMA_ABI_EVENT_COMPLETION, cq.cookie, arm >> 2);
}

void complete(Cq& cq, const mprdma_abi_cqe& cqe) {
  if (cq.producer - mprdma_abi_load_acquire(&cq.dbr->consumer) >= cq.depth) {
    raise(cq.owner, MPRDMA_ABI_EVENT_CQ_ERR, cq.cookie);
    return;
  }
  mprdma_abi_cqe& slot = cq.ring[cq.producer & (cq.depth - 1)];
  std::memcpy(&slot, &cqe, offsetof(mprdma_abi_cqe, sequence));
  mprdma_abi_store_release(&slot.sequence, ++cq.producer);
  fire_if_armed(cq, (cqe.flags & MPRDMA_ABI_CQE_SOLICITED) != 0 || cqe.status != 0);
}

uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

mprdma_abi_cqe make_cqe(const Qp& qp, uint64_t wr_id, uint8_t opcode, uint8_t status,
                        uint32_t bytes) {
  mprdma_abi_cqe cqe{};
  cqe.wr_id = wr_id;
  cqe.opcode = opcode;
  cqe.status = status;
  cqe.byte_len = bytes;
  cqe.qpn = qp.qpn;
  cqe.src_qpn = qp.attr.dest_qpn;
  cqe.qp_cookie = qp.init.cookie;
  cqe.timestamp_ns = now_ns();
  return cqe;
}

uint8_t wc_opcode(uint8_t opcode) {
  switch (opcode) {
    case MPRDMA_ABI_WRITE:
    case MPRDMA_ABI_WRITE_IMM:
      return MPRDMA_ABI_WC_WRITE;
    case MPRDMA_ABI_READ:
      return MPRDMA_ABI_WC_READ;
    case MPRDMA_ABI_COMPARE_SWAP:
      return MPRDMA_ABI_WC_COMPARE_SWAP;
    case MPRDMA_ABI_FETCH_ADD:
      return MPRDMA_ABI_WC_FETCH_ADD;
    case MPRDMA_ABI_BIND_MW:
      return MPRDMA_ABI_WC_BIND_MW;
    case MPRDMA_ABI_LOCAL_INVALIDATE:
      return MPRDMA_ABI_WC_LOCAL_INVALIDATE;
    case MPRDMA_ABI_ATOMIC_WRITE:
      return MPRDMA_ABI_WC_ATOMIC_WRITE;
    default:
      return MPRDMA_ABI_WC_SEND;
  }
}

// What a remote key opens: a region, or what a window is bound to.
const mprdma_abi_reg_mr* opened_by(uint32_t rkey) {
  const auto found = engine().mrs.find(rkey);
  if (found != engine().mrs.end()) return &found->second;
  for (const auto& [handle, window] : engine().windows) {
    if (window.rkey == rkey && window.bound.length > 0) return &window.bound;
  }
  return nullptr;
}

// Address in the process of a remote range, or nullptr.
char* remote(const mprdma_abi_send_wqe& wqe, uint64_t bytes, uint32_t need) {
  const mprdma_abi_reg_mr* mr = opened_by(wqe.rkey);
  if (mr == nullptr || (mr->access & need) == 0 || wqe.remote_addr < mr->iova) return nullptr;
  if (wqe.remote_addr + bytes > mr->iova + mr->length) return nullptr;
  return reinterpret_cast<char*>(mr->addr + (wqe.remote_addr - mr->iova));
}

// Where messages to this QP go.
Receives receives_of(const Qp& qp, uint32_t xrc_srqn) {
  const uint32_t srq = qp.init.type == MPRDMA_ABI_QP_XRC_RECV ? xrc_srqn : qp.init.srq;
  if (srq == 0) return {qp.init.rq, qp.init.recv_cq};
  const Srq& shared = engine().srqs.at(srq);
  return {shared.init.rq,
          shared.init.type == MPRDMA_ABI_SRQ_XRC ? shared.init.recv_cq : qp.init.recv_cq};
}

void raise_limit(uint32_t handle) {
  const auto found = engine().srqs.find(handle);
  if (found == engine().srqs.end() || found->second.limit == 0) return;
  Srq& srq = found->second;
  if (Receives{srq.init.rq, 0}.left() < srq.limit) {
    srq.limit = 0;
    raise(srq.owner, MPRDMA_ABI_EVENT_SRQ_LIMIT_REACHED, srq.init.cookie);
  }
}

void flush(Qp& qp) {
  Engine& e = engine();
  mprdma_abi_queue_dbr* dbr = qp.sq_dbr();
  while (dbr != nullptr && dbr->consumer != mprdma_abi_load_acquire(&dbr->producer)) {
    const auto* wqe = mprdma_abi_send_slot(reinterpret_cast<void*>(qp.init.sq.ring),
                                           qp.init.sq.depth, qp.init.sq.stride, dbr->consumer);
    complete(e.cqs.at(qp.init.send_cq),
             make_cqe(qp, wqe->wr_id, wc_opcode(wqe->opcode), MPRDMA_ABI_WC_WR_FLUSH_ERR, 0));
    mprdma_abi_store_release(&dbr->consumer, dbr->consumer + 1);
  }
  if (qp.init.srq != 0) raise(qp.owner, MPRDMA_ABI_EVENT_QP_LAST_WQE_REACHED, qp.init.cookie);
  dbr = qp.rq_dbr();
  while (dbr != nullptr && dbr->consumer != mprdma_abi_load_acquire(&dbr->producer)) {
    const auto* wqe = mprdma_abi_recv_slot(reinterpret_cast<void*>(qp.init.rq.ring),
                                           qp.init.rq.depth, qp.init.rq.stride, dbr->consumer);
    complete(e.cqs.at(qp.init.recv_cq),
             make_cqe(qp, wqe->wr_id, MPRDMA_ABI_WC_RECV, MPRDMA_ABI_WC_WR_FLUSH_ERR, 0));
    mprdma_abi_store_release(&dbr->consumer, dbr->consumer + 1);
  }
}

enum class Outcome { kDone, kWait, kRemoteAccess };

// Takes a receive of the peer and completes it; data may be empty (WRITE with immediate).
Outcome deliver(Qp& peer, const mprdma_abi_send_wqe& wqe, const std::string& data,
                uint32_t written) {
  const Receives receives = receives_of(peer, wqe.xrc_srqn);
  if (receives.left() == 0) return Outcome::kWait;
  const auto* recv = receives.head();
  const Pieces pieces{reinterpret_cast<const mprdma_abi_sge*>(recv + 1), recv->num_sge};
  const bool is_write = wqe.opcode == MPRDMA_ABI_WRITE_IMM;
  pieces.write(data.data(), data.size());
  mprdma_abi_cqe cqe =
      make_cqe(peer, recv->wr_id, is_write ? MPRDMA_ABI_WC_RECV_WRITE_IMM : MPRDMA_ABI_WC_RECV,
               MPRDMA_ABI_WC_SUCCESS, is_write ? written : static_cast<uint32_t>(data.size()));
  if (wqe.opcode == MPRDMA_ABI_SEND_IMM || is_write) cqe.flags |= MPRDMA_ABI_CQE_IMM;
  if (wqe.opcode == MPRDMA_ABI_SEND_INVALIDATE) cqe.flags |= MPRDMA_ABI_CQE_INVALIDATED;
  if (peer.init.type == MPRDMA_ABI_QP_UD) cqe.flags |= MPRDMA_ABI_CQE_GRH;
  cqe.imm_or_rkey = wqe.imm_or_rkey;
  if ((wqe.flags & MPRDMA_ABI_WQE_SOLICITED) != 0) cqe.flags |= MPRDMA_ABI_CQE_SOLICITED;
  receives.pop();
  complete(engine().cqs.at(receives.cq), cqe);
  raise_limit(peer.init.type == MPRDMA_ABI_QP_XRC_RECV ? wqe.xrc_srqn : peer.init.srq);
  return Outcome::kDone;
}

// A datagram: to one queue pair, or to each that is attached to the group. Nobody waits.
Outcome deliver_datagram(const mprdma_abi_send_wqe& wqe, const std::string& data) {
  const auto ah = engine().ahs.find(wqe.ah);
  if (ah == engine().ahs.end()) return Outcome::kRemoteAccess;
  const std::string with_grh = std::string(kGrhBytes, 'g') + data;
  const std::string group(reinterpret_cast<const char*>(ah->second.dgid), 16);
  const auto [first, last] = engine().groups.equal_range(group);
  for (auto it = first; it != last; ++it) deliver(engine().qps.at(it->second), wqe, with_grh, 0);
  const auto peer = engine().qps.find(wqe.remote_qpn);
  if (first == last && peer != engine().qps.end() && peer->second.attr.qkey == wqe.remote_qkey) {
    deliver(peer->second, wqe, with_grh, 0);
  }
  return Outcome::kDone;
}

Outcome bind(const mprdma_abi_send_wqe& wqe) {
  for (auto& [handle, window] : engine().windows) {
    if (window.rkey != wqe.rkey) continue;
    window.rkey = wqe.imm_or_rkey;
    window.bound = {};
    if (wqe.compare_add == 0) return Outcome::kDone;
    const auto mr = engine().mrs.find(static_cast<uint32_t>(wqe.swap));
    if (mr == engine().mrs.end() || (mr->second.access & MPRDMA_ABI_ACCESS_MW_BIND) == 0) {
      return Outcome::kRemoteAccess;
    }
    const bool zero_based = (wqe.remote_qkey & MPRDMA_ABI_ACCESS_ZERO_BASED) != 0;
    window.bound.addr = mr->second.addr + (wqe.remote_addr - mr->second.iova);
    window.bound.iova = zero_based ? 0 : wqe.remote_addr;
    window.bound.length = wqe.compare_add;
    window.bound.access = wqe.remote_qkey;
    return Outcome::kDone;
  }
  return Outcome::kRemoteAccess;
}

void invalidate(uint32_t rkey) {
  for (auto& [handle, window] : engine().windows) {
    if (window.rkey == rkey) window.bound = {};
  }
}

Outcome execute_atomic(const mprdma_abi_send_wqe& wqe, const Pieces& pieces) {
  char* at = remote(wqe, sizeof(uint64_t), MPRDMA_ABI_ACCESS_REMOTE_ATOMIC);
  if (at == nullptr) return Outcome::kRemoteAccess;
  uint64_t before = 0;
  std::memcpy(&before, at, sizeof(before));
  const bool swaps = wqe.opcode == MPRDMA_ABI_COMPARE_SWAP;
  uint64_t after = swaps ? wqe.swap : before + wqe.compare_add;
  if (swaps && before != wqe.compare_add) after = before;
  std::memcpy(at, &after, sizeof(after));
  pieces.write(reinterpret_cast<const char*>(&before), sizeof(before));
  return Outcome::kDone;
}

Outcome execute_wqe(Qp& qp, const mprdma_abi_send_wqe& wqe, uint32_t& bytes) {
  std::string data;
  const Pieces pieces{reinterpret_cast<const mprdma_abi_sge*>(&wqe + 1), wqe.num_sge};
  if ((wqe.flags & MPRDMA_ABI_WQE_INLINE) != 0) {
    data.assign(reinterpret_cast<const char*>(&wqe + 1), wqe.inline_bytes);
  } else {
    data.resize(pieces.bytes());
    if (wqe.opcode != MPRDMA_ABI_READ) pieces.read(data.data());
  }
  bytes = static_cast<uint32_t>(data.size());
  if (wqe.opcode == MPRDMA_ABI_BIND_MW) return bind(wqe);
  if (wqe.opcode == MPRDMA_ABI_COMPARE_SWAP || wqe.opcode == MPRDMA_ABI_FETCH_ADD) {
    return execute_atomic(wqe, pieces);
  }
  if (wqe.opcode == MPRDMA_ABI_LOCAL_INVALIDATE) {
    invalidate(wqe.imm_or_rkey);
    return Outcome::kDone;
  }
  if (wqe.opcode == MPRDMA_ABI_READ) {
    const char* from = remote(wqe, bytes, MPRDMA_ABI_ACCESS_REMOTE_READ);
    if (from == nullptr) return Outcome::kRemoteAccess;
    pieces.write(from, bytes);
    return Outcome::kDone;
  }
  if (qp.init.type == MPRDMA_ABI_QP_UD) return deliver_datagram(wqe, data);
  const auto peer = engine().qps.find(qp.attr.dest_qpn);
  if (peer == engine().qps.end()) return Outcome::kWait;
  if (wqe.opcode == MPRDMA_ABI_SEND_INVALIDATE) invalidate(wqe.imm_or_rkey);
  if (wqe.opcode <= MPRDMA_ABI_SEND_INVALIDATE) return deliver(peer->second, wqe, data, 0);
  char* to = remote(wqe, bytes, MPRDMA_ABI_ACCESS_REMOTE_WRITE);
  if (to == nullptr) return Outcome::kRemoteAccess;
  std::memcpy(to, data.data(), bytes);
  return wqe.opcode == MPRDMA_ABI_WRITE_IMM ? deliver(peer->second, wqe, "", bytes)
                                            : Outcome::kDone;
}

void run_qp(Qp& qp) {
  if (qp.attr.state == MPRDMA_ABI_QPS_ERR) {
    flush(qp);
    return;
  }
  if (qp.attr.state != MPRDMA_ABI_QPS_RTS || qp.sq_dbr() == nullptr) return;
  mprdma_abi_queue_dbr* dbr = qp.sq_dbr();
  while (dbr->consumer != mprdma_abi_load_acquire(&dbr->producer)) {
    const auto* wqe = mprdma_abi_send_slot(reinterpret_cast<void*>(qp.init.sq.ring),
                                           qp.init.sq.depth, qp.init.sq.stride, dbr->consumer);
    uint32_t bytes = 0;
    if ((wqe->flags & MPRDMA_ABI_WQE_SYNCHRONISE) != 0) qp.asked.synchronised++;
    const Outcome outcome = execute_wqe(qp, *wqe, bytes);
    if (outcome == Outcome::kWait) return;
    const bool failed = outcome == Outcome::kRemoteAccess;
    const bool binds = wqe->opcode == MPRDMA_ABI_BIND_MW;
    if (failed || (wqe->flags & MPRDMA_ABI_WQE_SIGNALED) != 0) {
      complete(engine().cqs.at(qp.init.send_cq), make_cqe(qp, wqe->wr_id, wc_opcode(wqe->opcode),
                                                          !failed ? MPRDMA_ABI_WC_SUCCESS
                                                          : binds ? MPRDMA_ABI_WC_MW_BIND_ERR
                                                                  : MPRDMA_ABI_WC_REM_ACCESS_ERR,
                                                          bytes));
    }
    mprdma_abi_store_release(&dbr->consumer, dbr->consumer + 1);
    if (failed) {
      qp.attr.state = MPRDMA_ABI_QPS_ERR;
      flush(qp);
      return;
    }
  }
}

bool take_doorbell(uint32_t index) {
  const uint64_t bit = 1ull << (index % 64);
  return (__atomic_fetch_and(&engine().doorbells.word[index / 64], ~bit, __ATOMIC_SEQ_CST) & bit) !=
         0;
}

// A QP that works is always looked at (it may have had to wait for its peer); one in error only
// when its doorbell rang, so that a provider which does not ring is found out.
void run_all() {
  if (engine().hold) return;
  for (auto& [handle, qp] : engine().qps) {
    if (take_doorbell(handle % MPRDMA_ABI_MAX_QPS) || qp.attr.state == MPRDMA_ABI_QPS_RTS)
      run_qp(qp);
  }
}

template <class T>
const T& input(const void* in) {
  return *static_cast<const T*>(in);
}

int create_cq(Connection* owner, const mprdma_abi_create_cq& in, mprdma_abi_handle& out) {
  out.handle = engine().next_handle++;
  engine().cqs[out.handle] = Cq{owner, reinterpret_cast<mprdma_abi_cqe*>(in.ring),
                                reinterpret_cast<mprdma_abi_cq_dbr*>(in.dbr), in.cookie, in.depth};
  return 0;
}

int resize_cq(const mprdma_abi_resize_cq& in) {
  Cq& cq = engine().cqs.at(in.handle);
  auto* ring = reinterpret_cast<mprdma_abi_cqe*>(in.ring);
  const uint32_t first = mprdma_abi_load_acquire(&cq.dbr->consumer);
  if (cq.producer - first > in.depth) return EINVAL;
  uint32_t moved = 0;
  for (uint32_t i = first; i != cq.producer; i++) {
    ring[moved] = cq.ring[i & (cq.depth - 1)];
    ring[moved].sequence = moved + 1;
    moved++;
  }
  cq.ring = ring;
  cq.dbr = reinterpret_cast<mprdma_abi_cq_dbr*>(in.dbr);
  cq.depth = in.depth;
  cq.producer = moved;
  return 0;
}

// Refuses one mode, so that a test can see how that comes out.
int create_qp(Connection* owner, const void* input, size_t in_bytes,
              mprdma_abi_create_qp_out& out) {
  const auto& in = *static_cast<const mprdma_abi_create_qp*>(input);
  FakeQp asked{};
  asked.create_bytes = in_bytes;
  const mprdma_abi_qp_transport& wanted = in.transport;
  if (wanted.mode == MPRDMA_ABI_MODE_IRN) return EOPNOTSUPP;
  asked.mode = wanted.mode;
  asked.initial_window = wanted.initial_window;
  asked.window_max = wanted.window_max;
  asked.reorder_delta = wanted.reorder_delta;
  asked.window_slots = wanted.window_slots;
  out.handle = engine().next_handle++;
  out.qpn = out.handle;
  out.doorbell = out.handle % MPRDMA_ABI_MAX_QPS;
  Qp qp{owner, in, {}, out.qpn, asked};
  engine().qps.emplace(out.handle, qp);
  return 0;
}

void apply(Qp& qp, const mprdma_abi_qp_attr& attr) {
  if ((attr.mask & MPRDMA_ABI_QP_STATE) != 0) qp.attr.state = attr.state;
  if ((attr.mask & MPRDMA_ABI_QP_ACCESS) != 0) qp.attr.access = attr.access;
  if ((attr.mask & MPRDMA_ABI_QP_PATH_MTU) != 0) qp.attr.path_mtu = attr.path_mtu;
  if ((attr.mask & MPRDMA_ABI_QP_DEST_QPN) != 0) qp.attr.dest_qpn = attr.dest_qpn;
  if ((attr.mask & MPRDMA_ABI_QP_RQ_PSN) != 0) qp.attr.rq_psn = attr.rq_psn;
  if ((attr.mask & MPRDMA_ABI_QP_SQ_PSN) != 0) qp.attr.sq_psn = attr.sq_psn;
  if ((attr.mask & MPRDMA_ABI_QP_TIMEOUT) != 0) qp.attr.timeout = attr.timeout;
  if ((attr.mask & MPRDMA_ABI_QP_QKEY) != 0) qp.attr.qkey = attr.qkey;
  if (attr.state == MPRDMA_ABI_QPS_ERR) flush(qp);
  if (attr.state == MPRDMA_ABI_QPS_RESET && (attr.mask & MPRDMA_ABI_QP_STATE) != 0) {
    if (qp.sq_dbr() != nullptr) qp.sq_dbr()->consumer = qp.sq_dbr()->producer;
    if (qp.rq_dbr() != nullptr) qp.rq_dbr()->consumer = qp.rq_dbr()->producer;
  }
}

// Numbers that can be told from each other.
mprdma_abi_qp_stats stats_of(const Qp& qp) {
  mprdma_abi_qp_stats out{};
  out.time_ns = 11;
  out.qpn = qp.qpn;
  out.dest_qpn = qp.attr.dest_qpn;
  out.state = qp.attr.state;
  out.mode = MPRDMA_ABI_MODE_MP;
  out.dgid[15] = 12;
  out.bytes_out = 13;
  out.requests.window_q16 = 54u << 16;
  out.requests.srtt_ns = 14;
  out.requests.retransmitted_probe = 15;
  out.responses.window_reductions = 16;
  return out;
}

int create_srq(Connection* owner, const mprdma_abi_create_srq& in, mprdma_abi_srq_out& out) {
  out.handle = out.srqn = engine().next_handle++;
  engine().srqs[out.handle] = Srq{owner, in, in.limit};
  return 0;
}

int modify_srq(const mprdma_abi_modify_srq& in) {
  Srq& srq = engine().srqs.at(in.handle);
  if ((in.mask & MPRDMA_ABI_SRQ_RING) != 0) {
    const Receives from{srq.init.rq, 0};
    const Receives to{in.rq, 0};
    if (from.left() > in.rq.depth) return EINVAL;
    uint32_t moved = 0;
    for (uint32_t i = from.dbr()->consumer; i != from.dbr()->producer; ++i, ++moved) {
      std::memcpy(mprdma_abi_recv_slot(reinterpret_cast<void*>(in.rq.ring), in.rq.depth,
                                       in.rq.stride, moved),
                  mprdma_abi_recv_slot(reinterpret_cast<void*>(srq.init.rq.ring), srq.init.rq.depth,
                                       srq.init.rq.stride, i),
                  in.rq.stride);
    }
    to.dbr()->producer = moved;
    srq.init.rq = in.rq;
  }
  if ((in.mask & MPRDMA_ABI_SRQ_LIMIT) != 0) {
    srq.limit = in.limit;
    raise_limit(in.handle);
  }
  return 0;
}

int change_group(const mprdma_abi_mcast& in, bool attach) {
  const std::string group(reinterpret_cast<const char*>(in.mgid), sizeof(in.mgid));
  if (attach) {
    engine().groups.emplace(group, in.qp);
    return 0;
  }
  const auto [first, last] = engine().groups.equal_range(group);
  for (auto it = first; it != last; ++it) {
    if (it->second == in.qp) {
      engine().groups.erase(it);
      return 0;
    }
  }
  return EINVAL;
}

int reregister(const mprdma_abi_rereg_mr& in, mprdma_abi_reg_mr_out& out) {
  mprdma_abi_reg_mr& mr = engine().mrs.at(in.handle);
  if ((in.what & MPRDMA_ABI_REREG_TRANSLATION) != 0) {
    mr.addr = in.mr.addr;
    mr.length = in.mr.length;
    mr.iova = in.mr.iova;
  }
  if ((in.what & MPRDMA_ABI_REREG_PD) != 0) mr.pd = in.mr.pd;
  if ((in.what & MPRDMA_ABI_REREG_ACCESS) != 0) mr.access = in.mr.access;
  out.handle = out.lkey = out.rkey = in.handle;
  return 0;
}

// What only an engine with more than the few features is asked.
int dispatch_more(Connection* owner, uint32_t command, const void* in, void* out) {
  Engine& e = engine();
  const uint32_t handle = in != nullptr ? input<mprdma_abi_handle>(in).handle : 0;
  switch (command) {
    case MPRDMA_ABI_CREATE_SRQ:
      return create_srq(owner, input<mprdma_abi_create_srq>(in),
                        *static_cast<mprdma_abi_srq_out*>(out));
    case MPRDMA_ABI_MODIFY_SRQ:
      return modify_srq(input<mprdma_abi_modify_srq>(in));
    case MPRDMA_ABI_QUERY_SRQ:
      *static_cast<mprdma_abi_srq_info*>(out) = {e.srqs.at(handle).limit,
                                                 e.srqs.at(handle).init.rq.depth};
      return 0;
    case MPRDMA_ABI_DESTROY_SRQ:
      return e.srqs.erase(handle) == 1 ? 0 : EINVAL;
    case MPRDMA_ABI_ALLOC_XRCD:
      e.xrcds.insert(static_cast<mprdma_abi_handle*>(out)->handle = e.next_handle++);
      return 0;
    case MPRDMA_ABI_FREE_XRCD:
      return e.xrcds.erase(handle) == 1 ? 0 : EINVAL;
    case MPRDMA_ABI_CREATE_AH:
      static_cast<mprdma_abi_handle*>(out)->handle = e.next_handle;
      e.ahs[e.next_handle++] = input<mprdma_abi_create_ah>(in);
      return 0;
    case MPRDMA_ABI_DESTROY_AH:
      return e.ahs.erase(handle) == 1 ? 0 : EINVAL;
    case MPRDMA_ABI_ALLOC_MW: {
      const uint32_t rkey = 0x40000000u + (e.next_handle << 8);
      *static_cast<mprdma_abi_mw_out*>(out) = {e.next_handle, rkey};
      e.windows[e.next_handle++] = Window{input<mprdma_abi_alloc_mw>(in), rkey};
      return 0;
    }
    case MPRDMA_ABI_DEALLOC_MW:
      return e.windows.erase(handle) == 1 ? 0 : EINVAL;
    case MPRDMA_ABI_ATTACH_MCAST:
    case MPRDMA_ABI_DETACH_MCAST:
      return change_group(input<mprdma_abi_mcast>(in), command == MPRDMA_ABI_ATTACH_MCAST);
    case MPRDMA_ABI_MODIFY_CQ:
      e.moderation = input<mprdma_abi_modify_cq>(in);
      return 0;
    case MPRDMA_ABI_REREG_MR:
      return reregister(input<mprdma_abi_rereg_mr>(in), *static_cast<mprdma_abi_reg_mr_out*>(out));
    case MPRDMA_ABI_CM_OPEN:
      return e.cm.open(owner, input<mprdma_abi_cm_open>(in));
    case MPRDMA_ABI_CM:
      return e.cm.execute(owner, input<mprdma_abi_cm_command>(in),
                          *static_cast<mprdma_abi_cm_result*>(out));
    default:
      return EOPNOTSUPP;
  }
}

int dispatch(Connection* owner, uint32_t command, const void* in, size_t in_bytes, void* out) {
  Engine& e = engine();
  const uint32_t handle = in != nullptr ? input<mprdma_abi_handle>(in).handle : 0;
  switch (command) {
    case MPRDMA_ABI_QUERY_DEVICE:
      mprdma_engine_limits(static_cast<mprdma_abi_device_info*>(out));
      return 0;
    case MPRDMA_ABI_QUERY_PORT: {
      auto& port = *static_cast<mprdma_abi_port_info*>(out);
      port.active = 1;
      port.max_mtu = 4096;
      port.active_mtu = 1024;
      return 0;
    }
    case MPRDMA_ABI_ALLOC_PD:
      e.pds++;
      static_cast<mprdma_abi_handle*>(out)->handle = e.next_handle++;
      return 0;
    case MPRDMA_ABI_FREE_PD:
      e.pds--;
      return 0;
    case MPRDMA_ABI_REG_MR: {
      auto& mr = *static_cast<mprdma_abi_reg_mr_out*>(out);
      mr.handle = mr.lkey = mr.rkey = e.next_handle++;
      e.mrs[mr.handle] = input<mprdma_abi_reg_mr>(in);
      return 0;
    }
    case MPRDMA_ABI_DEREG_MR:
      return e.mrs.erase(handle) == 1 ? 0 : EINVAL;
    case MPRDMA_ABI_CREATE_CQ:
      return create_cq(owner, input<mprdma_abi_create_cq>(in),
                       *static_cast<mprdma_abi_handle*>(out));
    case MPRDMA_ABI_RESIZE_CQ:
      return resize_cq(input<mprdma_abi_resize_cq>(in));
    case MPRDMA_ABI_DESTROY_CQ:
      return e.cqs.erase(handle) == 1 ? 0 : EINVAL;
    case MPRDMA_ABI_CREATE_QP:
      return create_qp(owner, in, in_bytes, *static_cast<mprdma_abi_create_qp_out*>(out));
    case MPRDMA_ABI_QUERY_QP_STATS:
      *static_cast<mprdma_abi_qp_stats*>(out) = stats_of(e.qps.at(handle));
      return 0;
    case MPRDMA_ABI_MODIFY_QP:
      apply(e.qps.at(handle), input<mprdma_abi_modify_qp>(in).attr);
      return 0;
    case MPRDMA_ABI_QUERY_QP:
      *static_cast<mprdma_abi_qp_attr*>(out) = e.qps.at(handle).attr;
      return 0;
    case MPRDMA_ABI_DESTROY_QP:
      for (const auto& [group, qp] : e.groups) {
        if (qp == handle) return EBUSY;
      }
      return e.qps.erase(handle) == 1 ? 0 : EINVAL;
    default:
      return dispatch_more(owner, command, in, out);
  }
}

int execute(void* opaque, uint32_t command, const void* in, size_t in_bytes, void* out, size_t) {
  const std::lock_guard lock(engine().mutex);
  return dispatch(static_cast<Connection*>(opaque), command, in, in_bytes, out);
}

void progress(void*) {
  if (in_before_event) return;
  const std::lock_guard lock(engine().mutex);
  engine().progress_calls++;
  run_all();
}

}  // namespace

uint32_t fake_engine_connects() {
  const std::lock_guard lock(engine().mutex);
  return engine().connects;
}

uint32_t fake_engine_objects() {
  Engine& e = engine();
  const std::lock_guard lock(e.mutex);
  return e.connections + e.pds +
         static_cast<uint32_t>(e.mrs.size() + e.cqs.size() + e.qps.size() + e.srqs.size() +
                               e.windows.size() + e.ahs.size() + e.xrcds.size() + e.groups.size());
}

bool fake_engine_raise_qp(uint32_t type, uint32_t qpn) {
  const std::lock_guard lock(engine().mutex);
  const auto found = engine().qps.find(qpn);
  if (found == engine().qps.end()) return false;
  raise(found->second.owner, type, found->second.init.cookie);
  return true;
}

void fake_engine_raise_port(uint32_t type) {
  const std::lock_guard lock(engine().mutex);
  if (engine().any != nullptr) raise(engine().any, type, 1);
}

void fake_engine_before_event(void (*call)()) {
  before_event = call;
}

void fake_engine_hold(bool hold) {
  const std::lock_guard lock(engine().mutex);
  engine().hold = hold;
}

bool fake_engine_mr(uint32_t lkey, FakeMr* out) {
  const std::lock_guard lock(engine().mutex);
  const auto found = engine().mrs.find(lkey);
  if (found == engine().mrs.end()) return false;
  *out = {found->second.addr, found->second.length, found->second.iova, found->second.access,
          found->second.flags};
  return true;
}

FakeModeration fake_engine_moderation() {
  const std::lock_guard lock(engine().mutex);
  return {engine().moderation.count, engine().moderation.period_us};
}

void fake_engine_features(uint64_t features) {
  const std::lock_guard lock(engine().mutex);
  engine().features = features;
}

bool fake_engine_qp(uint32_t qpn, FakeQp* out) {
  const std::lock_guard lock(engine().mutex);
  const auto found = engine().qps.find(qpn);
  if (found == engine().qps.end()) return false;
  *out = found->second.asked;
  return true;
}

uint32_t fake_engine_cm_ids() {
  const std::lock_guard lock(engine().mutex);
  return engine().cm.ids();
}

void fake_engine_cm_fail(uint32_t op, int error) {
  const std::lock_guard lock(engine().mutex);
  engine().cm.fail_next(op, error);
}

void fake_engine_cm_last(uint32_t op, mprdma_abi_cm_command* out) {
  const std::lock_guard lock(engine().mutex);
  *out = engine().cm.last(op);
}

bool fake_engine_cm_raise(uint32_t type, uint32_t id) {
  const std::lock_guard lock(engine().mutex);
  return engine().cm.raise(type, id);
}

uint64_t fake_engine_progress_calls() {
  const std::lock_guard lock(engine().mutex);
  return engine().progress_calls;
}

}  // namespace mprdma::provider_test

using mprdma::provider_test::Connection;
using mprdma::provider_test::engine;

int mprdma_engine_connect(const mprdma_abi_client* client, mprdma_abi_channel* channel) {
  if (client->abi_major != MPRDMA_ABI_MAJOR) return EPROTONOSUPPORT;
  const std::lock_guard lock(engine().mutex);
  auto* connection = new Connection{*client};
  *channel = mprdma_abi_channel{MPRDMA_ABI_MAJOR,
                                MPRDMA_ABI_MINOR,
                                engine().features,
                                connection,
                                &engine().doorbells,
                                mprdma::provider_test::execute,
                                mprdma::provider_test::progress,
                                mprdma::provider_test::progress,
                                mprdma::provider_test::progress};
  engine().any = connection;
  engine().connections++;
  engine().connects++;
  return 0;
}

void mprdma_engine_disconnect(mprdma_abi_channel* channel) {
  const std::lock_guard lock(engine().mutex);
  if (engine().any == channel->engine) engine().any = nullptr;
  engine().cm.forget(channel->engine);
  delete static_cast<Connection*>(channel->engine);
  engine().connections--;
}

void mprdma_engine_limits(mprdma_abi_device_info* info) {
  *info = mprdma_abi_device_info{};
  info->max_mr_bytes = 1ull << 40;
  info->max_qps = 1000;
  info->max_qp_wr = 4096;
  info->max_sge = 16;
  info->max_sge_rd = 16;
  info->max_inline_bytes = 512;
  info->max_cqs = 1000;
  info->max_cqe = 65536;
  info->max_mrs = 1000;
  info->max_pds = 1000;
  info->max_rd_atomic = 16;
  info->modes = 1u << MPRDMA_ABI_MODE_MP;
  info->max_srqs = 1000;
  info->max_srq_wr = 4096;
  info->max_srq_sge = 16;
  info->max_mws = 1000;
  info->max_xrcds = 1000;
  info->max_ahs = 1000;
  info->max_mcast_groups = 100;
  info->max_mcast_qps = 10;
  info->features = static_cast<uint32_t>(engine().features);
}
