#include "dataplane/client/daemon_port.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "dataplane/sys/clock.hpp"

namespace mprdma::dataplane::client {

namespace {

// A port that has just been opened should be up: programs look at its state and give up.
constexpr Duration kLinkTakes = Duration::s(2);

bool watch(int epoll_fd, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

PortResult DaemonPort::open(const std::string& path) {
  auto link = std::make_unique<DaemonLink>(path);
  LocalPort::Options options;
  Status status = link->open(&options.socket);
  if (!status.ok()) return PortResult::failure(std::move(status));
  options.role = local::Role::kAdopted;
  options.mac = link->device().mac;
  options.can_corrupt = link->can_corrupt();
  options.wake = local::Wake::kByMessage;  // mprdmad trusts no client, so it takes no eventfd
  PortResult local = LocalPort::open(options);
  if (!local) return local;
  auto port = std::make_unique<DaemonPort>(
      std::move(link), std::unique_ptr<LocalPort>(static_cast<LocalPort*>(local.port.release())));
  if (port->epoll_fd_ < 0) {
    return PortResult::failure(EMFILE, "no descriptor for the port; raise `ulimit -n`");
  }
  const Time start = clock_now();
  for (Time now = start; !port->link_up() && now - start < kLinkTakes; now = clock_now()) {
    pollfd waiting{port->notify_fd(), POLLIN, 0};
    ::poll(&waiting, 1, 10);
    port->service(now);
  }
  return PortResult::success(std::move(port));
}

DaemonPort::DaemonPort(std::unique_ptr<DaemonLink> link, std::unique_ptr<LocalPort> local)
    : link_(std::move(link)), local_(std::move(local)), epoll_fd_(epoll_create1(EPOLL_CLOEXEC)) {
  if (watch(epoll_fd_, link_->notify_fd()) && watch(epoll_fd_, local_->notify_fd())) return;
  if (epoll_fd_ >= 0) close(epoll_fd_);
  epoll_fd_ = -1;
}

DaemonPort::~DaemonPort() {
  if (epoll_fd_ >= 0) close(epoll_fd_);
}

PortInfo DaemonPort::info() const {
  PortInfo info = local_->info();
  info.link_mbps = link_->link_mbps();
  // Frames that are held may all be of one ring.
  constexpr auto kRing = local::Geometry::of_engine(DirectRings::kSlots);
  info.rx_frames = std::min(info.rx_frames, kRing.slots - 2 * kBurst);
  info.rx_large_frames = kRing.large_slots;
  return info;
}

const char* DaemonPort::link_text() const {
  if (link_up()) return "up";
  if (local_->link_up()) return "the wire behind mprdmad has no link";
  return link_->text();
}

void DaemonPort::service(Time now) {
  const bool was_over = local_->over();
  local_->service(now);
  if (local_->over() && !was_over) link_->on_port_down(now);
  const int socket = link_->poll(now);
  if (socket >= 0) {
    local_->adopt(socket);
    local_->service(now);
  }
  if (local_->link_up()) link_->on_port_up();
  link_->direct().service(now);
}

Port::Looks DaemonPort::await_rx(uint32_t looks, const std::atomic<uint32_t>& enough) {
  const DirectRings& rings = link_->direct();
  return look_for_frames(looks, enough, [&] { return local_->arrived() || rings.arrived(); });
}

bool DaemonPort::arm() {
  if (!local_->arm()) return false;
  if (link_->direct().arm()) return true;
  local_->disarm();
  return false;
}

void DaemonPort::disarm() {
  local_->disarm();
  link_->direct().disarm();
}

PortCounters DaemonPort::stats() const {
  PortCounters sum = local_->stats();
  sum += link_->direct().stats();
  return sum;
}

void DaemonPort::close_after_fork() {
  if (epoll_fd_ >= 0) close(epoll_fd_);
  epoll_fd_ = -1;
  link_->direct().close_after_fork();
  link_->close_after_fork();
  local_->close_after_fork();
}

}  // namespace mprdma::dataplane::client
