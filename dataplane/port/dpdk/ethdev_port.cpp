#include "dataplane/port/dpdk/ethdev_port.hpp"

#include <net/if.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "dataplane/port/atomic_counters.hpp"
#include "dataplane/port/dpdk/eal_signals.hpp"
#include "dataplane/port/dpdk/mbuf_pool.hpp"

namespace mprdma::dataplane {

namespace {

constexpr uint16_t kRingDescriptors = 256;
// Frames that the engine may hold, plus those in rings, queues and bursts.
constexpr uint32_t kHeldFrames = 2048;
constexpr uint32_t kPoolFrames = kHeldFrames + 4 * kRingDescriptors + 8 * kBurst;
// Room before the headers for what a driver prepends (virtio's header), and the alignment.
constexpr uint16_t kPayloadOffset = kFrameHeadroom + 64;
static_assert(kPayloadOffset % 64 == 0 && RTE_PKTMBUF_HEADROOM % 64 == 0);
constexpr uint32_t kEthernetHeaderBytes = 14;
constexpr Duration kDropsInterval = Duration::ms(100);

}  // namespace

PortResult EthdevPort::open(const EthdevSpec& spec) {
  auto port = std::make_unique<EthdevPort>(spec);
  if (Status status = port->start(); !status.ok()) return PortResult::failure(std::move(status));
  return PortResult::success(std::move(port));
}

EthdevPort::EthdevPort(EthdevSpec spec) : spec_(std::move(spec)) {}

EthdevPort::~EthdevPort() {
  const NoPipeSignal no_pipe_signal;
  end_background();
  drop_pending();
  rte_pktmbuf_free_bulk(early_.data(), early_count_);
  if (started_) rte_eth_dev_stop(port_id_);
  if (port_id_ != RTE_MAX_ETHPORTS) {
    if (spec_.is_pci()) {
      rte_eth_dev_close(port_id_);
    } else {
      rte_eal_hotplug_remove("vdev", spec_.name.c_str());
    }
  }
  // Frames that the engine still holds would point into nothing: rather keep the pool.
  if (pool_ != nullptr && rte_mempool_full(pool_) != 0) rte_mempool_free(pool_);
  if (epoll_fd_ >= 0) close(epoll_fd_);
  if (lock_fd_ >= 0) unlock_ethdev_socket(spec_, lock_fd_);
}

// ---- Opening

Status EthdevPort::failed(const char* step, int error) const {
  error = error < 0 ? -error : (error == 0 ? EIO : error);
  return {error, spec_.name + ": " + step + " (" + std::strerror(error) + "): " + drain_eal_log()};
}

Status EthdevPort::start() {
  Status status = check_ethdev_spec(spec_);
  if (status.ok()) status = start_eal(spec_.eal);
  if (status.ok() && !spec_.socket_path.empty()) status = lock_ethdev_socket(spec_, &lock_fd_);
  if (!status.ok()) return status;
  if (spec_.needs_random_mac()) draw_mac();
  if (spec_.can_interrupt()) epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  status = make_pool();
  if (!status.ok()) return status;
  if (spec_.waits_for_peer()) {
    create_in_background();
    return {};
  }
  status = create();
  if (!status.ok()) return status;
  fill_info();
  stage_ = Stage::kReady;
  read_link();
  return {};
}

Status EthdevPort::create() {
  const NoPipeSignal no_pipe_signal;
  drain_eal_log();
  if (!spec_.is_pci()) {
    const int error = rte_eal_hotplug_add("vdev", spec_.name.c_str(), spec_.args.c_str());
    if (error != 0) return failed("the device cannot be created", error);
  }
  if (rte_eth_dev_get_port_by_name(spec_.name.c_str(), &port_id_) != 0) {
    port_id_ = RTE_MAX_ETHPORTS;
    return failed("DPDK finds no such device; is it bound to vfio-pci?", ENODEV);
  }
  return configure();
}

void EthdevPort::create_in_background() {
  info_.frame_bytes_max = spec_.frame_bytes_max();
  info_.rx_frames = kHeldFrames;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  creator_ = std::thread([this] {
    creation_ = create();
    stage_.store(creation_.ok() ? Stage::kReady : Stage::kFailed, std::memory_order_release);
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// DPDK offers no way to stop waiting for a peer, so we play one that goes away again.
void EthdevPort::end_background() {
  if (!creator_.joinable()) return;
  while (stage_.load(std::memory_order_acquire) == Stage::kCreating) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, spec_.socket_path.c_str(), spec_.socket_path.size() + 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) break;
    [[maybe_unused]] const int unused =
        connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    close(fd);
    usleep(1000);
  }
  creator_.join();
}

Status EthdevPort::make_pool() {
  static std::atomic<unsigned> pools = 0;
  const std::string name = "mprdma-" + std::to_string(pools++);
  const auto room = static_cast<uint16_t>(RTE_PKTMBUF_HEADROOM + spec_.buffer_bytes());
  pool_ = create_mbuf_pool(name, kPoolFrames, room, spec_.needs_pages());
  if (pool_ == nullptr) {
    return failed("no memory for packet buffers; give more with mem=MB", rte_errno);
  }
  return {};
}

Status EthdevPort::configure() {
  rte_eth_dev_info device{};
  int error = rte_eth_dev_info_get(port_id_, &device);
  if (error != 0) return failed("no information about the device", error);
  rte_eth_conf conf{};
  // Virtual devices take jumbo frames with the MTU left alone, and some refuse it when set.
  if (spec_.is_pci() && device.max_mtu >= kFrameHeadroom + 4096) conf.rxmode.mtu = 4096 + 200;
  conf.txmode.offloads = device.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
  conf.intr_conf.rxq = spec_.can_interrupt() ? 1 : 0;
  error = rte_eth_dev_configure(port_id_, 1, 1, &conf);
  if (error != 0) return failed("the device refuses its configuration", error);
  uint16_t rx_descriptors = kRingDescriptors;
  uint16_t tx_descriptors = kRingDescriptors;
  rte_eth_dev_adjust_nb_rx_tx_desc(port_id_, &rx_descriptors, &tx_descriptors);
  error = rte_eth_rx_queue_setup(port_id_, 0, rx_descriptors, SOCKET_ID_ANY, nullptr, pool_);
  if (error != 0) {
    Status status = failed("no receive queue", error);
    status.text += spec_.queue_hint();
    return status;
  }
  error = rte_eth_tx_queue_setup(port_id_, 0, tx_descriptors, SOCKET_ID_ANY, nullptr);
  if (error != 0) return failed("no transmit queue", error);
  error = rte_eth_dev_start(port_id_);
  if (error != 0) return failed("the device does not start", error);
  // Groups that a queue pair attached to; a device without a filter may not know the request.
  (void)rte_eth_allmulticast_enable(port_id_);
  // The address of the RDMA device need not be the adapter's. Nobody else has the adapter.
  if (spec_.is_pci()) (void)rte_eth_promiscuous_enable(port_id_);
  started_ = true;
  return {};
}

void EthdevPort::draw_mac() {
  if (getrandom(info_.mac.data(), info_.mac.size(), 0) < 0) info_.mac[5] = 1;
  info_.mac[0] = 0x02;  // locally administered, unicast
}

void EthdevPort::fill_info() {
  rte_ether_addr address{};
  if (!spec_.needs_random_mac() && rte_eth_macaddr_get(port_id_, &address) == 0) {
    std::copy(std::begin(address.addr_bytes), std::end(address.addr_bytes), info_.mac.begin());
  }
  info_.frame_bytes_max = frame_bytes_max();
  info_.rx_frames = kHeldFrames;
  rte_eth_link link{};
  if (rte_eth_link_get_nowait(port_id_, &link) == 0) note_speed(link.link_speed);
}

void EthdevPort::note_speed(uint32_t mbps) {
  if (mbps != RTE_ETH_SPEED_NUM_NONE && mbps != RTE_ETH_SPEED_NUM_UNKNOWN) info_.link_mbps = mbps;
}

uint32_t EthdevPort::frame_bytes_max() const {
  uint32_t bytes = spec_.frame_bytes_max();
  rte_eth_dev_info device{};
  rte_eth_dev_info_get(port_id_, &device);
  // A device on top of a kernel interface sends what that interface takes.
  char name[IF_NAMESIZE];
  const bool on_interface =
      device.if_index != 0 && if_indextoname(device.if_index, name) != nullptr;
  uint32_t mtu = on_interface ? interface_mtu(name) : 0;
  uint16_t device_mtu = 0;
  if (spec_.is_pci() && rte_eth_dev_get_mtu(port_id_, &device_mtu) == 0) mtu = device_mtu;
  if (mtu != 0) bytes = std::min(bytes, mtu + kEthernetHeaderBytes);
  return bytes;
}

// ---- Sending

unsigned EthdevPort::tx_reserve(TxFrame* frames, unsigned n) {
  n = std::min(n, kBurst);
  const unsigned wanted = n;
  if (pending_count_ + reserved_ + n > kPendingMax) send_pending();
  n = std::min(n, kPendingMax - std::min(pending_count_ + reserved_, kPendingMax));
  std::array<rte_mbuf*, kBurst> mbufs;
  if (n > 0 && rte_pktmbuf_alloc_bulk(pool_, mbufs.data(), n) != 0) n = 0;
  for (unsigned i = 0; i < n; ++i) {
    auto* payload = static_cast<unsigned char*>(mbufs[i]->buf_addr) + kPayloadOffset;
    frames[i] = {payload, uint32_t{mbufs[i]->buf_len} - kPayloadOffset, 0, 0,
                 reinterpret_cast<uintptr_t>(mbufs[i])};
  }
  if (n < wanted) count(counters_.tx_back_pressure);
  reserved_ += n;
  return n;
}

bool EthdevPort::tx_tight() {
  if (pending_count_ > kPendingOfData) send_pending();
  if (pending_count_ <= kPendingOfData) return false;
  count(counters_.tx_back_pressure);
  return true;
}

void EthdevPort::tx_commit(const TxFrame* frames, unsigned n) {
  if (!link_up()) {
    tx_abandon(frames, n);
    count(counters_.tx_dropped, n);
    return;
  }
  for (unsigned i = 0; i < n; ++i) {
    const TxFrame& frame = frames[i];
    DCHECK(frame.header_bytes <= kFrameHeadroom);
    DCHECK(frame.frame_bytes <= frame.header_bytes + frame.capacity);
    auto* mbuf = reinterpret_cast<rte_mbuf*>(static_cast<uintptr_t>(frame.cookie));
    mbuf->data_off = static_cast<uint16_t>(kPayloadOffset - frame.header_bytes);
    mbuf->data_len = static_cast<uint16_t>(frame.frame_bytes);
    mbuf->pkt_len = frame.frame_bytes;
    if (spec_.vlan) push_tag(mbuf);
    CHECK(pending_count_ < kPendingMax);
    pending_[pending_count_++] = mbuf;
  }
  reserved_ -= n;
}

// The four bytes come from the driver's room.
void EthdevPort::push_tag(rte_mbuf* mbuf) const {
  spec_.vlan->push(rte_pktmbuf_mtod(mbuf, unsigned char*));
  mbuf->data_off = static_cast<uint16_t>(mbuf->data_off - wire::VlanTag::kBytes);
  mbuf->data_len = static_cast<uint16_t>(mbuf->data_len + wire::VlanTag::kBytes);
  mbuf->pkt_len += wire::VlanTag::kBytes;
}

void EthdevPort::tx_abandon(const TxFrame* frames, unsigned n) {
  for (unsigned i = 0; i < n; ++i) {
    rte_pktmbuf_free(reinterpret_cast<rte_mbuf*>(static_cast<uintptr_t>(frames[i].cookie)));
  }
  reserved_ -= n;
}

void EthdevPort::flush() {
  if (pending_count_ > 0) send_pending();
}

void EthdevPort::send_pending() {
  if (!link_up()) return drop_pending();
  const uint32_t tag = spec_.vlan ? wire::VlanTag::kBytes : 0;
  unsigned sent = 0;
  uint64_t bytes = 0;
  while (sent < pending_count_) {
    const auto burst = static_cast<uint16_t>(std::min(pending_count_ - sent, kBurst));
    // Lengths now: a sent mbuf is the driver's.
    std::array<uint32_t, kBurst> lengths;
    for (unsigned i = 0; i < burst; ++i) lengths[i] = pending_[sent + i]->pkt_len - tag;
    const uint16_t taken = rte_eth_tx_burst(port_id_, 0, &pending_[sent], burst);
    for (unsigned i = 0; i < taken; ++i) bytes += lengths[i];
    sent += taken;
    if (taken < burst) break;
  }
  std::copy(pending_.begin() + sent, pending_.begin() + pending_count_, pending_.begin());
  pending_count_ -= sent;
  count(counters_.tx_frames, sent);
  count(counters_.tx_bytes, bytes);
}

void EthdevPort::drop_pending() {
  rte_pktmbuf_free_bulk(pending_.data(), pending_count_);
  count(counters_.tx_dropped, pending_count_);
  pending_count_ = 0;
}

// ---- Receiving

unsigned EthdevPort::rx_burst(RxFrame* frames, unsigned n) {
  std::array<rte_mbuf*, kBurst> mbufs;
  n = std::min(n, kBurst);
  // What the driver had no room for: every burst of the engine begins here, even an idle one.
  if (pending_count_ > 0) send_pending();
  unsigned received = 0;
  if (early_count_ > 0) {
    received = std::min(n, early_count_);
    std::copy_n(early_.begin(), received, mbufs.begin());
    std::copy(early_.begin() + received, early_.begin() + early_count_, early_.begin());
    early_count_ -= received;
  } else if (link_up()) {
    received = rte_eth_rx_burst(port_id_, 0, mbufs.data(), static_cast<uint16_t>(n));
  }
  for (unsigned i = 0; spec_.vlan && i < received; ++i) {
    rte_prefetch0(rte_pktmbuf_mtod(mbufs[i], void*));
  }
  unsigned taken = 0;
  uint64_t bytes = 0;
  for (unsigned i = 0; i < received; ++i) {
    if (!to_frame(mbufs[i], &frames[taken])) continue;
    bytes += frames[taken].length;
    ++taken;
  }
  count(counters_.rx_frames, taken);
  count(counters_.rx_bytes, bytes);
  return taken;
}

bool EthdevPort::to_frame(rte_mbuf* mbuf, RxFrame* frame) {
  // Buffers hold a whole frame, so a chain is something that cannot be for us.
  if (mbuf->nb_segs != 1 || mbuf->data_len < kEthernetHeaderBytes) {
    rte_pktmbuf_free(mbuf);
    count(counters_.rx_malformed);
    return false;
  }
  if (spec_.vlan && !pop_tag(mbuf)) {
    rte_pktmbuf_free(mbuf);
    count(counters_.rx_other_vlan);
    return false;
  }
  frame->data = rte_pktmbuf_mtod(mbuf, const unsigned char*);
  frame->length = mbuf->data_len;
  frame->cookie = reinterpret_cast<uintptr_t>(mbuf);
  frame->form = FrameForm::kFrame;
  __builtin_prefetch(frame->data);
  __builtin_prefetch(frame->data + 64);
  return true;
}

// False: the frame is not of our VLAN.
bool EthdevPort::pop_tag(rte_mbuf* mbuf) const {
  auto* frame = rte_pktmbuf_mtod(mbuf, unsigned char*);
  if (!wire::VlanTag::admits(spec_.vlan->vid, frame, mbuf->data_len)) return false;
  if (!wire::VlanTag::is_on(frame, mbuf->data_len)) return true;
  wire::VlanTag::pop(frame);
  rte_pktmbuf_adj(mbuf, wire::VlanTag::kBytes);
  return true;
}

void EthdevPort::rx_release(const uint64_t* cookies, unsigned n) {
  for (unsigned i = 0; i < n;) {
    std::array<rte_mbuf*, kBurst> mbufs;
    unsigned burst = 0;
    for (; burst < kBurst && i < n; ++i) {
      mbufs[burst++] = reinterpret_cast<rte_mbuf*>(static_cast<uintptr_t>(cookies[i]));
    }
    rte_pktmbuf_free_bulk(mbufs.data(), burst);
  }
}

// ---- Sleeping

bool EthdevPort::arm() {
  if (early_count_ > 0) return false;
  if (!link_up()) return true;
  if (pending_count_ > 0) send_pending();
  if (interrupt_fd_ >= 0) armed_ = rte_eth_dev_rx_intr_enable(port_id_, 0) == 0;
  // Only now: what comes later interrupts.
  early_count_ = rte_eth_rx_burst(port_id_, 0, early_.data(), kBurst);
  if (early_count_ == 0) return true;
  disarm();
  return false;
}

void EthdevPort::disarm() {
  if (armed_) rte_eth_dev_rx_intr_disable(port_id_, 0);
  armed_ = false;
}

// ---- Peers come and go

void EthdevPort::service(Time now) {
  if (stage_.load(std::memory_order_acquire) != Stage::kReady) return;
  if (pending_count_ > 0) send_pending();
  read_link();
  follow_interrupt();
  read_drops(now);
}

void EthdevPort::read_link() {
  const NoPipeSignal no_pipe_signal;
  rte_eth_link link{};
  const bool up =
      rte_eth_link_get_nowait(port_id_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
  if (up == link_up()) return;
  count(up ? counters_.link_ups : counters_.link_downs);
  if (up) note_speed(link.link_speed);
  if (!up) disarm();
  up_.store(up, std::memory_order_relaxed);
  if (!up) drop_pending();
}

// The driver's descriptor comes with the peer, and may change with it; reading it stops its noise.
void EthdevPort::follow_interrupt() {
  if (epoll_fd_ < 0) return;
  const int fd = link_up() ? rte_eth_dev_rx_intr_ctl_q_get_fd(port_id_, 0) : -1;
  if (fd != interrupt_fd_) {
    if (interrupt_fd_ >= 0) epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, interrupt_fd_, nullptr);
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;  // an edge per interrupt, so that it need not be read
    const bool added = fd >= 0 && epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0;
    interrupt_fd_ = added ? fd : -1;
  }
  epoll_event events[4];
  epoll_wait(epoll_fd_, events, 4, 0);
}

void EthdevPort::read_drops(Time now) {
  if (now < next_drops_) return;
  next_drops_ = now + kDropsInterval;
  rte_eth_stats stats{};
  if (rte_eth_stats_get(port_id_, &stats) != 0) return;
  const uint64_t drops = stats.imissed + stats.rx_nombuf;
  if (drops > drops_seen_) count(counters_.rx_no_buffer, drops - drops_seen_);
  drops_seen_ = drops;
}

const char* EthdevPort::link_text() const {
  if (link_up()) return "up";
  if (stage_.load(std::memory_order_acquire) == Stage::kFailed) return creation_.text.c_str();
  if (spec_.socket_path.empty()) return "the device has no carrier; check its cable or `ip link`";
  return spec_.listens || spec_.driver == "net_vhost"
             ? "waiting for the process at the other end of the vhost-user wire"
             : "the vhost-user server went away; restart this end, or use server=1 here";
}

// The device's own descriptors cannot be told from the application's: they stay open in the child,
// and a vhost-user peer sees the parent's death only when the child ends or executes a program.
void EthdevPort::close_after_fork() {
  if (epoll_fd_ >= 0) close(epoll_fd_);
  if (lock_fd_ >= 0) close(lock_fd_);
  epoll_fd_ = -1;
  lock_fd_ = -1;
}

PortCounters EthdevPort::stats() const {
  return read_counters(counters_);
}

}  // namespace mprdma::dataplane
