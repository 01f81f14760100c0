// Queue pairs: creation, the attributes of modify and query, destruction.
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

#include "dataplane/engine/command_io.hpp"
#include "dataplane/engine/commands.hpp"
#include "dataplane/qpn.hpp"
#include "dataplane/worker/qp_params.hpp"

namespace mprdma::dataplane {

using transport::QpAttributes;
using transport::QpState;

static_assert(MPRDMA_ABI_QPS_RESET == static_cast<int>(QpState::kReset));
static_assert(MPRDMA_ABI_QPS_RTS == static_cast<int>(QpState::kRts));
static_assert(MPRDMA_ABI_QPS_ERR == static_cast<int>(QpState::kErr));

namespace {

constexpr uint32_t kRemoteAccess = MPRDMA_ABI_ACCESS_REMOTE_WRITE | MPRDMA_ABI_ACCESS_REMOTE_READ |
                                   MPRDMA_ABI_ACCESS_REMOTE_ATOMIC;

bool has(const mprdma_abi_qp_attr& attr, uint32_t bit) {
  return (attr.mask & bit) != 0;
}

// Values that no state allows.
bool good_values(const mprdma_abi_qp_attr& attr, uint32_t mtu_max) {
  const uint32_t rd_max = device_limits().max_rd_atomic;
  if (has(attr, MPRDMA_ABI_QP_STATE) && attr.state > MPRDMA_ABI_QPS_ERR) return false;
  if (has(attr, MPRDMA_ABI_QP_PATH_MTU) &&
      (!std::has_single_bit(attr.path_mtu) || attr.path_mtu < 256 || attr.path_mtu > mtu_max)) {
    return false;
  }
  if (has(attr, MPRDMA_ABI_QP_DEST_QPN) && attr.dest_qpn > wire::kQpnMask) return false;
  if (has(attr, MPRDMA_ABI_QP_RQ_PSN) && attr.rq_psn > wire::kQpnMask) return false;
  if (has(attr, MPRDMA_ABI_QP_SQ_PSN) && attr.sq_psn > wire::kQpnMask) return false;
  if (has(attr, MPRDMA_ABI_QP_TIMEOUT) && attr.timeout > 31) return false;
  if (has(attr, MPRDMA_ABI_QP_RETRY_CNT) && attr.retry_cnt > 7) return false;
  if (has(attr, MPRDMA_ABI_QP_RNR_RETRY) && attr.rnr_retry > 7) return false;
  if (has(attr, MPRDMA_ABI_QP_MIN_RNR_TIMER) && attr.min_rnr_timer > 31) return false;
  if (has(attr, MPRDMA_ABI_QP_MAX_RD_ATOMIC) && attr.max_rd_atomic > rd_max) return false;
  return !has(attr, MPRDMA_ABI_QP_MAX_DEST_RD_ATOMIC) || attr.max_dest_rd_atomic <= rd_max;
}

// Copies the attributes in the mask out of `from` into `to`.
void merge(const mprdma_abi_qp_attr& from, mprdma_abi_qp_attr* to) {
  if (has(from, MPRDMA_ABI_QP_ACCESS)) to->access = from.access;
  if (has(from, MPRDMA_ABI_QP_PATH)) {
    std::memcpy(to->dgid, from.dgid, sizeof(to->dgid));
    to->sgid_index = from.sgid_index;
    to->traffic_class = from.traffic_class;
    to->hop_limit = from.hop_limit;
    to->flow_label = from.flow_label;
  }
  if (has(from, MPRDMA_ABI_QP_QKEY)) to->qkey = from.qkey;
  if (has(from, MPRDMA_ABI_QP_PATH_MTU)) to->path_mtu = from.path_mtu;
  if (has(from, MPRDMA_ABI_QP_DEST_QPN)) to->dest_qpn = from.dest_qpn;
  if (has(from, MPRDMA_ABI_QP_RQ_PSN)) to->rq_psn = from.rq_psn;
  if (has(from, MPRDMA_ABI_QP_SQ_PSN)) to->sq_psn = from.sq_psn;
  if (has(from, MPRDMA_ABI_QP_TIMEOUT)) to->timeout = from.timeout;
  if (has(from, MPRDMA_ABI_QP_RETRY_CNT)) to->retry_cnt = from.retry_cnt;
  if (has(from, MPRDMA_ABI_QP_RNR_RETRY)) to->rnr_retry = from.rnr_retry;
  if (has(from, MPRDMA_ABI_QP_MIN_RNR_TIMER)) to->min_rnr_timer = from.min_rnr_timer;
  if (has(from, MPRDMA_ABI_QP_MAX_RD_ATOMIC)) to->max_rd_atomic = from.max_rd_atomic;
  if (has(from, MPRDMA_ABI_QP_MAX_DEST_RD_ATOMIC)) {
    to->max_dest_rd_atomic = from.max_dest_rd_atomic;
  }
}

QpAttributes to_transport(const mprdma_abi_qp_attr& attr, uint16_t vp, uint64_t path_seed) {
  QpAttributes out;
  out.access = attr.access & kRemoteAccess;
  out.qkey = attr.qkey;
  out.path_mtu = attr.path_mtu;
  out.dest_qpn = Qpn(attr.dest_qpn);
  out.rq_psn = Psn(attr.rq_psn);
  out.sq_psn = Psn(attr.sq_psn);
  out.vp = vp;
  out.path_seed = path_seed;
  out.timeout = attr.timeout;
  out.retry_cnt = attr.retry_cnt;
  out.rnr_retry = attr.rnr_retry;
  out.min_rnr_timer = attr.min_rnr_timer;
  out.max_rd_atomic = attr.max_rd_atomic;
  out.max_dest_rd_atomic = attr.max_dest_rd_atomic;
  return out;
}

mprdma_abi_qp_attr initial_attributes(uint32_t mtu) {
  mprdma_abi_qp_attr attr{};
  attr.path_mtu = mtu;
  attr.max_rd_atomic = 1;
  attr.max_dest_rd_atomic = 1;
  return attr;
}

// 0, EINVAL, or EOPNOTSUPP.
int choose_service(uint32_t type, transport::QpService* out) {
  switch (type) {
    case MPRDMA_ABI_QP_RC:
      return *out = transport::QpService::kRc, 0;
    case MPRDMA_ABI_QP_UC:
      return *out = transport::QpService::kUc, 0;
    case MPRDMA_ABI_QP_UD:
      return *out = transport::QpService::kUd, 0;
    case MPRDMA_ABI_QP_XRC_SEND:
      return *out = transport::QpService::kXrcSend, 0;
    case MPRDMA_ABI_QP_XRC_RECV:
      return *out = transport::QpService::kXrcReceive, 0;
    default:
      return EINVAL;
  }
}

// The other services travel as the standard says, whatever the device's mode.
void set_mode_facts(const transport::QpConfig& config, QpContext* qp) {
  if (config.service != transport::QpService::kRc) {
    qp->mode = MPRDMA_ABI_MODE_ROCE;
    return;
  }
  qp->pair = PairNegotiation(pair_preferences(config.params, config.mode_undecided));
  if (!config.mode_undecided) qp->mode = mode_of(config.params);
}

// With virtual paths of its own.
QpAttributes first_attributes(const mprdma_abi_qp_attr& attr, Prng& prng) {
  const uint64_t vp = prng.range(wire::kVirtualPathMin, wire::kVirtualPathMax);
  return to_transport(attr, static_cast<uint16_t>(vp), prng.next_u64());
}

}  // namespace

bool good_queue(const mprdma_abi_queue& queue, size_t header_bytes) {
  if (queue.depth == 0) return true;
  const mprdma_abi_device_info limits = device_limits();
  const size_t sge_bytes = queue.max_sge * sizeof(mprdma_abi_sge);
  const size_t body = sge_bytes > queue.max_inline ? sge_bytes : queue.max_inline;
  return queue.ring != 0 && queue.ring % 16 == 0 && queue.dbr != 0 && queue.dbr % 4 == 0 &&
         std::has_single_bit(queue.depth) && queue.depth <= limits.max_qp_wr &&
         queue.max_sge <= limits.max_sge && queue.max_inline <= limits.max_inline_bytes &&
         queue.stride % 16 == 0 && queue.stride >= header_bytes + body;
}

QpContext* Commands::find_qp(const mprdma_abi_client* client, uint32_t handle) {
  const auto it = qps_.find(handle);
  return it != qps_.end() && it->second->client == client ? it->second.get() : nullptr;
}

// False: a handle of nothing, or of something that this type has not.
bool Commands::find_parts(const mprdma_abi_client* client, const mprdma_abi_create_qp& in,
                          QpParts* out) {
  if (in.type == MPRDMA_ABI_QP_XRC_RECV) {
    out->xrcd = find_xrcd(client, in.xrcd);
    return out->xrcd != nullptr && in.srq == 0 && in.sq.depth == 0 && in.rq.depth == 0;
  }
  out->pd = find_pd(client, in.pd);
  out->send_cq = find_cq(client, in.send_cq);
  if (out->pd == nullptr || out->send_cq == nullptr || in.xrcd != 0) return false;
  if (in.type == MPRDMA_ABI_QP_XRC_SEND) return in.srq == 0 && in.rq.depth == 0;
  out->recv_cq = find_cq(client, in.recv_cq);
  if (in.srq != 0) {
    out->srq = find_srq(client, in.srq);
    if (out->srq == nullptr || out->srq->is_xrc() || in.rq.depth != 0) return false;
  }
  return out->recv_cq != nullptr;
}

int Commands::create_qp(const mprdma_abi_client* client, const Call& call) {
  mprdma_abi_create_qp in;
  if (!read_input(call, &in) || call.out_bytes < sizeof(mprdma_abi_create_qp_out)) return EINVAL;
  transport::QpConfig config;
  const int refused_type = choose_service(in.type, &config.service);
  if (refused_type != 0) return refused_type;
  const uint32_t flags_known = in.type == MPRDMA_ABI_QP_UD ? MPRDMA_ABI_QP_BLOCK_SELF_MCAST : 0;
  QpParts parts;
  if ((in.flags & ~flags_known) != 0 || !find_parts(client, in, &parts) ||
      !good_queue(in.sq, sizeof(mprdma_abi_send_wqe)) ||
      !good_queue(in.rq, sizeof(mprdma_abi_recv_wqe))) {
    return EINVAL;
  }
  const int refused = choose_params(in.transport, worker_.config().params, &config.params);
  if (refused != 0) return refused;
  config.qpn = worker_.qps().allocate();
  if (config.qpn == Qpn(0)) return ENOMEM;
  config.pd = in.pd;
  config.send_depth = in.sq.depth;
  config.recv_depth = in.rq.depth;
  config.max_send_sge = std::max(in.sq.max_sge, 1u);
  config.max_recv_sge = std::max(in.rq.max_sge, 1u);
  config.signal_all = in.signal_all != 0;
  config.xrcd = in.xrcd;
  config.shared = parts.srq != nullptr ? parts.srq->shared() : nullptr;
  config.mode_undecided = worker_.config().agree_modes &&
                          config.service == transport::QpService::kRc &&
                          in.transport.mode == MPRDMA_ABI_MODE_DEFAULT;
  QpContext* qp = add_qp(config, in);
  if (qp == nullptr) {
    worker_.qps().release(config.qpn);
    return ENOMEM;
  }
  qp->client = client;
  qp->send_cq = parts.send_cq;
  qp->recv_cq = parts.recv_cq;
  qp->srq = parts.srq;
  qp->pd = parts.pd != nullptr ? in.pd : 0;
  qp->xrcd = in.xrcd;
  qp->wanted = in.transport;
  set_mode_facts(config, qp);
  qp->attr = initial_attributes(worker_.config().mtu);
  qp->qp.set_attributes(first_attributes(qp->attr, worker_.prng()));
  if (parts.pd != nullptr) ++parts.pd->users;
  if (parts.send_cq != nullptr) ++parts.send_cq->users;
  if (parts.recv_cq != nullptr) ++parts.recv_cq->users;
  if (parts.srq != nullptr) ++parts.srq->users;
  if (parts.xrcd != nullptr) ++parts.xrcd->qps;
  worker_.attach(qp);
  const uint32_t number = config.qpn.value();
  return write_output(call, mprdma_abi_create_qp_out{number, number, slot_of(config.qpn), 0});
}

// The steps that may fail for want of memory; nullptr: they did, and nothing is left.
QpContext* Commands::add_qp(const transport::QpConfig& config, const mprdma_abi_create_qp& in) {
  try {
    auto qp = std::make_unique<QpContext>(config, worker_.device(), in);
    QpContext* raw = qp.get();
    qps_[config.qpn.value()] = std::move(qp);
    return raw;
  } catch (const std::bad_alloc&) {
    qps_.erase(config.qpn.value());
    return nullptr;
  }
}

// Both sides were configured as the same host: an easy mistake, which would otherwise show only as
// a timeout.
void Commands::warn_of_own_address() {
  if (warned_own_address_) return;
  warned_own_address_ = true;
  std::fputs(
      "mprdma: the peer has this device's own address, and no such queue pair is here: start one "
      "side with another --host or --address\n",
      stderr);
}

int Commands::modify_qp(const mprdma_abi_client* client, const Call& call, Time now) {
  mprdma_abi_modify_qp in;
  if (!read_input(call, &in)) return EINVAL;
  QpContext* qp = find_qp(client, in.handle);
  if (qp == nullptr || !good_values(in.attr, worker_.config().mtu)) return EINVAL;
  if (has(in.attr, MPRDMA_ABI_QP_STATE) && in.attr.state == MPRDMA_ABI_QPS_ERR) {
    worker_.catch_up(now);
  }
  const mprdma_abi_qp_attr attr_before = qp->attr;
  const QpAttributes attributes_before = qp->qp.attributes();
  const wire::FrameTemplate outer_before = qp->outer;
  const PathState path_before = qp->path;
  const bool loop_before = qp->loop;
  const bool to_state = has(in.attr, MPRDMA_ABI_QP_STATE);
  const auto state = static_cast<QpState>(in.attr.state);

  // Messages are cut into packets when they are posted, and again when they are sent.
  const bool connected = qp->qp.state() >= QpState::kRtr && !(to_state && state == QpState::kReset);
  if (connected && has(in.attr, MPRDMA_ABI_QP_PATH_MTU) && in.attr.path_mtu != qp->attr.path_mtu) {
    return EINVAL;
  }
  merge(in.attr, &qp->attr);
  QpAttributes attributes =
      to_transport(qp->attr, attributes_before.vp, attributes_before.path_seed);
  attributes.sqd_notify = has(in.attr, MPRDMA_ABI_QP_SQD_NOTIFY);
  attributes.send_segment = attributes_before.send_segment;
  attributes.take_segment = attributes_before.take_segment;
  attributes.ack_run = attributes_before.ack_run;
  qp->qp.set_attributes(attributes);
  int error = 0;
  if (has(in.attr, MPRDMA_ABI_QP_PATH)) error = worker_.set_path(*qp, now);
  const bool needs_path = qp->type != MPRDMA_ABI_QP_UD && to_state &&
                          (state == QpState::kRtr || state == QpState::kRts);
  if (error == 0 && needs_path && qp->path == PathState::kNone) error = EINVAL;
  if (error == 0 && to_state && !worker_.set_state(*qp, now, state)) error = EINVAL;
  if (error != 0) {
    qp->attr = attr_before;
    qp->qp.set_attributes(attributes_before);
    qp->outer = outer_before;
    qp->path = path_before;
    qp->loop = loop_before;
  } else if (to_state && state == QpState::kRtr && qp->loop &&
             worker_.qps().find(Qpn(qp->attr.dest_qpn)) == nullptr) {
    warn_of_own_address();
  } else if (to_state && state == QpState::kReset) {
    qp->attr = initial_attributes(worker_.config().mtu);
    qp->bytes_out = qp->bytes_in = qp->bytes_retransmitted = 0;
    qp->qp.set_attributes(first_attributes(qp->attr, worker_.prng()));
  }
  worker_.after_command(now);
  return error;
}

int Commands::query_qp(const mprdma_abi_client* client, const Call& call) {
  mprdma_abi_handle in;
  if (!read_input(call, &in)) return EINVAL;
  const QpContext* qp = find_qp(client, in.handle);
  if (qp == nullptr) return EINVAL;
  mprdma_abi_qp_attr out = qp->attr;
  out.mask = (MPRDMA_ABI_QP_QKEY << 1) - 1;
  out.state = static_cast<uint32_t>(qp->qp.state());
  out.sq_draining = qp->qp.sq_draining() ? 1 : 0;
  return write_output(call, out);
}

int Commands::query_qp_stats(const mprdma_abi_client* client, const Call& call, Time now) {
  mprdma_abi_handle in;
  if (!read_input(call, &in)) return EINVAL;
  const QpContext* qp = find_qp(client, in.handle);
  if (qp == nullptr) return EINVAL;
  mprdma_abi_qp_stats out;
  fill_qp_stats(*qp, now, &out);
  return write_output(call, out);
}

void Commands::drop_qp(QpContext* qp, Time now) {
  worker_.detach(qp, now);
  if (qp->send_cq != nullptr) --qp->send_cq->users;
  if (qp->recv_cq != nullptr) --qp->recv_cq->users;
  if (qp->srq != nullptr) --qp->srq->users;
  if (qp->pd != 0) --pds_[qp->pd].users;
  const auto xrcd = xrcds_.find(qp->xrcd);
  qps_.erase(qp->qp.qpn().value());
  if (xrcd != xrcds_.end() && --xrcd->second.qps == 0) xrcd->second.retired.clear();
}

int Commands::destroy_qp(const mprdma_abi_client* client, const Call& call, Time now) {
  mprdma_abi_handle in;
  if (!read_input(call, &in)) return EINVAL;
  QpContext* qp = find_qp(client, in.handle);
  if (qp == nullptr) return EINVAL;
  if (worker_.mcast().attached(qp)) return EBUSY;
  drop_qp(qp, now);
  return 0;
}

}  // namespace mprdma::dataplane
