// The helper: the engine's own thread, which runs the worker when no application does.
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <span>
#include <system_error>
#include <utility>

#include "dataplane/engine/progress.hpp"
#include "dataplane/sys/stage.hpp"
#include "dataplane/sys/thread_class.hpp"

namespace mprdma::dataplane {

namespace {

// How long an acknowledgement waits for the answer of an application that reads memory: a fraction
// of the shortest time after which its peer asks for one (Params::probe_floor).
constexpr Duration kHelperKeepsAck = Duration::us(200);

constexpr uint64_t kTagPort = 1;
constexpr uint64_t kTagKick = 2;
constexpr uint64_t kTagSideJob = 3;
constexpr uint64_t kTagAlarm = 4;

}  // namespace

Progress::~Progress() {
  stop();
}

int Progress::start() {
  events_.emplace();
  kick_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (kick_fd_ < 0 || !events_->watch(kick_fd_, kTagKick)) return errno;
  alarm_.emplace();
  if (alarm_->fd() < 0 || !events_->watch(alarm_->fd(), kTagAlarm)) return errno;
  const int port_fd = worker_.port().notify_fd();
  port_notifies_ = port_fd >= 0;
  // Without it polls yield.
  if (port_notifies_) (void)poll_sleep_.open(port_fd);
  // Edge-triggered: a frame that an application's poll took in time wakes us once, not for ever.
  if (port_fd >= 0 && !events_->watch(port_fd, kTagPort, EventLoop::Trigger::kEdge)) return errno;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  // A fault of the thread's own must reach its handler (sys/memory_fault.hpp).
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = 0;
  try {
    thread_ = std::thread([this] { helper_main(); });
  } catch (const std::system_error& failure) {
    error = failure.code().value();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

void Progress::add_side_job(int fd, std::function<void()> job) {
  side_job_ = std::move(job);
  has_side_job_.store(true, std::memory_order_release);
  if (!events_->watch(fd, kTagSideJob)) has_side_job_.store(false);
}

void Progress::run_side_job() {
  side_job_due_ = false;
  if (has_side_job_.load(std::memory_order_acquire)) side_job_();
}

void Progress::stop() {
  stopping_.store(true);
  if (thread_.joinable()) {
    kick();
    thread_.join();
  }
  poll_sleep_.close();
  events_.reset();
  alarm_.reset();
  if (kick_fd_ >= 0) close(kick_fd_);
  kick_fd_ = -1;
}

void Progress::abandon_in_child() {
  worker_.port().close_after_fork();
  looks_at_ns_.store(Time::never().ns(), std::memory_order_relaxed);
  poll_sleep_.close();
  events_.reset();
  alarm_.reset();
  if (kick_fd_ >= 0) close(kick_fd_);
  kick_fd_ = -1;
}

void Progress::helper_main() {
  pthread_setname_np(pthread_self(), "mprdma-helper");
  thread_class_.emplace(clock_now(), real_time_);
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (app_drives()) {
      ++looks_;
      beat_.on_polling(clock_now());
      sleep_until_next_look();
    } else {
      wait(helper_lock() ? helper_turn() : kBeat);
    }
    if (side_job_due_) run_side_job();
  }
}

// The application has polled a moment ago, and nothing is to be done beside: a look without the
// lock, so that no poll finds it taken.
bool Progress::app_drives() const {
  if (notified_ || kicked_) return false;
  const Time now = clock_now();
  const Time last_poll = Time::from_ns(last_poll_ns_.load(std::memory_order_relaxed));
  return is_recent_poll(now, last_poll) && now - last_service_ < kService &&
         idle_requests_.load(std::memory_order_relaxed) == idle_seen_by_helper_;
}

// Polls put off a look that is kMax away.
void Progress::sleep_until_next_look() {
  const Duration pause = beat();
  if (pause == HelperBeat::kMax) {
    looks_at_ns_.store((clock_now() + pause).ns(), std::memory_order_relaxed);
  }
  wait(pause);
  looks_at_ns_.store(Time::never().ns(), std::memory_order_relaxed);
}

// A poll, with the lock held, moves the helper's timer, which takes some microseconds; the look
// would take the core of the poll. The look comes a beat after the last poll that has put it off,
// and once in kService in any case. The helper may have woken up in the meantime, and have set its
// timer for something else. The timer is a beat late then at most, while the application polls.
void Progress::put_off_look(Time now) {
  int64_t at = looks_at_ns_.load(std::memory_order_relaxed);
  const Time next = std::min(now + HelperBeat::kMax, last_service_ + kService);
  const bool worth_it = next.ns() > at && !waits_in_memory();
  const int64_t to = worth_it ? next.ns() : Time::never().ns();  // never: no more until the look
  if (looks_at_ns_.compare_exchange_strong(at, to, std::memory_order_relaxed) && worth_it) {
    alarm_->move(next);
  }
}

// False: somebody else keeps the worker running, look again in a beat.
bool Progress::helper_lock() {
  for (uint32_t attempt = 0; attempt < 20; ++attempt) {
    if (commands_waiting_.load(std::memory_order_relaxed) == 0 && lock_.lock_soon()) return true;
    thread_class_->back_off(attempt);
  }
  return false;
}

// After it gave the lock up for others.
void Progress::helper_lock_again() {
  for (uint32_t tries = 0; !lock_.lock_soon(); ++tries) thread_class_->back_off(tries);
}

// With the lock held, and given up on return. How long to sleep.
Duration Progress::helper_turn() {
  stamp(Stage::kHelperLocked);
  DeferredWakes wakes;
  Time now = clock_now();
  helper_wakes_at_ = Time();
  helper_beats_ = false;
  kicked_ = false;
  idle_seen_by_helper_ = idle_requests_.load(std::memory_order_relaxed);
  ++worker_.counters().helper_wakeups;
  worker_.counters().helper_looks += std::exchange(looks_, 0);
  // What came is taken before anything else: somebody may be reading memory.
  const bool called = notified_ && armed_;
  if (called) {
    disarm();
    keep_acks(app_is_idle() ? Duration::zero() : kHelperKeepsAck);
    ++worker_.counters().bursts_helper;
    // What woke us was a frame, and no message for the service, which reads the wake-ups later.
    if (run_burst(now) && ++wakes_unread_ < kWakesUnreadMax) notified_ = false;
  }
  // The service may have read the very message that would wake us, or found a new peer that knows
  // nothing of our being asleep: look at an armed port again.
  const bool stale = service_if_due(now) && armed_ && !worker_.port().arm();
  follow_waker();
  const bool polled = app_polls(now);
  if (!polled) beat_.on_silence(now);
  const bool due = called || (armed_ && (stale || notified_ || needed_by(now) <= now));
  notified_ = false;
  if (polled && !due) {
    // The application drives, or did a moment ago and left the port armed: look again in a beat.
    return give_up_for_a_beat(now, wakes);
  }
  const bool quiet = armed_ && !due && worker_.port().notify_fd() >= 0;
  // An application that reads memory sees at once what came, and posts: it needs the lock.
  const bool hurries = called && waits_in_memory() && !worker_.wants_wire();
  Duration pause = hurries ? prepare_sleep(now) : Duration::zero();
  if (pause == Duration::zero()) {
    if (!quiet && !take_over(&now, wakes)) return give_up_for_a_beat(now, wakes);
    pause = prepare_sleep(now);
  }
  app_waits_in_memory_ = waits_in_memory();
  helper_wakes_at_ = now + pause;
  unlock();
  return pause;
}

// An application that reads memory uses its core: to wake a thread there takes an interrupt, which
// can cost a virtual machine tens of microseconds. A peer that sends and then reads memory itself
// loses nothing by our running where it waits.
void Progress::follow_waker() {
  const int core = worker_.port().take_costly_waker();
  if (core >= 0 && waits_in_memory()) move_to_core(core);
}

Duration Progress::give_up_for_a_beat(Time now, DeferredWakes& wakes) {
  helper_beats_ = true;
  app_waits_in_memory_ = waits_in_memory();
  const Duration pause = reader_beats(now) ? kReaderBeat : beat();
  leave(now, wakes);
  return pause;
}

// Runs the worker until it finds nothing for a while. False: the application polls again.
bool Progress::take_over(Time* now, DeferredWakes& wakes) {
  disarm();
  const bool crowd = port_notifies_ && yield_pace_.loses_slices();
  leave_crowd_unless_late(*now);
  keep_acks(app_is_idle() ? Duration::zero() : kHelperKeepsAck);
  const Time poll_before = last_poll_;
  Time idle_since = *now;
  bool worked_at_all = false;
  for (;;) {
    const bool worked = run_burst(*now);
    worked_at_all |= worked;
    ++worker_.counters().bursts_helper;
    unlock();
    wakes.send();
    *now = clock_now();
    thread_class_->ran_until(*now);
    helper_lock_again();
    if (worked) idle_since = *now;
    if (late_posts_.load(std::memory_order_relaxed) != late_posts_seen_) note_poll(*now, true);
    if (last_poll_ != poll_before && !app_is_idle()) {
      if (polls_since_finish_ == 0 || waits_in_memory()) arm_or_run(*now);
      return false;
    }
    if (stopping_.load(std::memory_order_relaxed)) return false;
    if (commands_waiting_.load(std::memory_order_relaxed) > 0) {
      unlock();
      for (uint32_t tries = 0; commands_waiting_.load(std::memory_order_relaxed) > 0; ++tries) {
        thread_class_->back_off(tries);
      }
      helper_lock_again();
    }
    if (service_if_due(*now) && has_side_job_.load(std::memory_order_relaxed)) {
      unlock();
      wakes.send();
      run_side_job();
      *now = clock_now();
      helper_lock_again();
    }
    // Whoever reads memory needs this core, perhaps, to see what has come. So does a crowd.
    const bool hurries = waits_in_memory() || (crowd && !worked);
    if (*now - idle_since >= (hurries ? Duration::zero() : kSpin)) break;
  }
  poll_pause_ = worked_at_all ? kPollPauseMin : std::min(poll_pause_ * 2, kPollPauseMax);
  return true;
}

// Arms the port and looks once more. Zero: something came in between, do not sleep.
Duration Progress::prepare_sleep(Time now) {
  watch_again();
  if (!armed_) armed_ = worker_.port().arm();
  if (!armed_) return Duration::zero();
  leave_crowd_unless_late(now);
  __atomic_store_n(&worker_.doorbells().sleeping, 1, __ATOMIC_SEQ_CST);
  if (worker_.has_pending()) {
    disarm();
    return Duration::zero();
  }
  Duration pause = last_service_ + kService - now;
  if (worker_.port().notify_fd() < 0) pause = std::min(pause, poll_pause_);
  pause = std::min(pause, clock_.to_wall(worker_.next_deadline()) - now);
  if (reader_beats(now)) pause = kReaderBeat;
  return std::max(pause, Duration::us(1));
}

// It is woken by each message for an application that reads memory.
bool Progress::reader_beats(Time now) const {
  return waits_in_memory() && !app_is_idle() && armed_ && worker_.port().notify_fd() >= 0 &&
         now - last_poll_ < kService;
}

// Whether the port wakes the helper, once it is armed.
void Progress::watch_port(bool watch) const {
  const int fd = worker_.port().notify_fd();
  if (watch) {
    events_->unmute(fd, kTagPort, EventLoop::Trigger::kEdge);
  } else {
    events_->mute(fd, kTagPort);
  }
}

bool Progress::service_if_due(Time now) {
  if (!notified_ && now - last_service_ < kService) return false;
  last_service_ = now;
  wakes_unread_ = 0;
  // The service reads what would have woken it.
  call_sleeper();
  worker_.service(now, clock_.to_transport(now));
  if (trace_ != nullptr) trace_->flush();
  if (worker_.daemon_is_away()) {
    clock_.pause(now);
  } else {
    clock_.resume(now);
  }
  link_warning_.update(worker_, now);
  return true;
}

void Progress::wait(Duration pause) {
  if (pause <= Duration::zero()) return;
  const Time now = clock_now();
  thread_class_->ran_until(now);
  alarm_->ring_by(now, now + pause);
  std::array<epoll_event, 4> room;
  const std::span<epoll_event> ready = events_->wait(room);
  stamp(Stage::kWoken);
  thread_class_->slept_until(clock_now(), app_waits_in_memory_);
  for (const epoll_event& event : ready) {
    if (event.data.u64 == kTagPort) {
      notified_ = true;
    } else if (event.data.u64 == kTagSideJob) {
      side_job_due_ = true;
    } else if (event.data.u64 == kTagAlarm) {
      alarm_->quit();
    } else {
      uint64_t ignored = 0;
      (void)!read(kick_fd_, &ignored, sizeof(ignored));
      kicked_ = true;
    }
  }
}

}  // namespace mprdma::dataplane
