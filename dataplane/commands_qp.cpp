// Queue pairs: creation, the attributes of modify and query, destruction.
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "dataplane/command_io.hpp"
#include "dataplane/commands.hpp"
#include "dataplane/qp_transport.hpp"

namespace mprdma::dataplane {

using transport::QpAttributes;
using transport::QpState;

static_assert(MPRDMA_ABI_QPS_RESET == static_cast<int>(QpState::kReset));
static_assert(MPRDMA_ABI_QPS_RTS == static_cast<int>(QpState::kRts));
static_assert(MPRDMA_ABI_QPS_ERR == static_cast<int>(QpState::kErr));

namespace {

constexpr uint32_t kRemoteAccess = MPRDMA_ABI_ACCESS_REMOTE_WRITE | MPRDMA_ABI_ACCESS_REMOTE_READ |
                                   MPRDMA_ABI_ACCESS_REMOTE_ATOMIC;

bool good_queue(const mprdma_abi_queue& queue, size_t header_bytes, const char* kind) {
  (void)kind;
  if (queue.depth == 0) return true;
  const mprdma_abi_device_info limits = device_limits();
  const size_t sge_bytes = queue.max_sge * sizeof(mprdma_abi_sge);
  const size_t body = sge_bytes > queue.max_inline ? sge_bytes : queue.max_inline;
  return queue.ring != 0 && queue.ring % 16 == 0 && queue.dbr != 0 &&
         std::has_single_bit(queue.depth) && queue.depth <= limits.max_qp_wr &&
         queue.max_sge <= limits.max_sge && queue.max_inline <= limits.max_inline_bytes &&
         queue.stride % 16 == 0 && queue.stride >= header_bytes + body;
}

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

// What the mask names, out of `from` into `to`.
void merge(const mprdma_abi_qp_attr& from, mprdma_abi_qp_attr* to) {
  if (has(from, MPRDMA_ABI_QP_ACCESS)) to->access = from.access;
  if (has(from, MPRDMA_ABI_QP_PATH)) {
    std::memcpy(to->dgid, from.dgid, sizeof(to->dgid));
    to->sgid_index = from.sgid_index;
    to->traffic_class = from.traffic_class;
    to->hop_limit = from.hop_limit;
  }
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
  out.path_mtu = attr.path_mtu;
  out.dest_qpn = attr.dest_qpn;
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

// With virtual paths of its own.
QpAttributes first_attributes(const mprdma_abi_qp_attr& attr, Prng& prng) {
  const uint64_t vp = prng.range(wire::kVirtualPathMin, wire::kVirtualPathMax);
  return to_transport(attr, static_cast<uint16_t>(vp), prng.next_u64());
}

}  // namespace

QpContext* Commands::find_qp(const mprdma_abi_client* client, uint32_t handle) {
  const auto it = qps_.find(handle);
  return it != qps_.end() && it->second->client == client ? it->second.get() : nullptr;
}

int Commands::create_qp(const mprdma_abi_client* client, const Call& call) {
  mprdma_abi_create_qp in;
  if (!read_input(call, &in) || call.out_bytes < sizeof(mprdma_abi_create_qp_out)) return EINVAL;
  if (in.type == MPRDMA_ABI_QP_UC || in.type == MPRDMA_ABI_QP_UD || in.srq != 0) return EOPNOTSUPP;
  Pd* pd = find_pd(client, in.pd);
  Cq* send_cq = find_cq(client, in.send_cq);
  Cq* recv_cq = find_cq(client, in.recv_cq);
  if (in.type != MPRDMA_ABI_QP_RC || pd == nullptr || send_cq == nullptr || recv_cq == nullptr ||
      !good_queue(in.sq, sizeof(mprdma_abi_send_wqe), "send") ||
      !good_queue(in.rq, sizeof(mprdma_abi_recv_wqe), "receive")) {
    return EINVAL;
  }
  // A longer input says how its packets travel; one without is as the device was configured.
  mprdma_abi_create_qp_ex longer{};
  if (!read_input(call, &longer) && call.in_bytes != sizeof(in)) return EINVAL;
  transport::Params params;
  const int refused = choose_params(longer.transport, worker_.config().params, &params);
  if (refused != 0) return refused;
  const uint32_t qpn = worker_.qps().allocate();
  if (qpn == 0) return ENOMEM;
  transport::QpConfig config;
  config.qpn = qpn;
  config.pd = in.pd;
  config.send_depth = in.sq.depth;
  config.recv_depth = in.rq.depth;
  config.max_send_sge = std::max(in.sq.max_sge, 1u);
  config.max_recv_sge = std::max(in.rq.max_sge, 1u);
  config.signal_all = in.signal_all != 0;
  config.params = params;
  auto qp = std::make_unique<QpContext>(config, worker_.device(), in);
  qp->client = client;
  qp->send_cq = send_cq;
  qp->recv_cq = recv_cq;
  qp->pd = in.pd;
  qp->mode = mode_of(params);
  qp->attr = initial_attributes(worker_.config().mtu);
  qp->qp.set_attributes(first_attributes(qp->attr, worker_.prng()));
  QpContext* raw = qp.get();
  qps_[qpn] = std::move(qp);  // the last step that may fail for want of memory
  ++pd->users;
  ++send_cq->users;
  ++recv_cq->users;
  worker_.attach(raw);
  return write_output(call, mprdma_abi_create_qp_out{qpn, qpn, QpTable::slot_of(qpn), 0});
}

// Both sides were started as the same host: easily done, and otherwise seen only as a timeout.
void Commands::warn_of_own_address() {
  if (said_own_address_) return;
  said_own_address_ = true;
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
  const mprdma_abi_qp_attr attr_before = qp->attr;
  const QpAttributes attributes_before = qp->qp.attributes();
  const wire::FrameAddress address_before = qp->address;
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
  qp->qp.set_attributes(attributes);
  int error = 0;
  if (has(in.attr, MPRDMA_ABI_QP_PATH)) error = worker_.set_path(*qp, now);
  const bool needs_path = to_state && (state == QpState::kRtr || state == QpState::kRts);
  if (error == 0 && needs_path && qp->path == PathState::kNone) error = EINVAL;
  if (error == 0 && to_state && !worker_.set_state(*qp, now, state)) error = EINVAL;
  if (error != 0) {
    qp->attr = attr_before;
    qp->qp.set_attributes(attributes_before);
    qp->address = address_before;
    qp->path = path_before;
    qp->loop = loop_before;
  } else if (to_state && state == QpState::kRtr && qp->loop &&
             worker_.qps().find(qp->attr.dest_qpn) == nullptr) {
    warn_of_own_address();
  } else if (to_state && state == QpState::kReset) {
    qp->attr = initial_attributes(worker_.config().mtu);
    qp->bytes_out = qp->bytes_in = qp->bytes_retransmitted = 0;
    qp->qp.set_attributes(first_attributes(qp->attr, worker_.prng()));
  }
  worker_.settle(now);
  return error;
}

int Commands::query_qp(const mprdma_abi_client* client, const Call& call) {
  mprdma_abi_handle in;
  if (!read_input(call, &in)) return EINVAL;
  const QpContext* qp = find_qp(client, in.handle);
  if (qp == nullptr) return EINVAL;
  mprdma_abi_qp_attr out = qp->attr;
  out.mask = (MPRDMA_ABI_QP_SQD_NOTIFY << 1) - 1;
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
  --qp->send_cq->users;
  --qp->recv_cq->users;
  --pds_[qp->pd].users;
  qps_.erase(qp->qp.qpn());
}

int Commands::destroy_qp(const mprdma_abi_client* client, const Call& call, Time now) {
  mprdma_abi_handle in;
  if (!read_input(call, &in)) return EINVAL;
  QpContext* qp = find_qp(client, in.handle);
  if (qp == nullptr) return EINVAL;
  drop_qp(qp, now);
  return 0;
}

}  // namespace mprdma::dataplane
