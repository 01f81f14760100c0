#include "switchsim/fabric/fabric_loop.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "dataplane/clock.hpp"
#include "dataplane/prompt_thread.hpp"

namespace mprdma::switchsim {

namespace {

using dataplane::clock_now;

// While frames move: the least time between two looks at the ports.
constexpr Duration kTurn = Duration::us(25);
// After so long without a frame the ports are asked to wake us.
constexpr Duration kQuiet = Duration::ms(20);
constexpr Duration kService = Duration::ms(10);
// Whether a vhost-user device always wakes us for a program's first frame lies with DPDK: how long
// that frame waits at most for us to look by ourselves.
constexpr Duration kVhostSleepMax = Duration::ms(1);
// Turns without a sleep, when hosts send faster than a turn takes in.
constexpr unsigned kBusyTurnsMax = 8;
constexpr uint64_t kTagSignal = UINT64_MAX;
constexpr uint64_t kTagControl = UINT64_MAX - 1;

// A late turn of the switch is a network that stands still. Where it is allowed (root,
// RLIMIT_RTPRIO) it runs in a real-time class, which is safe because it always sleeps
// (kBusyTurnsMax).
void make_switch_prompt() {
  dataplane::make_prompt();
  sched_param lowest{};
  lowest.sched_priority = 1;
  (void)sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &lowest);
}

}  // namespace

FabricLoop::FabricLoop(Fabric* fabric, ControlServer* control, std::string name)
    : fabric_(fabric), control_(control) {
  status_.name = std::move(name);
  for (const HostConfig& host : fabric->config().hosts) {
    if (host.kind == PortKind::kVhost) sleep_max_ = kVhostSleepMax;
  }
}

FabricLoop::~FabricLoop() {
  if (signal_fd_ >= 0) close(signal_fd_);
  if (epoll_fd_ >= 0) close(epoll_fd_);
}

bool FabricLoop::watch(int fd, uint64_t tag, bool edge) const {
  epoll_event event{};
  event.events = EPOLLIN | (edge ? static_cast<unsigned>(EPOLLET) : 0U);
  event.data.u64 = tag;
  return epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0;
}

std::string FabricLoop::start() {
  epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  signal_fd_ = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
  bool good = epoll_fd_ >= 0 && signal_fd_ >= 0 && watch(signal_fd_, kTagSignal, false) &&
              watch(control_->fd(), kTagControl, false);
  for (size_t host = 0; host < fabric_->config().hosts.size(); ++host) {
    const int fd = fabric_->port(host).notify_fd();
    if (fd >= 0) good = good && watch(fd, host, true);
  }
  return good ? "" : std::string("epoll: ") + std::strerror(errno);
}

void FabricLoop::run() {
  make_switch_prompt();
  status_.started = last_moved_ = next_service_ = clock_now();
  while (!status_.down) {
    const Time now = clock_now();
    const bool more = fabric_->turn(now);
    if (fabric_->moved()) last_moved_ = now;
    if (now >= next_service_) {
      fabric_->service(now);
      next_service_ = now + kService;
    }
    const Duration wait = pause(now, more);
    sleep(wait);
    count_turn(clock_now() - now - wait);
    if (armed_) fabric_->disarm();
    armed_ = false;
  }
}

void FabricLoop::count_turn(Duration late) {
  ++status_.loop.turns;
  if (armed_) ++status_.loop.sleeps_armed;
  if (late >= Duration::us(100)) ++status_.loop.late_100us;
  if (late >= Duration::ms(1)) ++status_.loop.late_1ms;
  if (late >= Duration::ms(10)) ++status_.loop.late_10ms;
}

// How long to sleep; zero: do not.
Duration FabricLoop::pause(Time now, bool more) {
  busy_turns_ = more ? busy_turns_ + 1 : 0;
  if (more && busy_turns_ % kBusyTurnsMax != 0) return Duration::zero();
  if (now - last_moved_ < kQuiet) {
    const Duration until_event = fabric_->next_event() - now;
    // Up to a turn later than the event, so that one wake-up serves several.
    return std::clamp(until_event, kTurn, kTurn * 2);
  }
  armed_ = fabric_->arm();
  if (!armed_) return Duration::zero();
  const Time next = std::min(fabric_->next_event(), next_service_);
  return std::max(std::min(next - now, sleep_max_), kTurn);
}

void FabricLoop::sleep(Duration pause) {
  std::array<epoll_event, 16> events;
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
  for (int i = 0; i < count; ++i) on_ready(events[static_cast<size_t>(i)].data.u64, now);
}

void FabricLoop::on_ready(uint64_t tag, Time now) {
  if (tag == kTagSignal) {
    status_.down = true;
  } else if (tag == kTagControl) {
    status_.now = now;
    control_->poll([this](const std::string& line) { return answer(line, *fabric_, &status_); });
  } else {
    fabric_->port(tag).service(now);
  }
}

}  // namespace mprdma::switchsim
