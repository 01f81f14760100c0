#include "dataplane/nic/nic_loop.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "dataplane/clock.hpp"
#include "dataplane/progress.hpp"
#include "dataplane/prompt_thread.hpp"

namespace mprdma::dataplane::nic {

namespace {

constexpr uint64_t kTagSignal = 1;
constexpr uint64_t kTagWire = 2;
constexpr uint64_t kTagKernel = 3;

}  // namespace

NicLoop::NicLoop(Options options, std::unique_ptr<Port> wire, std::unique_ptr<KernelTap> tap)
    : options_(std::move(options)),
      epoll_fd_(epoll_create1(EPOLL_CLOEXEC)),
      cm_(options_.cm),
      nic_(options_.device, std::move(wire), &cm_, clock_now()),
      server_(options_.server, &nic_, &cm_, epoll_fd_),
      poll_pause_(Progress::kPollPauseMin) {
  if (tap != nullptr) nic_.use_tap(std::move(tap));
}

NicLoop::~NicLoop() {
  if (signal_fd_ >= 0) close(signal_fd_);
  if (epoll_fd_ >= 0) close(epoll_fd_);
}

bool NicLoop::watch(int fd, uint64_t tag, bool edge) const {
  epoll_event event{};
  event.events = EPOLLIN | (edge ? static_cast<unsigned>(EPOLLET) : 0U);
  event.data.u64 = tag;
  return epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0;
}

std::string NicLoop::start() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, number);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal_fd_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  const int wire_fd = nic_.wire() != nullptr ? nic_.wire()->notify_fd() : -1;
  if (epoll_fd_ < 0 || signal_fd_ < 0 || !watch(signal_fd_, kTagSignal, false) ||
      (wire_fd >= 0 && !watch(wire_fd, kTagWire, true)) ||
      (nic_.tap() != nullptr && !watch(nic_.tap()->fd(), kTagKernel, false))) {
    return std::string("epoll: ") + std::strerror(errno);
  }
  const Time now = clock_now();
  last_client_ = next_service_ = next_service_clients_ = next_look_ = now;
  link_was_up_ = nic_.link_up();
  server_.set_device(options_.device);
  publish();
  return server_.open(now);
}

void NicLoop::run() {
  make_prompt();
  while (!down_) step(Duration::infinite());
}

void NicLoop::step(Duration longest) {
  const Time now = clock_now();
  const bool moved = nic_.turn(now);
  pump(now);
  service(now);
  const Duration wait = std::min(pause(now, moved), longest);
  if (wait > Duration::zero() || now >= next_look_) {
    look(wait);
    next_look_ = now + wait + kLook;
  } else if (!moved) {
    // Whoever is to send next may wait for this core.
    sched_yield();
  }
}

void NicLoop::pump(Time now) {
  cm_has_more_ =
      cm_.pump(nic_, now, [this](const CmAgent::ClientEvent& event) { server_.deliver(event); });
  nic_.prober().take_results([this](const PathProber::Result& result) { server_.deliver(result); });
  server_.reap(now);
}

void NicLoop::service(Time now) {
  if (now >= next_service_) {
    next_service_ = now + kService;
    nic_.service_wire(now);
    if (nic_.link_up() != link_was_up_) {
      link_was_up_ = nic_.link_up();
      server_.set_device(options_.device);
    }
  }
  if (now >= next_service_clients_) {
    next_service_clients_ = now + kServiceClients;
    nic_.service_clients(now);
    server_.service(now);
    publish();
    if (server_.clients() > 0) last_client_ = now;
    if (now - last_client_ >= options_.linger) {
      down_ = !options_.may_end || options_.may_end();
      // Without a wire there is no peer left whose late packets could meet another owner.
      if (down_ && nic_.wire() == nullptr) server_.forget_blocks();
    }
  }
}

void NicLoop::publish() {
  if (options_.board == nullptr) return;
  NicFacts& facts = options_.board->draft();
  facts.device_name = options_.server.device_name;
  facts.ipv4 = options_.device.ipv4;
  facts.prefix_bits = options_.device.prefix_bits;
  facts.mac = options_.device.mac;
  facts.mtu = options_.server.mtu;
  facts.link_up = nic_.link_up();
  facts.has_wire = nic_.wire() != nullptr;
  facts.wire = nic_.wire_counters();
  if (facts.has_wire) facts.wire_port = nic_.wire()->stats();
  facts.gone = nic_.departed();
  facts.server = server_.counters();
  facts.cm = cm_.agent().counters();
  facts.cm_ids = cm_.agent().ids_in_use();
  server_.list(&facts.clients);
  options_.board->publish();
}

// How long to sleep; zero: do not.
Duration NicLoop::pause(Time now, bool moved) {
  if (moved) poll_pause_ = Progress::kPollPauseMin;
  if (moved || cm_has_more_ || !nic_.settle(now)) return Duration::zero();
  const Time next = std::min(
      {next_service_, next_service_clients_, nic_.next_deadline(), cm_.agent().next_deadline()});
  Duration wait = std::max(next - now, Duration::zero());
  if (nic_.wire() != nullptr && nic_.wire()->notify_fd() < 0) {
    wait = std::min(wait, poll_pause_);
    poll_pause_ = std::min(poll_pause_ * 2, Progress::kPollPauseMax);
  }
  return wait;
}

void NicLoop::look(Duration pause) {
  std::array<epoll_event, 32> events;
  timespec timeout{};
  timeout.tv_sec = pause.count_ns() / 1'000'000'000;
  timeout.tv_nsec = pause.count_ns() % 1'000'000'000;
  int count = epoll_pwait2(epoll_fd_, events.data(), events.size(), &timeout, nullptr);
  if (count < 0 && errno == ENOSYS) {
    const auto ms = static_cast<int>((pause.count_ns() + 999'999) / 1'000'000);
    count = epoll_wait(epoll_fd_, events.data(), events.size(), ms);
  }
  if (count <= 0) return;
  const Time now = clock_now();
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    on_ready(event.data.u64, event.events, now);
  }
}

void NicLoop::on_ready(uint64_t tag, uint32_t events, Time now) {
  if (tag >= NicServer::kTagBase) return server_.on_ready(tag, events, now);
  if (tag == kTagWire) return nic_.wake_wire(now);
  if (tag == kTagKernel) return on_kernel(events, now);
  on_signal();
}

void NicLoop::on_kernel(uint32_t events, Time now) {
  if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
    // Somebody has removed the interface. It would be readable for ever.
    epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, nic_.tap()->fd(), nullptr);
    std::fputs("mprdmad: the tap is gone; the kernel gets nothing until a restart\n", stderr);
    return;
  }
  // The answer may come to a port that has to be polled.
  if (nic_.serve_kernel(now)) poll_pause_ = Progress::kPollPauseMin;
}

void NicLoop::on_signal() {
  signalfd_siginfo info{};
  while (read(signal_fd_, &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGHUP) {
      reload();
    } else {
      down_ = true;
    }
  }
}

void NicLoop::reload() {
  SwitchConfig device = options_.device;
  std::vector<uid_t> uids;
  if (!options_.reload || !options_.reload(&device, &uids)) return;
  const Time now = clock_now();
  server_.set_uids(std::move(uids));
  // Their queue pairs and connections have the address: nothing of them could go on.
  if (device.ipv4 != options_.device.ipv4 && server_.clients() > 0) {
    std::fprintf(stderr,
                 "mprdmad: the address stays while processes use the device (%zu do): end them, "
                 "then send SIGHUP again; prefix and gateway stay, too\n",
                 server_.clients());
    return;
  }
  const bool moved =
      device.ipv4 != options_.device.ipv4 || device.prefix_bits != options_.device.prefix_bits;
  options_.device = device;
  nic_.configure(device, now);
  if (!moved) return;
  options_.cm.address = wire::map_ipv4(device.ipv4);
  options_.cm.ipv4 = device.ipv4;
  cm_.agent().set_address(options_.cm, now);
  server_.set_device(device);
}

}  // namespace mprdma::dataplane::nic
