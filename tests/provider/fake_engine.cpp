#include "tests/provider/fake_engine.hpp"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "abi/mprdma_abi.h"
#include "abi/mprdma_ring.h"
#include "dataplane/engine.h"

namespace mprdma::provider_test {
namespace {

constexpr uint64_t kAllFeatures = MPRDMA_ABI_FEATURE_RC | MPRDMA_ABI_FEATURE_SYNCHRONISE |
                                  MPRDMA_ABI_FEATURE_QP_TRANSPORT | MPRDMA_ABI_FEATURE_QP_STATS;

struct Connection {
  mprdma_abi_client client;
};

struct Cq {
  Connection* owner;
  mprdma_abi_cqe* ring;
  mprdma_abi_cq_dbr* dbr;
  uint64_t cookie;
  uint32_t depth;
  uint32_t producer = 0;
  uint32_t fired_arm = 0;
};

struct Qp {
  Connection* owner;
  mprdma_abi_create_qp init;
  mprdma_abi_qp_attr attr{};
  uint32_t qpn;
  FakeQp asked{};

  mprdma_abi_queue_dbr* sq_dbr() const {
    return reinterpret_cast<mprdma_abi_queue_dbr*>(init.sq.dbr);
  }
  mprdma_abi_queue_dbr* rq_dbr() const {
    return reinterpret_cast<mprdma_abi_queue_dbr*>(init.rq.dbr);
  }
};

// One for the process. Everything happens under its mutex, in whoever calls.
struct Engine {
  std::mutex mutex;
  mprdma_abi_doorbell_page doorbells{};
  std::map<uint32_t, Cq> cqs;
  std::map<uint32_t, Qp> qps;
  std::map<uint32_t, mprdma_abi_reg_mr> mrs;
  uint32_t connections = 0;
  uint32_t connects = 0;
  uint32_t pds = 0;
  uint32_t next_handle = 1;
  uint64_t progress_calls = 0;
  bool hold = false;
  uint64_t features = kAllFeatures;
  Connection* any = nullptr;
};

Engine& engine() {
  static Engine instance;
  return instance;
}

void raise(Connection* to, uint32_t type, uint64_t cookie) {
  const mprdma_abi_event event{type, 0, cookie};
  to->client.on_event(to->client.context, &event);
}

void fire_if_armed(Cq& cq, bool solicited_or_error) {
  const uint32_t arm = mprdma_abi_load_acquire(&cq.dbr->arm);
  if (arm == cq.fired_arm) return;
  if ((arm & 3u) == MPRDMA_ABI_ARM_SOLICITED && !solicited_or_error) return;
  cq.fired_arm = arm;
  raise(cq.owner, MPRDMA_ABI_EVENT_COMPLETION, cq.cookie);
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
  return cqe;
}

uint8_t wc_opcode(uint8_t opcode) {
  switch (opcode) {
    case MPRDMA_ABI_WRITE:
    case MPRDMA_ABI_WRITE_IMM:
      return MPRDMA_ABI_WC_WRITE;
    case MPRDMA_ABI_READ:
      return MPRDMA_ABI_WC_READ;
    default:
      return MPRDMA_ABI_WC_SEND;
  }
}

// A scatter or gather list as pieces of memory.
struct Pieces {
  const mprdma_abi_sge* sge;
  uint32_t count;

  uint64_t bytes() const {
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++) total += sge[i].length;
    return total;
  }
  void write(const char* from, uint64_t length) const {
    for (uint32_t i = 0; i < count && length > 0; i++) {
      const uint64_t part = sge[i].length < length ? sge[i].length : length;
      std::memcpy(reinterpret_cast<void*>(sge[i].addr), from, part);
      from += part;
      length -= part;
    }
  }
  void read(char* to) const {
    for (uint32_t i = 0; i < count; i++) {
      std::memcpy(to, reinterpret_cast<const void*>(sge[i].addr), sge[i].length);
      to += sge[i].length;
    }
  }
};

// Address in the process of a remote range, or nullptr.
char* remote(const mprdma_abi_send_wqe& wqe, uint64_t bytes, uint32_t need) {
  const auto found = engine().mrs.find(wqe.rkey);
  if (found == engine().mrs.end()) return nullptr;
  const mprdma_abi_reg_mr& mr = found->second;
  if ((mr.access & need) == 0 || wqe.remote_addr < mr.iova) return nullptr;
  if (wqe.remote_addr + bytes > mr.iova + mr.length) return nullptr;
  return reinterpret_cast<char*>(mr.addr + (wqe.remote_addr - mr.iova));
}

void flush(Qp& qp) {
  Engine& e = engine();
  mprdma_abi_queue_dbr* dbr = qp.sq_dbr();
  while (dbr->consumer != mprdma_abi_load_acquire(&dbr->producer)) {
    const auto* wqe = mprdma_abi_send_slot(reinterpret_cast<void*>(qp.init.sq.ring),
                                           qp.init.sq.depth, qp.init.sq.stride, dbr->consumer);
    complete(e.cqs.at(qp.init.send_cq),
             make_cqe(qp, wqe->wr_id, wc_opcode(wqe->opcode), MPRDMA_ABI_WC_WR_FLUSH_ERR, 0));
    mprdma_abi_store_release(&dbr->consumer, dbr->consumer + 1);
  }
  dbr = qp.rq_dbr();
  while (dbr->consumer != mprdma_abi_load_acquire(&dbr->producer)) {
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
  mprdma_abi_queue_dbr* dbr = peer.rq_dbr();
  if (dbr->consumer == mprdma_abi_load_acquire(&dbr->producer)) return Outcome::kWait;
  const auto* recv = mprdma_abi_recv_slot(reinterpret_cast<void*>(peer.init.rq.ring),
                                          peer.init.rq.depth, peer.init.rq.stride, dbr->consumer);
  const Pieces pieces{reinterpret_cast<const mprdma_abi_sge*>(recv + 1), recv->num_sge};
  const bool is_write = wqe.opcode == MPRDMA_ABI_WRITE_IMM;
  pieces.write(data.data(), data.size());
  mprdma_abi_cqe cqe =
      make_cqe(peer, recv->wr_id, is_write ? MPRDMA_ABI_WC_RECV_WRITE_IMM : MPRDMA_ABI_WC_RECV,
               MPRDMA_ABI_WC_SUCCESS, is_write ? written : static_cast<uint32_t>(data.size()));
  if (wqe.opcode == MPRDMA_ABI_SEND_IMM || is_write) {
    cqe.flags |= MPRDMA_ABI_CQE_IMM;
    cqe.imm_or_rkey = wqe.imm_or_rkey;
  }
  if ((wqe.flags & MPRDMA_ABI_WQE_SOLICITED) != 0) cqe.flags |= MPRDMA_ABI_CQE_SOLICITED;
  mprdma_abi_store_release(&dbr->consumer, dbr->consumer + 1);
  complete(engine().cqs.at(peer.init.recv_cq), cqe);
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
  if (wqe.opcode == MPRDMA_ABI_READ) {
    const char* from = remote(wqe, bytes, MPRDMA_ABI_ACCESS_REMOTE_READ);
    if (from == nullptr) return Outcome::kRemoteAccess;
    pieces.write(from, bytes);
    return Outcome::kDone;
  }
  const auto peer = engine().qps.find(qp.attr.dest_qpn);
  if (peer == engine().qps.end()) return Outcome::kWait;
  if (wqe.opcode == MPRDMA_ABI_SEND || wqe.opcode == MPRDMA_ABI_SEND_IMM) {
    return deliver(peer->second, wqe, data, 0);
  }
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
  if (qp.attr.state != MPRDMA_ABI_QPS_RTS) return;
  mprdma_abi_queue_dbr* dbr = qp.sq_dbr();
  while (dbr->consumer != mprdma_abi_load_acquire(&dbr->producer)) {
    const auto* wqe = mprdma_abi_send_slot(reinterpret_cast<void*>(qp.init.sq.ring),
                                           qp.init.sq.depth, qp.init.sq.stride, dbr->consumer);
    uint32_t bytes = 0;
    if ((wqe->flags & MPRDMA_ABI_WQE_SYNCHRONISE) != 0) qp.asked.synchronised++;
    const Outcome outcome = execute_wqe(qp, *wqe, bytes);
    if (outcome == Outcome::kWait) return;
    const bool failed = outcome == Outcome::kRemoteAccess;
    if (failed || (wqe->flags & MPRDMA_ABI_WQE_SIGNALED) != 0) {
      complete(engine().cqs.at(qp.init.send_cq),
               make_cqe(qp, wqe->wr_id, wc_opcode(wqe->opcode),
                        failed ? MPRDMA_ABI_WC_REM_ACCESS_ERR : MPRDMA_ABI_WC_SUCCESS, bytes));
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
    if (take_doorbell(handle) || qp.attr.state == MPRDMA_ABI_QPS_RTS) run_qp(qp);
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
  if (in_bytes >= sizeof(mprdma_abi_create_qp_ex)) {
    const auto& wanted = static_cast<const mprdma_abi_create_qp_ex*>(input)->transport;
    if (wanted.mode == MPRDMA_ABI_MODE_ROCE) return EOPNOTSUPP;
    asked.mode = wanted.mode;
    asked.initial_window = wanted.initial_window;
    asked.window_max = wanted.window_max;
    asked.reorder_delta = wanted.reorder_delta;
    asked.window_slots = wanted.window_slots;
  }
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
  if (attr.state == MPRDMA_ABI_QPS_ERR) flush(qp);
  if (attr.state == MPRDMA_ABI_QPS_RESET && (attr.mask & MPRDMA_ABI_QP_STATE) != 0) {
    qp.sq_dbr()->consumer = qp.sq_dbr()->producer;
    qp.rq_dbr()->consumer = qp.rq_dbr()->producer;
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
      return e.qps.erase(handle) == 1 ? 0 : EINVAL;
    default:
      return EOPNOTSUPP;
  }
}

int execute(void* opaque, uint32_t command, const void* in, size_t in_bytes, void* out, size_t) {
  const std::lock_guard lock(engine().mutex);
  return dispatch(static_cast<Connection*>(opaque), command, in, in_bytes, out);
}

void progress(void*) {
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
  return e.connections + e.pds + static_cast<uint32_t>(e.mrs.size() + e.cqs.size() + e.qps.size());
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

void fake_engine_hold(bool hold) {
  const std::lock_guard lock(engine().mutex);
  engine().hold = hold;
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
}
