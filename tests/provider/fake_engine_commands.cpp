// The commands of the fake engine: objects are made, changed and destroyed.
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <string>

#include "abi/mprdma_abi.h"
#include "abi/mprdma_ring.h"
#include "dataplane/engine/engine.h"
#include "tests/provider/fake_engine_state.hpp"

namespace mprdma::provider_test {
namespace {

template <class T>
const T& input(const void* in) {
  return *static_cast<const T*>(in);
}

template <class Objects>
int destroy(Objects& objects, uint32_t handle) {
  return objects.erase(handle) == 1 ? 0 : EINVAL;
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

// Refuses one mode, so that a test can see the refusal.
int create_qp(Connection* owner, const void* input, size_t in_bytes,
              mprdma_abi_create_qp_out& out) {
  const auto& in = *static_cast<const mprdma_abi_create_qp*>(input);
  FakeQp asked{};
  asked.create_bytes = in_bytes;
  const mprdma_abi_qp_transport& wanted = in.transport;
  if (wanted.mode == kModeOfALaterEngine) return EOPNOTSUPP;
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

// Statistics in which every number is different.
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
      std::memcpy(recv_slot(in.rq, moved), recv_slot(srq.init.rq, i), in.rq.stride);
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

// Commands that only an engine with more features gets.
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
      return destroy(e.srqs, handle);
    case MPRDMA_ABI_ALLOC_XRCD:
      e.xrcds.insert(static_cast<mprdma_abi_handle*>(out)->handle = e.next_handle++);
      return 0;
    case MPRDMA_ABI_FREE_XRCD:
      return destroy(e.xrcds, handle);
    case MPRDMA_ABI_CREATE_AH:
      static_cast<mprdma_abi_handle*>(out)->handle = e.next_handle;
      e.ahs[e.next_handle++] = input<mprdma_abi_create_ah>(in);
      return 0;
    case MPRDMA_ABI_DESTROY_AH:
      return destroy(e.ahs, handle);
    case MPRDMA_ABI_ALLOC_MW: {
      const uint32_t rkey = 0x40000000u + (e.next_handle << 8);
      *static_cast<mprdma_abi_mw_out*>(out) = {e.next_handle, rkey};
      e.windows[e.next_handle++] = Window{input<mprdma_abi_alloc_mw>(in), rkey};
      return 0;
    }
    case MPRDMA_ABI_DEALLOC_MW:
      return destroy(e.windows, handle);
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
      return destroy(e.mrs, handle);
    case MPRDMA_ABI_CREATE_CQ:
      return create_cq(owner, input<mprdma_abi_create_cq>(in),
                       *static_cast<mprdma_abi_handle*>(out));
    case MPRDMA_ABI_RESIZE_CQ:
      return resize_cq(input<mprdma_abi_resize_cq>(in));
    case MPRDMA_ABI_DESTROY_CQ:
      return destroy(e.cqs, handle);
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
      return destroy(e.qps, handle);
    default:
      return dispatch_more(owner, command, in, out);
  }
}

}  // namespace

int execute(void* opaque, uint32_t command, const void* in, size_t in_bytes, void* out, size_t) {
  const std::lock_guard lock(engine().mutex);
  return dispatch(static_cast<Connection*>(opaque), command, in, in_bytes, out);
}

}  // namespace mprdma::provider_test
