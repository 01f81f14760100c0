#include "tests/integration/verbs_check/verbs.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <cerrno>
#include <cstring>
#include <string_view>

namespace mprdma::verbs_check {

namespace {

void must(int error, const char* verb) {
  if (error != 0) fail("%s: %s", verb, std::strerror(error > 0 ? error : errno));
}

template <typename T>
T* must_have(T* object, const char* verb) {
  if (object == nullptr) fail("%s: %s", verb, std::strerror(errno));
  return object;
}

bool readable(int fd, int timeout_ms) {
  pollfd waiting{fd, POLLIN, 0};
  return ::poll(&waiting, 1, timeout_ms) == 1;
}

ibv_mtu mtu_code(uint32_t bytes) {
  switch (bytes) {
    case 256:
      return IBV_MTU_256;
    case 512:
      return IBV_MTU_512;
    case 1024:
      return IBV_MTU_1024;
    case 2048:
      return IBV_MTU_2048;
    case 4096:
      return IBV_MTU_4096;
    default:
      fail("there is no path MTU of %u bytes", bytes);
  }
}

}  // namespace

double now_s() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// ---- Device

Device::Device(const Args& args) {
  int count = 0;
  ibv_device** list = must_have(ibv_get_device_list(&count), "ibv_get_device_list");
  for (int i = 0; i < count && context_ == nullptr; ++i) {
    const std::string_view name = ibv_get_device_name(list[i]);
    if (args.device.empty() ? name.starts_with("mprdma") : name == args.device) {
      context_ = must_have(ibv_open_device(list[i]), "ibv_open_device");
    }
  }
  ibv_free_device_list(list);
  if (context_ == nullptr) fail("no such device among %d", count);
  pd_ = must_have(ibv_alloc_pd(context_), "ibv_alloc_pd");
  ibv_port_attr port{};
  must(ibv_query_port(context_, kPort, &port), "ibv_query_port");
  mtu_ = args.mtu == 0 ? port.active_mtu : mtu_code(args.mtu);
  must(fcntl(context_->async_fd, F_SETFL, fcntl(context_->async_fd, F_GETFL) | O_NONBLOCK),
       "fcntl(async_fd)");
  find_gid();
}

void Device::expect_active() const {
  ibv_port_attr port{};
  must(ibv_query_port(context_, kPort, &port), "ibv_query_port");
  if (port.state != IBV_PORT_ACTIVE) fail("the port is %s", ibv_port_state_str(port.state));
}

// The first RoCE v2 GID of an IPv4 address.
void Device::find_gid() {
  for (uint32_t index = 0; index < 64; ++index) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(context_, kPort, index, &entry, 0) != 0) continue;
    const bool mapped = entry.gid.raw[10] == 0xff && entry.gid.raw[11] == 0xff;
    if (entry.gid_type == IBV_GID_TYPE_ROCE_V2 && mapped && entry.gid.global.subnet_prefix == 0) {
      gid_ = entry.gid;
      gid_index_ = static_cast<uint8_t>(index);
      return;
    }
  }
  fail("the port has no RoCE v2 GID with an IPv4 address");
}

Device::~Device() {
  must(ibv_dealloc_pd(pd_), "ibv_dealloc_pd");
  must(ibv_close_device(context_), "ibv_close_device");
}

bool Device::async_event(ibv_event_type* type, uint32_t* qpn, int timeout_ms) {
  ibv_async_event event{};
  if (!readable(context_->async_fd, timeout_ms)) return false;
  if (ibv_get_async_event(context_, &event) != 0) return false;
  *type = event.event_type;
  const bool of_qp =
      event.event_type <= IBV_EVENT_PATH_MIG_ERR && event.event_type != IBV_EVENT_CQ_ERR;
  *qpn = of_qp ? event.element.qp->qp_num : 0;
  ibv_ack_async_event(&event);
  return true;
}

// ---- Memory

Memory::Memory(ibv_pd* pd, size_t bytes, int access, unsigned char fill) : bytes_(bytes) {
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) fail("mmap of %zu bytes: %s", bytes, std::strerror(errno));
  data_ = static_cast<unsigned char*>(mapped);
  std::memset(data_, fill, bytes);
  mr_ = must_have(ibv_reg_mr(pd, data_, bytes, static_cast<unsigned>(access)), "ibv_reg_mr");
}

Memory::~Memory() {
  must(ibv_dereg_mr(mr_), "ibv_dereg_mr");
  munmap(data_, bytes_);
}

// ---- Cq

Cq::Cq(const Device& device, uint32_t entries, bool with_channel) {
  if (with_channel) {
    channel_ = must_have(ibv_create_comp_channel(device.context()), "ibv_create_comp_channel");
  }
  cq_ = must_have(ibv_create_cq(device.context(), static_cast<int>(entries), nullptr, channel_, 0),
                  "ibv_create_cq");
}

Cq::~Cq() {
  must(ibv_destroy_cq(cq_), "ibv_destroy_cq");
  if (channel_ != nullptr) must(ibv_destroy_comp_channel(channel_), "ibv_destroy_comp_channel");
}

unsigned Cq::poll(ibv_wc* wcs, unsigned n) {
  const int got = ibv_poll_cq(cq_, static_cast<int>(n), wcs);
  if (got < 0) fail("ibv_poll_cq: %d", got);
  return static_cast<unsigned>(got);
}

ibv_wc Cq::wait_one(uint32_t seconds, const char* what) {
  const double deadline = now_s() + seconds;
  ibv_wc wc{};
  while (poll(&wc, 1) == 0) {
    if (now_s() > deadline) fail("%s: no completion within %u s", what, seconds);
    sched_yield();
  }
  return wc;
}

void Cq::arm() {
  must(ibv_req_notify_cq(cq_, 0), "ibv_req_notify_cq");
}

void Cq::get_event() {
  ibv_cq* of = nullptr;
  void* context = nullptr;
  must(ibv_get_cq_event(channel_, &of, &context), "ibv_get_cq_event");
  if (of != cq_) fail("an event of another CQ");
  ibv_ack_cq_events(cq_, 1);
}

void Cq::sleep_any(Cq& one, Cq& other, int fd, int timeout_ms) {
  pollfd waiting[] = {
      {one.channel_->fd, POLLIN, 0}, {other.channel_->fd, POLLIN, 0}, {fd, POLLIN, 0}};
  ::poll(waiting, std::size(waiting), timeout_ms);
  if ((waiting[0].revents & POLLIN) != 0) one.get_event();
  if ((waiting[1].revents & POLLIN) != 0) other.get_event();
}

// ---- Qp

Qp::Qp(const Device& device, const Cq& send_cq, const Cq& recv_cq, const QpOptions& options,
       uint32_t psn)
    : device_(device), options_(options), psn_(psn & 0xffffff) {
  ibv_qp_init_attr init{};
  init.send_cq = send_cq.get();
  init.recv_cq = recv_cq.get();
  init.cap = {options.send_wr, options.recv_wr, kMaxSge, kMaxSge, options.inline_bytes};
  init.qp_type = IBV_QPT_RC;
  init.sq_sig_all = options.signal_all ? 1 : 0;
  qp_ = must_have(ibv_create_qp(device.pd(), &init), "ibv_create_qp");
  inline_bytes_ = init.cap.max_inline_data;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = kPort;
  attr.qp_access_flags = options.access;
  must(ibv_modify_qp(qp_, &attr,
                     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
       "ibv_modify_qp(INIT)");
}

Qp::~Qp() {
  must(ibv_destroy_qp(qp_), "ibv_destroy_qp");
}

QpAddress Qp::address() const {
  return {qp_->qp_num, psn_, device_.gid(), static_cast<uint32_t>(device_.mtu())};
}

ibv_qp_state Qp::state() const {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  must(ibv_query_qp(qp_, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
  return attr.qp_state;
}

void Qp::connect(const QpAddress& peer) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = peer.mtu < device_.mtu() ? static_cast<ibv_mtu>(peer.mtu) : device_.mtu();
  attr.dest_qp_num = peer.qpn;
  attr.rq_psn = peer.psn;
  attr.max_dest_rd_atomic = options_.max_rd_atomic;
  attr.min_rnr_timer = options_.min_rnr_timer;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = kPort;
  attr.ah_attr.grh = {peer.gid, 0, device_.gid_index(), 64, 0};
  must(ibv_modify_qp(qp_, &attr,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
       "ibv_modify_qp(RTR)");
  attr = {};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = options_.timeout;
  attr.retry_cnt = options_.retry_cnt;
  attr.rnr_retry = options_.rnr_retry;
  attr.sq_psn = psn_;
  attr.max_rd_atomic = options_.max_rd_atomic;
  must(ibv_modify_qp(qp_, &attr,
                     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                         IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
       "ibv_modify_qp(RTS)");
}

void Qp::post_recv(uint64_t wr_id, const ibv_sge* sges, int count) {
  ibv_recv_wr wr{};
  ibv_recv_wr* bad = nullptr;
  wr.wr_id = wr_id;
  wr.sg_list = const_cast<ibv_sge*>(sges);
  wr.num_sge = count;
  must(ibv_post_recv(qp_, &wr, &bad), "ibv_post_recv");
}

}  // namespace mprdma::verbs_check
