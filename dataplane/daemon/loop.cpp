#include "dataplane/daemon/loop.hpp"

#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <span>
#include <utility>

#include "dataplane/sys/clock.hpp"
#include "dataplane/sys/poll_pause.hpp"
#include "dataplane/sys/thread_class.hpp"

namespace mprdma::dataplane::mprdmad {

namespace {

constexpr uint64_t kTagSignal = 1;
constexpr uint64_t kTagWire = 2;
constexpr uint64_t kTagKernel = 3;

}  // namespace

DaemonLoop::DaemonLoop(Options options, std::unique_ptr<Port> wire, std::unique_ptr<KernelTap> tap)
    : options_(std::move(options)),
      cm_(options_.cm),
      switch_(options_.device, std::move(wire), &cm_, clock_now()),
      server_(options_.server, &switch_, &cm_, events_.fd()),
      poll_pause_(kPollPauseMin) {
  if (tap != nullptr) switch_.use_tap(std::move(tap));
}

DaemonLoop::~DaemonLoop() = default;

Status DaemonLoop::start() {
  const int wire_fd = switch_.wire() != nullptr ? switch_.wire()->notify_fd() : -1;
  if (!events_.watch_signals({SIGTERM, SIGINT, SIGHUP}, kTagSignal) ||
      (wire_fd >= 0 && !events_.watch(wire_fd, kTagWire, EventLoop::Trigger::kEdge)) ||
      (switch_.tap() != nullptr && !events_.watch(switch_.tap()->fd(), kTagKernel))) {
    return system_status("epoll", errno);
  }
  const Time now = clock_now();
  last_client_ = next_service_ = next_service_clients_ = next_event_check_ = now;
  link_was_up_ = switch_.link_up();
  server_.set_device(options_.device);
  publish();
  return server_.open(now);
}

void DaemonLoop::run() {
  request_service_share();
  request_low_latency();
  while (!down_) step(Duration::infinite());
}

void DaemonLoop::step(Duration longest) {
  const Time now = clock_now();
  const bool moved = switch_.turn(now);
  pump(now);
  service(now);
  const Duration wait = std::min(pause(now, moved), longest);
  if (wait > Duration::zero() || now >= next_event_check_) {
    wait_for_events(wait);
    next_event_check_ = now + wait + kEventCheckInterval;
  } else if (!moved) {
    // The process that sends next may need this core.
    sched_yield();
  }
}

void DaemonLoop::pump(Time now) {
  cm_has_more_ =
      cm_.pump(switch_, now, [this](const CmAgent::ClientEvent& event) { server_.deliver(event); });
  switch_.prober().drain_results(
      [this](const PathProber::Result& result) { server_.deliver(result); });
  server_.reap(now);
}

void DaemonLoop::service(Time now) {
  if (now >= next_service_) {
    next_service_ = now + kService;
    switch_.service_wire(now);
    if (switch_.link_up() != link_was_up_) {
      link_was_up_ = switch_.link_up();
      server_.set_device(options_.device);
    }
  }
  if (now >= next_service_clients_) {
    next_service_clients_ = now + kServiceClients;
    switch_.service_clients(now);
    server_.service(now);
    publish();
    if (server_.clients() > 0) last_client_ = now;
    if (now - last_client_ >= options_.linger) {
      down_ = !options_.may_end || options_.may_end();
      // Without a wire there is no peer left whose late packets could meet another owner.
      if (down_ && switch_.wire() == nullptr) server_.forget_blocks();
    }
  }
}

void DaemonLoop::publish() {
  if (options_.board == nullptr) return;
  DaemonStatus& status = options_.board->draft();
  status.device_name = options_.server.device_name;
  status.ipv4 = options_.device.ipv4;
  status.prefix_bits = options_.device.prefix_bits;
  status.mac = options_.device.mac;
  status.mtu = options_.server.mtu;
  status.link_up = switch_.link_up();
  status.has_wire = switch_.wire() != nullptr;
  status.wire = switch_.wire_counters();
  if (status.has_wire) status.wire_port = switch_.wire()->stats();
  status.gone = switch_.departed();
  status.server = server_.counters();
  status.cm = cm_.agent().counters();
  status.cm_ids = cm_.agent().ids_in_use();
  server_.list(&status.clients);
  options_.board->publish();
}

// Time to sleep; zero: none.
Duration DaemonLoop::pause(Time now, bool moved) {
  if (moved) poll_pause_ = kPollPauseMin;
  if (moved || cm_has_more_ || !switch_.arm_idle_ports(now)) return Duration::zero();
  const Time next = std::min(
      {next_service_, next_service_clients_, switch_.next_deadline(), cm_.agent().next_deadline()});
  Duration wait = std::max(next - now, Duration::zero());
  if (switch_.wire() != nullptr && switch_.wire()->notify_fd() < 0) {
    wait = std::min(wait, poll_pause_);
    poll_pause_ = std::min(poll_pause_ * 2, kPollPauseMax);
  }
  return wait;
}

void DaemonLoop::wait_for_events(Duration pause) {
  std::array<epoll_event, 32> room;
  const std::span<epoll_event> ready = events_.wait(pause, room);
  if (ready.empty()) return;
  const Time now = clock_now();
  for (const epoll_event& event : ready) on_ready(event.data.u64, event.events, now);
}

void DaemonLoop::on_ready(uint64_t tag, uint32_t events, Time now) {
  if (tag >= DaemonServer::kTagBase) return server_.on_ready(tag, events, now);
  if (tag == kTagWire) return switch_.wake_wire(now);
  if (tag == kTagKernel) return on_kernel(events, now);
  on_signal();
}

void DaemonLoop::on_kernel(uint32_t events, Time now) {
  if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
    // The interface was removed: its descriptor would stay readable for ever.
    events_.forget(switch_.tap()->fd());
    std::fputs("mprdmad: the tap is gone; the kernel gets nothing until a restart\n", stderr);
    return;
  }
  // The answer may come to a port that has to be polled.
  if (switch_.serve_kernel(now)) poll_pause_ = kPollPauseMin;
}

void DaemonLoop::on_signal() {
  while (const int signal = events_.read_signal()) {
    if (signal == SIGHUP) {
      reload();
    } else {
      down_ = true;
    }
  }
}

void DaemonLoop::reload() {
  SwitchConfig device = options_.device;
  std::vector<uid_t> uids;
  if (!options_.reload || !options_.reload(&device, &uids)) return;
  const Time now = clock_now();
  server_.set_uids(std::move(uids));
  // The clients' queue pairs and connections use the old address, so none of them could go on.
  if (device.ipv4 != options_.device.ipv4 && server_.clients() > 0) {
    std::fprintf(stderr,
                 "mprdmad: the address stays while processes use the device (%zu do): end them, "
                 "then send SIGHUP again; of the rest, only allowed_uids changed\n",
                 server_.clients());
    return;
  }
  const bool moved =
      device.ipv4 != options_.device.ipv4 || device.prefix_bits != options_.device.prefix_bits;
  options_.device = device;
  switch_.configure(device, now);
  if (!moved) return;
  options_.cm.address = wire::map_ipv4(device.ipv4);
  options_.cm.ipv4 = device.ipv4;
  cm_.agent().set_address(options_.cm, now);
  server_.set_device(device);
}

}  // namespace mprdma::dataplane::mprdmad
