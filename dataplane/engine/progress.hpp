// Schedules the worker: the application's threads run it while they poll, the engine's own thread
// (the helper) otherwise.
//
// One lock, a flag. An application's poll only tries it: if the lock is taken, another thread is
// running the worker, and the poll returns. A command waits for the lock; while a command waits,
// polls do not try it.
//
// No wake-up is lost:
//  - A doorbell is rung before the lock is tried. Who cannot have the lock leaves; who gives it up
//    looks at the doorbells afterwards. Both sides are sequentially consistent, so one sees the
//    other.
//  - While somebody polls, the port's notification is off and the helper only looks every beat()
//    whether the last poll is recent (helper_beat.hpp). When it is not, the helper takes over: it
//    runs the worker until nothing is left, arms the port, looks once more, and sleeps until the
//    port, a kick, or the next deadline wakes it.
//  - A poll sleeps on the port where yields take slices of the scheduler's (yield_pace.hpp). The
//    helper's watch of the port is muted then, until the port is armed for the helper, or yields
//    are short again.
//  - The port is also armed at once when the application says that it may sleep (idle), when
//    the last send is finished and no data came with that, as the application may now wait for a
//    byte in memory, and when it posts, if it waited for memory after its last posts
//    (memory_reader.hpp).
//  - Whoever leaves the worker in a state that the sleeping helper does not expect (port not armed,
//    an earlier deadline) kicks it.
//
// poll(), idle(), kick() and command() may be called by any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>

#include "base/units.hpp"
#include "dataplane/engine/core_follower.hpp"
#include "dataplane/engine/helper_beat.hpp"
#include "dataplane/engine/link_warning.hpp"
#include "dataplane/engine/memory_reader.hpp"
#include "dataplane/engine/poll_sleep.hpp"
#include "dataplane/engine/trace_ring.hpp"
#include "dataplane/engine/transport_clock.hpp"
#include "dataplane/engine/yield_pace.hpp"
#include "dataplane/port/deferred_wakes.hpp"
#include "dataplane/sys/alarm.hpp"
#include "dataplane/sys/clock.hpp"
#include "dataplane/sys/event_loop.hpp"
#include "dataplane/sys/poll_pause.hpp"
#include "dataplane/sys/thread_class.hpp"
#include "dataplane/sys/try_lock.hpp"
#include "dataplane/worker/worker.hpp"

namespace mprdma::dataplane {

class Progress {
 public:
  static constexpr Duration kBeat = HelperBeat::kMin;
  static constexpr Duration kService = Duration::ms(10);
  // The helper looks after timers so often while it is woken by each message for an application
  // that reads memory: to program a timer for each may cost more than the message.
  static constexpr Duration kReaderBeat = Duration::ms(1);
  // An application that polled less than this ago is expected to poll again.
  static constexpr Duration kPolling = Duration::us(60);
  // A poll puts the helper's look off that comes sooner than this.
  static constexpr Duration kPutsOff = HelperBeat::kMax / 2;
  // One whose poll has given its core to a crowd (yield_pace.hpp) is expected to do so once it has
  // it back, and so is one that loses slices, whatever it does. The helper leaves it so long, and
  // looks as seldom: the helpers of forty pollers, each of them every kBeat, would need a core.
  // Timers are late by twice that at most.
  static constexpr Duration kCrowded = YieldPace::kCrowdTakesMax;
  // The helper of one that loses slices looks as seldom as it could have had its core, and its
  // timers may be late by twice this.
  static constexpr Duration kSlice = Duration::ms(4);
  // One that sleeps in a poll wakes by itself, and may then wait for a core as long as others do.
  static constexpr Duration kSleeping = Duration::ms(10);
  // Who has not polled for this time has left the crowd.
  static constexpr Duration kGone = Duration::ms(100);
  // An application whose polls found nothing for this time naps between polls
  // (sys/thread_class.hpp).
  static constexpr Duration kNapAfter = Duration::ms(10);
  // So many sleeps of polls in a row that end by themselves though frames have come: wake-ups do
  // not come, and polls yield for a while.
  static constexpr uint32_t kLateSleepsMax = 3;
  static constexpr Duration kNoSleeps = Duration::s(1);
  // A poll that frames wake calls the service so often, for what may have come beside them.
  static constexpr Duration kPollsServe = Duration::ms(1);
  // Wake-ups that may wait in the socket of the port: far fewer than it holds, as one without room
  // is lost.
  static constexpr uint32_t kWakesUnreadMax = 64;
  // The helper keeps looking for this time after it last found work, then sleeps.
  static constexpr Duration kSpin = Duration::us(15);

  // `away_max`: longest time that the transport's clock stands still while mprdmad is away.
  // `real_time`: the helper may be in a real-time class (sys/thread_class.hpp).
  // `trace` is flushed with the worker's service; nullptr: there is none.
  explicit Progress(Worker& worker, Duration away_max = Duration::s(60), bool real_time = true,
                    TraceRing* trace = nullptr)
      : worker_(worker), trace_(trace), clock_(away_max), real_time_(real_time) {}
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Starts the helper; 0 or an errno value.
  int start();
  void stop();
  // Sets a job beside the worker: the helper calls it without the lock when `fd` is readable, and
  // now and then while it runs the worker without a pause. The job may use command(). Call once,
  // after start().
  void add_side_job(int fd, std::function<void()> job);
  // Called in a child after fork: the helper does not exist there, and its descriptors are the
  // parent's.
  void abandon_in_child();

  void poll();
  // Takes the requests of the queue pair of this doorbell, and sends what may leave: the poll of an
  // application that has posted.
  void send(uint32_t doorbell);
  void idle();
  void kick();

  // Runs f(transport's time) with the lock held, waiting for it.
  template <class F>
  auto command(F&& f) {
    lock_for_command();
    DeferredWakes wakes;
    const Time now = clock_now();
    auto result = f(clock_.to_transport(now));
    leave(now, wakes);
    return result;
  }

  // Runs f(transport's time) at the end of a process, where the lock's holder may no longer exist:
  // false if the lock stays taken for a while.
  template <class F>
  bool last_command(F&& f) {
    if (!lock_for_last_command()) return false;
    DeferredWakes wakes;
    const Time now = clock_now();
    f(clock_.to_transport(now));
    leave(now, wakes);
    return true;
  }

 private:
  void lock_for_command();
  bool lock_for_last_command();

  // With the lock held; leave() gives it up, and runs the worker again if doorbells came meanwhile.
  bool run_burst(Time now);
  bool run_sends(uint32_t doorbell, Time now);
  void begin_poll(Time now, bool posts);
  bool end_poll(Time now, bool data_came);
  void send_later(uint32_t doorbell);
  bool run_if_free(bool rests);
  // What a poll does after it has given the lock up.
  enum class Rest : uint8_t { kNone, kYield, kNap, kSleep };
  Rest run_poll(Time poll, bool rests, DeferredWakes& wakes);
  [[nodiscard]] Rest choose_rest(Time now);
  [[nodiscard]] bool can_sleep(Time now) const;
  [[nodiscard]] bool may_sleep(Time now) const { return yield_pace_.sleeps(now) && can_sleep(now); }
  bool prepare_poll_sleep();
  void call_sleeper() { calls_sleeper_ |= poll_sleep_.claim(); }
  void unlock();
  void end_poll_sleep(Time now, PollSleep::End ended, DeferredWakes& wakes);
  void note_poll_sleep(Time now, PollSleep::End ended, bool frame);
  void read_wakes(Time now);
  void yield_core(Time poll);
  void leave(Time now, DeferredWakes& wakes);
  void give_up_lock(Time now, DeferredWakes& wakes);
  void note_poll(Time now, bool posts);
  bool arm_or_run(Time now);
  void disarm();
  // Who is woken by the port, once it is armed.
  enum class Watcher : uint8_t { kHelper, kPoll };
  void watch_again();
  void watch_by(Watcher watcher);
  void watch_port(bool watch) const;
  bool helper_oversleeps(Time now);
  // No thread polled since the application said that it may sleep.
  [[nodiscard]] bool app_is_idle() const {
    return idle_requests_.load(std::memory_order_relaxed) != idle_cancelled_;
  }
  [[nodiscard]] Time needed_by(Time now) const;

  // The port is armed for the answer to a post: the application is not expected to poll for it.
  [[nodiscard]] bool waits_in_memory() const { return memory_reader_.waits(); }

  [[nodiscard]] bool app_polls(Time now) const {
    return is_recent_poll(now, last_poll_) && !app_is_idle();
  }
  // A poll at `last` shows that the application polls.
  [[nodiscard]] bool is_recent_poll(Time now, Time last) const {
    if (poll_sleep_.asleep()) return now - last < kSleeping;
    const Crowd crowd = crowd_.load(std::memory_order_relaxed);
    const bool waits = crowd == Crowd::kLosesSlices ||
                       (crowd == Crowd::kShortTurns &&
                        yielding_poll_ns_.load(std::memory_order_relaxed) == last.ns());
    return now - last < (waits ? kCrowded : kPolling);
  }
  // After what time the helper looks again while the application polls.
  [[nodiscard]] Duration beat() const {
    if (!port_notifies_) return kBeat;
    const Crowd crowd = crowd_.load(std::memory_order_relaxed);
    return crowd == Crowd::kNone ? beat_.get() : crowd == Crowd::kShortTurns ? kCrowded : kSlice;
  }
  void leave_crowd();
  void leave_crowd_unless_late(Time now);
  void note_crowd();

  void keep_acks(Duration patience);

  // The helper, progress_helper.cpp.
  void helper_main();
  [[nodiscard]] bool app_drives() const;
  void sleep_until_next_look();
  void put_off_look(Time now);
  bool helper_lock();
  void helper_lock_again();
  Duration helper_turn();
  Duration give_up_for_a_beat(Time now, DeferredWakes& wakes);
  bool take_over(Time* now, DeferredWakes& wakes);
  Duration prepare_sleep(Time now);
  void wait(Duration pause);
  void run_side_job();
  [[nodiscard]] bool reader_beats(Time now) const;
  bool service_if_due(Time now);
  void follow_waker();

  Worker& worker_;
  TraceRing* trace_;
  TransportClock clock_;  // under the lock
  const bool real_time_;
  bool port_notifies_ = false;  // set once, by start()

  alignas(64) TryLock lock_;
  alignas(64) std::atomic<uint64_t> polls_{0};
  std::atomic<int64_t> last_poll_ns_{0};      // last_poll_, for who has no lock
  std::atomic<uint32_t> late_posts_{0};       // posts that found the lock taken
  std::atomic<int64_t> yielding_poll_ns_{0};  // the poll that has given its core away; 0: none
  std::atomic<int64_t> yield_ended_ns_{0};
  // What yield_pace_ says, for who has no lock.
  enum class Crowd : uint8_t { kNone, kShortTurns, kLosesSlices };
  std::atomic<Crowd> crowd_{Crowd::kNone};
  HelperBeat beat_;
  // When the helper looks next at an application that has polled for long, for its polls to put
  // off; never: it does not sleep for such a look.
  std::atomic<int64_t> looks_at_ns_{Time::never().ns()};
  alignas(64) std::atomic<uint32_t> commands_waiting_{0};
  std::atomic<uint32_t> idle_requests_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> started_{false};

  // Under the lock.
  alignas(64) bool armed_ = false;
  Watcher watcher_ = Watcher::kHelper;
  uint32_t wakes_unread_ = 0;      // since the last service
  bool calls_sleeper_ = false;     // once the lock is given up
  bool frames_end_sleeps_ = true;  // one ended the last sleep of a poll
  uint32_t late_sleeps_ = 0;       // in a row
  Time no_sleeps_until_;
  Time polls_served_;
  CoreFollower core_follower_;
  uint32_t idle_cancelled_ = 0;  // idle requests cancelled by a later poll
  Time helper_wakes_at_;         // epoch: it is awake
  bool helper_beats_ = false;    // it looks every beat() instead, without the lock at times
  uint32_t empty_polls_ = 0;
  YieldPace yield_pace_;
  Time polls_in_vain_since_;
  uint32_t polls_since_finish_ = UINT32_MAX / 2;  // since nothing of ours was outstanding any more
  Time last_poll_;
  MemoryReader memory_reader_;
  uint64_t polls_seen_ = 0;       // polls_ at the last look
  uint32_t late_posts_seen_ = 0;  // late_posts_ at the last look
  uint32_t sends_in_a_row_ = 0;   // posts since the last whole burst
  uint32_t taken_seen_ = 0;       // mprdma_abi_doorbell_page.taken

  // The helper's own.
  std::optional<ThreadClass> thread_class_;
  bool app_waits_in_memory_ = false;  // waits_in_memory() at the end of its last turn
  bool notified_ = false;
  bool kicked_ = false;
  uint32_t looks_ = 0;                // at an application that polls, since the last turn
  uint32_t idle_seen_by_helper_ = 0;  // idle_requests_ at its last turn
  bool side_job_due_ = false;
  std::function<void()> side_job_;
  std::atomic<bool> has_side_job_{false};
  Time last_service_;  // written under the lock, for polls that put its look off
  LinkWarning link_warning_;
  Duration poll_pause_ = kPollPauseMin;
  std::thread thread_;
  std::optional<EventLoop> events_;  // from start() to stop()
  std::optional<Alarm> alarm_;       // as long
  int kick_fd_ = -1;
  PollSleep poll_sleep_;
};

}  // namespace mprdma::dataplane
