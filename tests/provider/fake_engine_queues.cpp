// The queues of the fake engine: it executes requests of a send queue in the peer's memory and
// receive queue at once, and raises completions and events.
#include <cstddef>
#include <cstring>
#include <ctime>
#include <mutex>
#include <string>
#include <utility>

#include "abi/mprdma_abi.h"
#include "abi/mprdma_ring.h"
#include "tests/provider/fake_engine_state.hpp"

namespace mprdma::provider_test {
namespace {

void (*before_event)() = nullptr;
thread_local bool in_before_event = false;  // we hold the mutex and run the queues already

void fire_if_armed(Cq& cq, bool solicited_or_error) {
  const uint32_t arm = mprdma_abi_load_acquire(&cq.dbr->arm);
  if (arm == cq.fired_arm) return;
  if ((arm & 3u) == MPRDMA_ABI_ARM_SOLICITED && !solicited_or_error) return;
  cq.fired_arm = arm;
  // Lets a test act as another thread of the application just before the event.
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

}  // namespace

void raise(Connection* to, uint32_t type, uint64_t cookie, uint32_t arm_serial) {
  const mprdma_abi_event event{type, arm_serial, cookie};
  to->client.on_event(to->client.context, &event);
}

void raise_limit(uint32_t handle) {
  Srq* srq = find(engine().srqs, handle);
  if (srq == nullptr || srq->limit == 0) return;
  if (Receives{srq->init.rq, 0}.left() < srq->limit) {
    srq->limit = 0;
    raise(srq->owner, MPRDMA_ABI_EVENT_SRQ_LIMIT_REACHED, srq->init.cookie);
  }
}

void flush(Qp& qp) {
  Engine& e = engine();
  mprdma_abi_queue_dbr* dbr = qp.sq_dbr();
  while (has_work(dbr)) {
    const auto* wqe = send_slot(qp.init.sq, dbr->consumer);
    complete(e.cqs.at(qp.init.send_cq),
             make_cqe(qp, wqe->wr_id, wc_opcode(wqe->opcode), MPRDMA_ABI_WC_WR_FLUSH_ERR, 0));
    pop(dbr);
  }
  if (qp.init.srq != 0) raise(qp.owner, MPRDMA_ABI_EVENT_QP_LAST_WQE_REACHED, qp.init.cookie);
  dbr = qp.rq_dbr();
  while (has_work(dbr)) {
    complete(e.cqs.at(qp.init.recv_cq),
             make_cqe(qp, recv_slot(qp.init.rq, dbr->consumer)->wr_id, MPRDMA_ABI_WC_RECV,
                      MPRDMA_ABI_WC_WR_FLUSH_ERR, 0));
    pop(dbr);
  }
}

namespace {

// Finds the range that a remote key opens: a region, or the range that a window is bound to.
const mprdma_abi_reg_mr* opened_by(uint32_t rkey) {
  if (const auto* mr = find(engine().mrs, rkey)) return mr;
  for (const auto& [handle, window] : engine().windows) {
    if (window.rkey == rkey && window.bound.length > 0) return &window.bound;
  }
  return nullptr;
}

// Returns the address in the process of a remote range, or nullptr.
char* remote(const mprdma_abi_send_wqe& wqe, uint64_t bytes, uint32_t need) {
  const mprdma_abi_reg_mr* mr = opened_by(wqe.rkey);
  if (mr == nullptr || (mr->access & need) == 0 || wqe.remote_addr < mr->iova) return nullptr;
  if (wqe.remote_addr + bytes > mr->iova + mr->length) return nullptr;
  return reinterpret_cast<char*>(mr->addr + (wqe.remote_addr - mr->iova));
}

// Finds the receiver of the messages of this QP.
Receives receives_of(const Qp& qp, uint32_t xrc_srqn) {
  const uint32_t srq = qp.init.type == MPRDMA_ABI_QP_XRC_RECV ? xrc_srqn : qp.init.srq;
  if (srq == 0) return {qp.init.rq, qp.init.recv_cq};
  const Srq& shared = engine().srqs.at(srq);
  return {shared.init.rq,
          shared.init.type == MPRDMA_ABI_SRQ_XRC ? shared.init.recv_cq : qp.init.recv_cq};
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
  pop(receives.dbr());
  complete(engine().cqs.at(receives.cq), cqe);
  raise_limit(peer.init.type == MPRDMA_ABI_QP_XRC_RECV ? wqe.xrc_srqn : peer.init.srq);
  return Outcome::kDone;
}

// Delivers a datagram to one queue pair, or to each queue pair that is attached to the group. It is
// lost if no receive waits.
Outcome deliver_datagram(const mprdma_abi_send_wqe& wqe, const std::string& data) {
  const mprdma_abi_create_ah* ah = find(engine().ahs, wqe.ah);
  if (ah == nullptr) return Outcome::kRemoteAccess;
  const std::string with_grh = std::string(kGrhBytes, 'g') + data;
  const std::string group(reinterpret_cast<const char*>(ah->dgid), 16);
  const auto [first, last] = engine().groups.equal_range(group);
  for (auto it = first; it != last; ++it) deliver(engine().qps.at(it->second), wqe, with_grh, 0);
  Qp* peer = find(engine().qps, wqe.remote_qpn);
  if (first == last && peer != nullptr && peer->attr.qkey == wqe.remote_qkey) {
    deliver(*peer, wqe, with_grh, 0);
  }
  return Outcome::kDone;
}

Outcome bind(const mprdma_abi_send_wqe& wqe) {
  for (auto& [handle, window] : engine().windows) {
    if (window.rkey != wqe.rkey) continue;
    window.rkey = wqe.imm_or_rkey;
    window.bound = {};
    if (wqe.compare_add == 0) return Outcome::kDone;
    const mprdma_abi_reg_mr* mr = find(engine().mrs, static_cast<uint32_t>(wqe.swap));
    if (mr == nullptr || (mr->access & MPRDMA_ABI_ACCESS_MW_BIND) == 0) {
      return Outcome::kRemoteAccess;
    }
    const bool zero_based = (wqe.remote_qkey & MPRDMA_ABI_ACCESS_ZERO_BASED) != 0;
    window.bound.addr = mr->addr + (wqe.remote_addr - mr->iova);
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
  Qp* peer = find(engine().qps, qp.attr.dest_qpn);
  if (peer == nullptr) return Outcome::kWait;
  if (wqe.opcode == MPRDMA_ABI_SEND_INVALIDATE) invalidate(wqe.imm_or_rkey);
  if (wqe.opcode <= MPRDMA_ABI_SEND_INVALIDATE) return deliver(*peer, wqe, data, 0);
  char* to = remote(wqe, bytes, MPRDMA_ABI_ACCESS_REMOTE_WRITE);
  if (to == nullptr) return Outcome::kRemoteAccess;
  std::memcpy(to, data.data(), bytes);
  return wqe.opcode == MPRDMA_ABI_WRITE_IMM ? deliver(*peer, wqe, "", bytes) : Outcome::kDone;
}

void run_qp(Qp& qp) {
  if (qp.attr.state == MPRDMA_ABI_QPS_ERR) {
    flush(qp);
    return;
  }
  if (qp.attr.state != MPRDMA_ABI_QPS_RTS || qp.sq_dbr() == nullptr) return;
  mprdma_abi_queue_dbr* dbr = qp.sq_dbr();
  while (has_work(dbr)) {
    const auto* wqe = send_slot(qp.init.sq, dbr->consumer);
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
    pop(dbr);
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

}  // namespace

void before_next_event(void (*call)()) {
  before_event = call;
}

void progress(void*) {
  if (in_before_event) return;
  const std::lock_guard lock(engine().mutex);
  engine().progress_calls++;
  run_all();
}

void send(void*, uint32_t) {
  progress(nullptr);
}

}  // namespace mprdma::provider_test
