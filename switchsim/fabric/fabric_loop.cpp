#include "switchsim/fabric/fabric_loop.hpp"

#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "dataplane/sys/clock.hpp"
#include "dataplane/sys/thread_class.hpp"
#include "switchsim/fabric/turn_pause.hpp"

namespace mprdma::switchsim {

namespace {

using dataplane::clock_now;
using dataplane::EventLoop;

// Time without a frame after which the fabric arms the ports and sleeps.
constexpr Duration kQuiet = Duration::ms(20);
constexpr Duration kService = Duration::ms(10);
// Longest sleep with a vhost-user port. DPDK may not wake the fabric for a program's first frame,
// which then waits this long.
constexpr Duration kVhostSleepMax = Duration::ms(1);
// Largest number of turns without a sleep, while hosts send faster than a turn reads.
constexpr unsigned kBusyTurnsMax = 8;
constexpr uint64_t kTagSignal = UINT64_MAX;
constexpr uint64_t kTagControl = UINT64_MAX - 1;

// A late turn delays the whole network. Where it is allowed (root, RLIMIT_RTPRIO) the thread runs
// in a real-time class, which is safe because it sleeps again and again (kBusyTurnsMax).
void make_switch_prompt() {
  dataplane::request_low_latency();
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

FabricLoop::~FabricLoop() = default;

Status FabricLoop::start() {
  bool good = events_.watch_signals({SIGTERM, SIGINT}, kTagSignal) &&
              events_.watch(control_->fd(), kTagControl);
  for (size_t host = 0; host < fabric_->config().hosts.size(); ++host) {
    const int fd = fabric_->port(host).notify_fd();
    if (fd >= 0) good = good && events_.watch(fd, host, EventLoop::Trigger::kEdge);
  }
  if (!good) return system_status("epoll", errno);
  return {};
}

void FabricLoop::run() {
  make_switch_prompt();
  status_.started = last_moved_ = next_service_ = clock_now();
  while (!status_.down) {
    const Time now = clock_now();
    const bool more = fabric_->turn(now);
    if (fabric_->frames_moved() > 0) last_moved_ = now;
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

// Returns how long to sleep; zero: not at all.
Duration FabricLoop::pause(Time now, bool more) {
  busy_turns_ = more ? busy_turns_ + 1 : 0;
  if (more && busy_turns_ % kBusyTurnsMax != 0) return Duration::zero();
  if (now - last_moved_ < kQuiet) {
    const Duration until_event = fabric_->next_event() - now;
    return turn_pause(fabric_->frames_moved(), until_event);
  }
  armed_ = fabric_->arm();
  if (!armed_) return Duration::zero();
  const Time next = std::min(fabric_->next_event(), next_service_);
  return std::max(std::min(next - now, sleep_max_), kTurn);
}

void FabricLoop::sleep(Duration pause) {
  std::array<epoll_event, 16> room;
  const std::span<epoll_event> ready = events_.wait(pause, room);
  if (ready.empty()) return;
  const Time now = clock_now();
  for (const epoll_event& event : ready) on_ready(event.data.u64, now);
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
