#include "dataplane/worker/srq.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "abi/mprdma_ring.h"
#include "transport/work/sge_list.hpp"

namespace mprdma::dataplane {

Srq::Srq(const mprdma_abi_create_srq& command, const mprdma_abi_client* client, Cq* cq)
    : ring_(command.rq),
      client_(client),
      cookie_(command.cookie),
      cq_(cq),
      is_xrc_(command.type == MPRDMA_ABI_SRQ_XRC),
      xrcd_(command.xrcd),
      limit_(command.limit) {
  shared_.host = this;
  shared_.pd = command.pd;
  shared_.take = &pop_receive;
  shared_.room = &room_of_oldest;
}

bool Srq::pop_receive(void* host, transport::RecvRequest* out, transport::Sge* sges) {
  return static_cast<Srq*>(host)->take(out, sges);
}

bool Srq::room_of_oldest(void* host, uint32_t* bytes) {
  transport::RecvRequest oldest;
  std::array<transport::Sge, transport::kMaxSge> sges;
  if (static_cast<Srq*>(host)->look(&oldest, sges.data()) == 0) return false;
  *bytes = transport::room_of(oldest.sges);
  return true;
}

// The oldest receive, and how many there are; 0: none, and nothing is filled in.
uint32_t Srq::look(transport::RecvRequest* out, transport::Sge* sges) {
  if (failed_) return 0;
  const uint32_t waiting = mprdma_abi_load_acquire(&ring_.dbr->producer) - ring_.next;
  if (waiting == 0) return 0;
  if (waiting > ring_.depth) {
    failed_ = true;
    raise_event(client_, MPRDMA_ABI_EVENT_SRQ_ERR, cookie_);
    return 0;
  }
  const mprdma_abi_recv_wqe* slot =
      mprdma_abi_recv_slot(ring_.ring, ring_.depth, ring_.stride, ring_.next);
  const uint32_t num_sge = std::min(slot->num_sge, ring_.max_sge);
  out->wr_id = slot->wr_id;
  out->sges = std::span<const transport::Sge>(sges, read_sges(slot + 1, num_sge, sges));
  return waiting;
}

bool Srq::take(transport::RecvRequest* out, transport::Sge* sges) {
  const uint32_t waiting = look(out, sges);
  if (waiting == 0) return false;
  mprdma_abi_store_release(&ring_.dbr->consumer, ++ring_.next);
  ++in_flight_;
  check_limit(waiting - 1);
  return true;
}

void Srq::check_limit(uint32_t waiting) {
  if (waiting >= limit_) return;
  limit_ = 0;
  raise_event(client_, MPRDMA_ABI_EVENT_SRQ_LIMIT_REACHED, cookie_);
}

void Srq::set_limit(uint32_t limit) {
  limit_ = limit;
  check_limit(mprdma_abi_load_acquire(&ring_.dbr->producer) - ring_.next);
}

int Srq::move_to(const mprdma_abi_queue& queue) {
  const uint32_t waiting = mprdma_abi_load_acquire(&ring_.dbr->producer) - ring_.next;
  WorkRing to(queue);
  if (failed_ || waiting > ring_.depth || waiting > to.depth) return EINVAL;
  const auto slot_of = [](const WorkRing& ring, uint32_t index) {
    return mprdma_abi_recv_slot(ring.ring, ring.depth, ring.stride, index);
  };
  for (uint32_t i = 0; i < waiting; ++i) {
    if (std::min(slot_of(ring_, ring_.next + i)->num_sge, ring_.max_sge) > to.max_sge) {
      return EINVAL;
    }
  }
  for (uint32_t i = 0; i < waiting; ++i) {
    const mprdma_abi_recv_wqe* old_slot = slot_of(ring_, ring_.next + i);
    mprdma_abi_recv_wqe* new_slot = slot_of(to, i);
    const uint32_t num_sge = std::min({old_slot->num_sge, ring_.max_sge, to.max_sge});
    *new_slot = {old_slot->wr_id, num_sge, 0};
    std::memcpy(new_slot + 1, old_slot + 1, num_sge * sizeof(mprdma_abi_sge));
  }
  mprdma_abi_store_release(&to.dbr->consumer, 0);
  mprdma_abi_store_release(&to.dbr->producer, waiting);
  ring_ = to;
  return 0;
}

void Srq::retire() {
  failed_ = true;
  client_ = nullptr;
  cq_ = nullptr;
}

}  // namespace mprdma::dataplane
