// Doorbells and work requests in, completions and events out.
#include <bit>

#include "abi/mprdma_ring.h"
#include "dataplane/qpn.hpp"
#include "dataplane/worker/worker.hpp"

namespace mprdma::dataplane {

using transport::Completion;
using transport::PostResult;
using transport::QpEvent;
using transport::QpState;
using transport::Sge;

// The queue ABI and the transport name things alike, so that most of it is passed through.
static_assert(MPRDMA_ABI_WQE_SIGNALED == transport::kSignaled);
static_assert(MPRDMA_ABI_WQE_SOLICITED == transport::kSolicited);
static_assert(MPRDMA_ABI_WQE_FENCE == transport::kFence);
static_assert(MPRDMA_ABI_WQE_INLINE == transport::kInline);
static_assert(MPRDMA_ABI_WQE_SYNCHRONISE == transport::kSynchronise);
static_assert(MPRDMA_ABI_MESSAGE_BYTES_MAX == transport::kMaxMessageBytes);
static_assert(MPRDMA_ABI_BIND_MW == static_cast<int>(transport::WorkOpcode::kBindMw));
static_assert(MPRDMA_ABI_READ == static_cast<int>(transport::WorkOpcode::kRead));
static_assert(MPRDMA_ABI_WC_RECV_WRITE_IMM == static_cast<int>(transport::WcOpcode::kRecvWriteImm));
static_assert(MPRDMA_ABI_WC_RNR_RETRY_EXC_ERR ==
              static_cast<int>(transport::WcStatus::kRnrRetryExceeded));

namespace {

// The slot of the request that completes next still holds the request.
uint8_t wc_opcode_of_write(const WorkRing& sq) {
  if (!sq.atomic_writes) return MPRDMA_ABI_WC_WRITE;
  const bool atomic = mprdma_abi_send_slot(sq.ring, sq.depth, sq.stride, sq.completed)->opcode ==
                      MPRDMA_ABI_ATOMIC_WRITE;
  return atomic ? MPRDMA_ABI_WC_ATOMIC_WRITE : MPRDMA_ABI_WC_WRITE;
}

uint8_t wc_opcode(const WorkRing& sq, const Completion& completion) {
  const bool write = !completion.is_recv && completion.opcode == transport::WcOpcode::kWrite;
  return write ? wc_opcode_of_write(sq) : static_cast<uint8_t>(completion.opcode);
}

uint16_t cqe_flags(const Completion& completion) {
  return static_cast<uint16_t>((completion.has_grh ? MPRDMA_ABI_CQE_GRH : 0) |
                               (completion.grh_ipv4 ? MPRDMA_ABI_CQE_GRH_IPV4 : 0) |
                               (completion.has_imm ? MPRDMA_ABI_CQE_IMM : 0) |
                               (completion.invalidated ? MPRDMA_ABI_CQE_INVALIDATED : 0) |
                               (completion.solicited ? MPRDMA_ABI_CQE_SOLICITED : 0));
}

}  // namespace

bool Worker::process_doorbells(Time now) {
  bool any = false;
  for (unsigned s = 0; s < MPRDMA_ABI_DOORBELL_WORDS / 64; ++s) {
    uint64_t summary = mprdma_abi_take_bits(&doorbells_->summary[s]);
    for (; summary != 0; summary &= summary - 1) {
      const unsigned word = s * 64 + static_cast<unsigned>(std::countr_zero(summary));
      uint64_t bits = mprdma_abi_take_bits(&doorbells_->word[word]);
      for (; bits != 0; bits &= bits - 1) {
        const unsigned slot = word * 64 + static_cast<unsigned>(std::countr_zero(bits));
        any = true;
        QpContext* qp = qps_.at_slot(slot);
        if (qp != nullptr) process_posted(*qp, now);
      }
    }
  }
  return any;
}

// Takes over the requests in both rings, up to a bound: the rest waits for the next burst.
void Worker::process_posted(QpContext& qp, Time now) {
  qp.backlog = false;
  const bool more_receives = process_receives(qp, now);
  const uint32_t sends_before = qp.sq.next;
  const bool more_sends = process_sends(qp, now);
  if (qp.sq.next != sends_before) qp.answers.on_post(now);
  if (more_receives || more_sends) {
    mprdma_abi_ring_doorbell(doorbells_.get(), slot_of(qp.qp.qpn()));
  }
  if (!qp.qp.decided()) qp.changes = transport::kAllChanged;  // requests wait in the ring
  mark_changed(qp);
}

// True: the bound was reached, and more requests wait.
bool Worker::process_receives(QpContext& qp, Time now) {
  WorkRing& rq = qp.rq;
  if (rq.depth == 0 || qp.qp.state() == QpState::kReset) return false;
  const uint32_t producer = mprdma_abi_load_acquire(&rq.dbr->producer);
  const uint32_t completed_before = rq.completed;
  unsigned taken = 0;
  std::array<Sge, transport::kMaxSge> sges;
  while (rq.next != producer && taken < kWqesPerDoorbell) {
    const mprdma_abi_recv_wqe* slot = mprdma_abi_recv_slot(rq.ring, rq.depth, rq.stride, rq.next);
    const uint32_t num_sge = slot->num_sge < rq.max_sge ? slot->num_sge : rq.max_sge;
    transport::RecvRequest request;
    request.wr_id = slot->wr_id;
    request.sges = std::span<const Sge>(sges.data(), read_sges(slot + 1, num_sge, sges.data()));
    const PostResult result = qp.qp.post_recv(now, request, actions_);
    // A message that waited for a receive is acknowledged now.
    apply_actions(qp, &batch_of(qp));
    if (result == PostResult::kQueueFull) {
      qp.backlog = true;
      break;
    }
    if (result != PostResult::kOk) {
      ++counters_.bad_work_requests;
      ++rq.completed;
    }
    ++rq.next;
    ++taken;
  }
  if (rq.completed != completed_before) {
    mprdma_abi_store_release(&rq.dbr->consumer, rq.completed);
  }
  return taken == kWqesPerDoorbell && rq.next != producer;
}

// Takes the plain requests that come next, as far as the transport is ready for them.
void Worker::process_plain_sends(QpContext& qp, Time now) {
  WorkRing& sq = qp.sq;
  const uint32_t producer = mprdma_abi_load_acquire(&sq.dbr->producer);
  for (unsigned taken = 0; sq.next != producer && taken < kWqesPerDoorbell; ++taken, ++sq.next) {
    transport::PlainRequest request;
    if (!read_plain(sq, &request) || !qp.qp.post_plain(now, request)) return;
  }
}

bool Worker::process_sends(QpContext& qp, Time now) {
  if (qp.sq.depth == 0) return false;
  const QpState state = qp.qp.state();
  if (qp.drains() && state == QpState::kRts) return false;
  process_plain_sends(qp, now);
  WorkRing& sq = qp.sq;
  // Before RTS, and before the mode is agreed with the peer, requests wait in the ring.
  const bool takes = (state == QpState::kRts || state == QpState::kSqd || state == QpState::kSqe ||
                      state == QpState::kErr) &&
                     qp.qp.decided();
  if (!takes) return false;
  const uint32_t producer = mprdma_abi_load_acquire(&sq.dbr->producer);
  unsigned taken = 0;
  while (sq.next != producer && taken < kWqesPerDoorbell) {
    mprdma_abi_send_wqe* slot = mprdma_abi_send_slot(sq.ring, sq.depth, sq.stride, sq.next);
    const mprdma_abi_send_wqe wqe = *slot;
    const PostResult result = post_wqe(qp, wqe, slot + 1, now);
    if (result == PostResult::kQueueFull) {
      qp.backlog = true;
      break;
    }
    ++sq.next;
    ++taken;
    if (result != PostResult::kOk) refuse_wqe(qp, wqe, now);
  }
  return taken == kWqesPerDoorbell && sq.next != producer;
}

PostResult Worker::post_wqe(QpContext& qp, const mprdma_abi_send_wqe& wqe, void* body, Time now) {
  // An atomic write is a WRITE of 8 bytes on the wire, which every mprdma host stores at once
  // (copy_to_memory.hpp), but an operation of its own in the ring and in its completion.
  const bool atomic_write = wqe.opcode == MPRDMA_ABI_ATOMIC_WRITE;
  if (!atomic_write && wqe.opcode >= static_cast<uint8_t>(transport::WorkOpcode::kCount)) {
    return PostResult::kBadRequest;
  }
  std::array<Sge, transport::kMaxSge> sges;
  uint32_t num_sge = 0;
  if ((wqe.flags & MPRDMA_ABI_WQE_INLINE) != 0) {
    if (wqe.inline_bytes > qp.sq.max_inline) return PostResult::kBadRequest;
    // The bytes stay in the slot, which is not used again before this request completes.
    sges[0] = {reinterpret_cast<uint64_t>(body), wqe.inline_bytes, Key(0)};
    num_sge = wqe.inline_bytes > 0 ? 1 : 0;
  } else {
    if (wqe.num_sge > qp.sq.max_sge) return PostResult::kBadRequest;
    num_sge = read_sges(body, wqe.num_sge, sges.data());
  }
  transport::SendRequest request;
  request.wr_id = wqe.wr_id;
  request.opcode = static_cast<transport::WorkOpcode>(wqe.opcode);
  if (atomic_write) {
    const bool reliable = qp.type != MPRDMA_ABI_QP_UC && qp.type != MPRDMA_ABI_QP_UD;
    const bool aligned = wqe.remote_addr % sizeof(uint64_t) == 0;
    if (!reliable || !aligned || num_sge != 1 || sges[0].length != sizeof(uint64_t)) {
      return PostResult::kBadRequest;
    }
    request.opcode = transport::WorkOpcode::kWrite;
    qp.sq.atomic_writes = true;
  }
  request.flags = wqe.flags;
  request.imm_or_rkey = wqe.imm_or_rkey;
  request.rkey = Key(wqe.rkey);
  request.remote_addr = wqe.remote_addr;
  request.compare_add = wqe.compare_add;
  request.swap = wqe.swap;
  request.ah = wqe.ah;
  request.remote_qpn = Qpn(wqe.remote_qpn);
  request.remote_qkey = wqe.remote_qkey;
  request.xrc_srqn = wqe.xrc_srqn;
  request.sges = std::span<const Sge>(sges.data(), num_sge);
  return qp.qp.post_send(now, request);
}

// A work request that the provider should have rejected: earlier requests are flushed, then it
// completes in error, and the queue pair is in the error state (IBTA 10.10.2.1).
void Worker::refuse_wqe(QpContext& qp, const mprdma_abi_send_wqe& wqe, Time now) {
  ++counters_.bad_work_requests;
  qp.qp.set_state(now, QpState::kErr, actions_);
  apply_actions(qp, nullptr);
  drain_completions(qp);
  Completion completion;
  completion.wr_id = wqe.wr_id;
  completion.status = transport::WcStatus::kLocalQpOperationError;
  write_completion(qp, completion);
}

// nullptr: the ring of a shared receive queue that was destroyed meanwhile (XRC).
Cq* Worker::cq_of(QpContext& qp, const Completion& completion) {
  if (!completion.is_recv) return qp.send_cq;
  if (completion.shared == nullptr) return qp.recv_cq;
  Srq* srq = Srq::from(completion.shared);
  srq->completed();
  return srq->is_xrc() ? srq->cq() : qp.recv_cq;
}

// Hands a success out that has nothing but its length.
[[gnu::always_inline]] inline void Worker::push_success(QpContext& qp, Cq& cq, uint64_t wr_id,
                                                        uint32_t byte_len, uint8_t opcode,
                                                        bool solicited) {
  mprdma_abi_cqe* const entry = cq.reserve(counters_);
  if (entry == nullptr) {
    qp.completion_lost = true;
  } else {
    entry->wr_id = wr_id;
    entry->byte_len = byte_len;
    entry->imm_or_rkey = 0;
    entry->qpn = qp.qp.qpn().value();
    entry->src_qpn = qp.attr.dest_qpn;
    entry->status = MPRDMA_ABI_WC_SUCCESS;
    entry->opcode = opcode;
    entry->flags = solicited ? MPRDMA_ABI_CQE_SOLICITED : 0;
    entry->vendor_err = 0;
    entry->timestamp_ns = static_cast<uint64_t>(now_.ns());
    entry->qp_cookie = qp.cookie;
    entry->pkey_index = 0;
    cq.push(entry, false, solicited, counters_);
  }
  note_completions(cq);
}

[[gnu::always_inline]] inline void Worker::write_plain_completion(
    QpContext& qp, const transport::PlainCompletion& completion) {
  auto opcode = static_cast<uint8_t>(completion.opcode);
  if (completion.opcode == transport::WcOpcode::kWrite) opcode = wc_opcode_of_write(qp.sq);
  ++qp.sq.completed;
  ++send_completions_;
  if (!completion.emit) return;
  mprdma_abi_store_release(&qp.sq.dbr->consumer, qp.sq.completed);
  push_success(qp, *qp.send_cq, completion.wr_id, completion.byte_len, opcode, false);
}

// True if there was one.
bool Worker::drain_completions(QpContext& qp) {
  const uint32_t completed_before = qp.sq.completed;
  bool any = false;
  transport::PlainCompletion plain;
  while (qp.qp.pop_plain(plain)) {
    any = true;
    write_plain_completion(qp, plain);
  }
  transport::PlainReceive receive;
  while (qp.qp.pop_plain_receive(receive)) {
    any = true;
    write_plain_receive(qp, receive);
  }
  Completion completion;
  while (qp.qp.may_complete() && qp.qp.poll_completion(completion)) {
    write_completion(qp, completion);
    any = true;
  }
  if (qp.sq.completed != completed_before) {
    mprdma_abi_store_release(&qp.sq.dbr->consumer, qp.sq.completed);
  }
  return any;
}

void Worker::write_plain_receive(QpContext& qp, const transport::PlainReceive& receive) {
  mprdma_abi_store_release(&qp.rq.dbr->consumer, ++qp.rq.completed);
  push_success(qp, *qp.recv_cq, receive.wr_id, receive.byte_len, MPRDMA_ABI_WC_RECV,
               receive.solicited);
}

void Worker::note_completions(Cq& cq) {
  if (cq.dirty) return;
  cq.dirty = true;
  cq.next_dirty = dirty_cqs_;
  dirty_cqs_ = &cq;
}

void Worker::write_completion(QpContext& qp, const Completion& completion) {
  const uint8_t opcode = wc_opcode(qp.sq, completion);
  if (!completion.is_recv) {
    ++qp.sq.completed;
    ++send_completions_;
    if (completion.status != transport::WcStatus::kSuccess) take_back(qp);
  }
  if (!completion.emit) return;
  // The slot is freed before the entry appears, because the poller of the entry may post at once.
  if (!completion.is_recv) {
    mprdma_abi_store_release(&qp.sq.dbr->consumer, qp.sq.completed);
  } else if (completion.shared == nullptr) {
    mprdma_abi_store_release(&qp.rq.dbr->consumer, ++qp.rq.completed);
  }
  Cq* cq = cq_of(qp, completion);
  if (cq == nullptr) return;
  if (mprdma_abi_cqe* entry = cq->reserve(counters_)) {
    entry->wr_id = completion.wr_id;
    entry->byte_len = completion.byte_len;
    entry->imm_or_rkey = completion.imm;
    entry->qpn = qp.qp.qpn().value();
    entry->src_qpn = completion.src_qpn != Qpn(0) ? completion.src_qpn.value() : qp.attr.dest_qpn;
    entry->status = static_cast<uint8_t>(completion.status);
    entry->opcode = opcode;
    entry->flags = cqe_flags(completion);
    entry->pkey_index = 0;
    entry->vendor_err = completion.vendor_err;
    entry->timestamp_ns = static_cast<uint64_t>(now_.ns());
    entry->qp_cookie = qp.cookie;
    cq->push(entry, completion.status != transport::WcStatus::kSuccess, completion.solicited,
             counters_);
  } else {
    qp.completion_lost = true;
  }
  note_completions(*cq);
}

void Worker::drain_events(QpContext& qp) {
  for (;;) {
    mprdma_abi_event_type type = MPRDMA_ABI_EVENT_QP_FATAL;
    switch (qp.qp.poll_event()) {
      case QpEvent::kNone:
        return;
      case QpEvent::kFatal:
        break;
      case QpEvent::kRequestError:
        type = MPRDMA_ABI_EVENT_QP_REQ_ERR;
        break;
      case QpEvent::kAccessError:
        type = MPRDMA_ABI_EVENT_QP_ACCESS_ERR;
        break;
      case QpEvent::kCommEstablished:
        type = MPRDMA_ABI_EVENT_COMM_EST;
        break;
      case QpEvent::kSqDrained:
        type = MPRDMA_ABI_EVENT_SQ_DRAINED;
        break;
      case QpEvent::kLastWqeReached:
        type = MPRDMA_ABI_EVENT_QP_LAST_WQE_REACHED;
        break;
    }
    raise_event(qp.client, type, qp.cookie);
  }
}

void Worker::fire_events() {
  while (dirty_cqs_ != nullptr) {
    Cq* cq = dirty_cqs_;
    dirty_cqs_ = cq->next_dirty;
    cq->dirty = false;
    cq_wheel_.schedule(cq->timer, cq->fire(now_, counters_));
  }
}

}  // namespace mprdma::dataplane
