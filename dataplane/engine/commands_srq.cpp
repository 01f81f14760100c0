// Shared receive queues and XRC domains.
#include <cerrno>

#include "dataplane/engine/command_io.hpp"
#include "dataplane/engine/commands.hpp"

namespace mprdma::dataplane {

// ---- XRC domains -------------------------------------------------------------------------------

Commands::Xrcd* Commands::find_xrcd(const mprdma_abi_client* client, uint32_t handle) {
  const auto it = xrcds_.find(handle);
  return it != xrcds_.end() && it->second.client == client ? &it->second : nullptr;
}

int Commands::alloc_xrcd(const mprdma_abi_client* client, const Call& call) {
  if (call.out_bytes < sizeof(mprdma_abi_handle)) return EINVAL;
  if (xrcds_.size() >= device_limits().max_xrcds) return ENOMEM;
  const uint32_t handle = next_xrcd_++;
  xrcds_[handle].client = client;
  return write_output(call, mprdma_abi_handle{handle, 0});
}

int Commands::free_xrcd(const mprdma_abi_client* client, const Call& call) {
  mprdma_abi_handle in;
  if (!read_input(call, &in)) return EINVAL;
  const Xrcd* xrcd = find_xrcd(client, in.handle);
  if (xrcd == nullptr) return EINVAL;
  if (xrcd->qps > 0 || xrcd->srqs > 0) return EBUSY;
  xrcds_.erase(in.handle);
  return 0;
}

// ---- Shared receive queues ---------------------------------------------------------------------

Srq* Commands::find_srq(const mprdma_abi_client* client, uint32_t handle) {
  Srq* srq = worker_.srqs().find(handle);
  return srq != nullptr && srq->client() == client ? srq : nullptr;
}

int Commands::create_srq(const mprdma_abi_client* client, const Call& call) {
  mprdma_abi_create_srq in;
  if (!read_input(call, &in) || call.out_bytes < sizeof(mprdma_abi_srq_out)) return EINVAL;
  const bool xrc = in.type == MPRDMA_ABI_SRQ_XRC;
  if (!xrc && in.type != MPRDMA_ABI_SRQ_BASIC) return EINVAL;
  Pd* pd = find_pd(client, in.pd);
  Cq* cq = xrc ? find_cq(client, in.recv_cq) : nullptr;
  Xrcd* xrcd = xrc ? find_xrcd(client, in.xrcd) : nullptr;
  if (pd == nullptr || (xrc && (cq == nullptr || xrcd == nullptr))) return EINVAL;
  if (!xrc && (in.recv_cq != 0 || in.xrcd != 0)) return EINVAL;
  if (in.rq.depth == 0 || !good_queue(in.rq, sizeof(mprdma_abi_recv_wqe)) ||
      in.limit > in.rq.depth) {
    return EINVAL;
  }
  const uint32_t number = worker_.srqs().add(std::make_unique<Srq>(in, client, cq));
  if (number == 0) return ENOMEM;
  ++pd->users;
  if (cq != nullptr) ++cq->users;
  if (xrcd != nullptr) ++xrcd->srqs;
  return write_output(call, mprdma_abi_srq_out{number, number});
}

int Commands::modify_srq(const mprdma_abi_client* client, const Call& call) {
  mprdma_abi_modify_srq in;
  if (!read_input(call, &in)) return EINVAL;
  Srq* srq = find_srq(client, in.handle);
  if (srq == nullptr || (in.mask & ~(MPRDMA_ABI_SRQ_LIMIT | MPRDMA_ABI_SRQ_RING)) != 0) {
    return EINVAL;
  }
  const bool moves = (in.mask & MPRDMA_ABI_SRQ_RING) != 0;
  const bool limits = (in.mask & MPRDMA_ABI_SRQ_LIMIT) != 0;
  if (moves && (in.rq.depth == 0 || !good_queue(in.rq, sizeof(mprdma_abi_recv_wqe)))) {
    return EINVAL;
  }
  if (limits && in.limit > (moves ? in.rq.depth : srq->depth())) return EINVAL;
  const int error = moves ? srq->move_to(in.rq) : 0;
  if (error == 0 && limits) srq->set_limit(in.limit);
  return error;
}

int Commands::query_srq(const mprdma_abi_client* client, const Call& call) {
  mprdma_abi_handle in;
  if (!read_input(call, &in)) return EINVAL;
  const Srq* srq = find_srq(client, in.handle);
  if (srq == nullptr) return EINVAL;
  return write_output(call, mprdma_abi_srq_info{srq->limit(), srq->depth()});
}

int Commands::destroy_srq(const mprdma_abi_client* client, const Call& call) {
  mprdma_abi_handle in;
  if (!read_input(call, &in)) return EINVAL;
  const Srq* srq = find_srq(client, in.handle);
  if (srq == nullptr) return EINVAL;
  if (srq->users > 0) return EBUSY;
  drop_srq(in.handle);
  return 0;
}

void Commands::drop_srq(uint32_t handle) {
  std::unique_ptr<Srq> srq = worker_.srqs().remove(handle);
  --pds_[srq->pd()].users;
  if (!srq->is_xrc()) return;
  --srq->cq()->users;
  Xrcd& xrcd = xrcds_[srq->xrcd()];
  --xrcd.srqs;
  if (xrcd.qps == 0 || srq->in_flight() == 0) return;
  srq->retire();
  xrcd.retired.push_back(std::move(srq));
}

}  // namespace mprdma::dataplane
