// The application's side: polling, commands, and how the lock is given up.
#include "dataplane/engine/progress.hpp"

#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "abi/mprdma_ring.h"
#include "dataplane/sys/no_cancellation.hpp"
#include "dataplane/sys/stage.hpp"

namespace mprdma::dataplane {

namespace {

// An application whose polls find nothing spins on its completion queue: after so many in a row a
// poll looks at the port some times more, which is a fraction of the way out and in again. So many
// looks take about as long as a poll, and count as one.
constexpr uint32_t kPollsBeforeLooks = 2;
constexpr uint32_t kLooks = 48;
constexpr uint32_t kLooksPerPoll = 12;
constexpr Duration kLastCommandWaits = Duration::ms(100);
// A doorbell that came while the lock was held is served by its holder; so often at most.
constexpr int kRechecksMax = 4;
// When the helper finished the last send, so many polls leave the port armed: the application may
// read that completion after a poll that found nothing, and then wait for a byte in memory.
constexpr uint32_t kArmedPolls = 2;
// A post sends what it posts and no more; after so many in a row the rest has its turn: what came
// from the wire, timers, others.
constexpr uint32_t kSendsBetweenBursts = 8;
// How long an acknowledgement waits for the next post of an application that polls: longer than its
// way from the poll that brings data to the post that answers it.
constexpr Duration kPollerKeepsAck = Duration::us(3);

}  // namespace

void Progress::poll() {
  // Polls of two threads at once may count as one.
  const uint64_t polls = polls_.load(std::memory_order_relaxed);
  polls_.store(polls + 1, std::memory_order_relaxed);
  if (run_if_free(true) || polls % YieldPace::kPollsMax != 0) return;
  sched_yield();
}

// False: somebody else runs the worker. `rests`: the calling thread may give its core away
// afterwards.
bool Progress::run_if_free(bool rests) {
  if (commands_waiting_.load(std::memory_order_relaxed) > 0 || !lock_.try_lock()) return false;
  Time poll = clock_now();
  DeferredWakes wakes;
  const Rest after = run_poll(poll, rests, wakes);
  if (after == Rest::kYield) yield_core(poll);
  if (after == Rest::kNap) short_sleep();
  if (after != Rest::kSleep) return true;
  const PollSleep::End ended = poll_sleep_.wait(poll, PollSleep::kMax);
  if (commands_waiting_.load(std::memory_order_relaxed) > 0 || !lock_.try_lock()) return false;
  poll = clock_now();
  const int waker = ended == PollSleep::End::kPort ? worker_.port().waker_core() : -1;
  const bool moves = core_follower_.moves(poll, sched_getcpu(), waker);
  end_poll_sleep(poll, ended, wakes);
  if (moves) move_to_core(waker);
  return true;
}

// With the lock held, and given up on return.
Progress::Rest Progress::run_poll(Time poll, bool rests, DeferredWakes& wakes) {
  Time now = poll;
  begin_poll(poll, worker_.doorbells_pending());
  const uint64_t arrivals_before = worker_.data_arrivals();
  const uint64_t frames_before = worker_.counters().frames_in;
  bool worked = run_burst(now);
  yield_pace_.on_poll(worker_.counters().frames_in != frames_before,
                      Time::from_ns(yield_ended_ns_.load(std::memory_order_relaxed)));
  note_crowd();
  uint32_t empty = 1;
  if (!worked && empty_polls_ >= kPollsBeforeLooks && !worker_.wants_wire()) {
    const Port::Looks looks = worker_.port().await_rx(kLooks, lock_.wanted());
    empty += looks.made / kLooksPerPoll;
    if (looks.arrived) {
      now = clock_now();
      worked = run_burst(now);
    }
  }
  worked |= end_poll(now, worker_.data_arrivals() != arrivals_before);
  if (worked) polls_in_vain_since_ = now;
  empty_polls_ = worked ? 0 : empty_polls_ + empty;
  Rest after = Rest::kNone;
  const bool soon = frames_end_sleeps_ && may_sleep(now);
  const uint32_t enough = soon ? YieldPace::kPollsBeforeSleep : yield_pace_.polls();
  if (rests && empty_polls_ >= enough) {
    empty_polls_ = 0;
    after = choose_rest(now);
    if (after == Rest::kYield) yielding_poll_ns_.store(poll.ns(), std::memory_order_relaxed);
  }
  leave(now, wakes);
  if (worked) stamp(Stage::kPollLeft);
  return after;
}

Progress::Rest Progress::choose_rest(Time now) {
  const bool sleeps = may_sleep(now);
  if (sleeps) {
    // Acknowledgements do not wait for the end of a sleep.
    keep_acks(Duration::zero());
    if (worker_.owes_acks() && run_burst(now)) return Rest::kNone;
    if (worker_.has_pending()) return Rest::kNone;
    // What is due and cannot leave may need a thread that wants this core.
    if (needed_by(now) > now && prepare_poll_sleep()) return Rest::kSleep;
    // A port that cannot be armed may have taken a frame in.
    if (!armed_ && run_burst(clock_now())) return Rest::kNone;
  }
  // One that only looks whether yields still take slices will sleep again, and needs no nap.
  const bool looks = !sleeps && yield_pace_.loses_slices() && can_sleep(now);
  if (now - polls_in_vain_since_ >= kNapAfter && !looks) {
    if (!poll_sleep_.asleep()) leave_crowd();
    return Rest::kNap;
  }
  yield_pace_.on_yield(clock_now());
  return Rest::kYield;
}

bool Progress::can_sleep(Time now) const {
  return poll_sleep_.free() && now >= no_sleeps_until_ && !app_is_idle() && !worker_.wants_wire();
}

// What comes to the port, and whoever runs the worker meanwhile, end the sleep. Timers may be late
// by its length, as they are by that of a yield: to program a virtual machine's clock for each
// sleep takes longer than to sleep and to be woken (4 us, 1 us). False: the port cannot be armed.
bool Progress::prepare_poll_sleep() {
  disarm();
  watch_by(Watcher::kPoll);
  armed_ = worker_.port().arm();
  if (!armed_) return false;
  poll_sleep_.begin();
  ++worker_.counters().poll_sleeps;
  return true;
}

// With the lock held, and given up on return.
void Progress::end_poll_sleep(Time now, PollSleep::End ended, DeferredWakes& wakes) {
  begin_poll(now, worker_.doorbells_pending());
  const uint64_t arrivals_before = worker_.data_arrivals();
  const uint64_t frames_before = worker_.counters().frames_in;
  if (run_burst(now)) polls_in_vain_since_ = now;
  note_poll_sleep(now, ended, worker_.counters().frames_in != frames_before);
  end_poll(now, worker_.data_arrivals() != arrivals_before);
  leave(now, wakes);
}

// `frame`: some were there when it ended.
void Progress::note_poll_sleep(Time now, PollSleep::End ended, bool frame) {
  frames_end_sleeps_ = ended != PollSleep::End::kTime;
  late_sleeps_ = frame && ended == PollSleep::End::kTime ? late_sleeps_ + 1 : 0;
  if (late_sleeps_ > 0) ++worker_.counters().poll_sleeps_late;
  if (late_sleeps_ >= kLateSleepsMax) {
    late_sleeps_ = 0;
    no_sleeps_until_ = now + kNoSleeps;
  }
  if (ended != PollSleep::End::kPort) return;
  ++wakes_unread_;
  // What is no frame is for the service, also if it came with one.
  if (!frame || wakes_unread_ >= kWakesUnreadMax || now - polls_served_ >= kPollsServe) {
    read_wakes(now);
  }
}

// The service reads the wake-ups of frames, too.
void Progress::read_wakes(Time now) {
  const NoCancellation whole;
  wakes_unread_ = 0;
  polls_served_ = now;
  worker_.service(now, clock_.to_transport(now));
}

// The helper is woken by the port again. Not by what polls have slept for.
void Progress::watch_again() {
  if (watcher_ == Watcher::kHelper) return;
  disarm();
  if (wakes_unread_ > 0) read_wakes(clock_now());
  watch_by(Watcher::kHelper);
}

void Progress::watch_by(Watcher watcher) {
  if (watcher == watcher_) return;
  watcher_ = watcher;
  if (events_) watch_port(watcher == Watcher::kHelper);
}

// Without the lock; `poll` is in yielding_poll_ns_, unless another one's has come there since.
void Progress::yield_core(Time poll) {
  sched_yield();
  yield_ended_ns_.store(clock_now().ns(), std::memory_order_relaxed);
  int64_t mine = poll.ns();
  yielding_poll_ns_.compare_exchange_strong(mine, 0, std::memory_order_relaxed);
}

void Progress::note_crowd() {
  const Crowd crowd = yield_pace_.loses_slices() ? Crowd::kLosesSlices
                      : yield_pace_.crowded()    ? Crowd::kShortTurns
                                                 : Crowd::kNone;
  crowd_.store(crowd, std::memory_order_relaxed);
  if (crowd != Crowd::kLosesSlices && !armed_) watch_again();
}

void Progress::leave_crowd() {
  yield_pace_.on_end();
  note_crowd();
}

// The helper runs the worker, and polls are rare. One of a crowd that loses slices may be late.
void Progress::leave_crowd_unless_late(Time now) {
  if (!yield_pace_.loses_slices() || now - last_poll_ >= kGone) leave_crowd();
}

void Progress::send(uint32_t doorbell) {
  stamp(Stage::kPosted);
  if (commands_waiting_.load(std::memory_order_relaxed) > 0 || !lock_.lock_soon()) {
    return send_later(doorbell);
  }
  stamp(Stage::kPostLocked);
  DeferredWakes wakes;
  const Time now = clock_now();
  begin_poll(now, true);
  empty_polls_ = 0;
  polls_in_vain_since_ = now;
  run_sends(doorbell, now);
  stamp(Stage::kSent);
  if (++sends_in_a_row_ >= kSendsBetweenBursts) run_burst(now);
  end_poll(now, false);
  leave(now, wakes);
}

// Somebody else runs the worker, who looks at the doorbells when he leaves.
void Progress::send_later(uint32_t doorbell) {
  mprdma_abi_doorbell_page& page = worker_.doorbells();
  late_posts_.fetch_add(1, std::memory_order_relaxed);
  mprdma_abi_ring_doorbell(&page, doorbell);
  run_if_free(false);
  if (mprdma_abi_doorbell_waits(&page, doorbell) && mprdma_abi_engine_sleeps(&page)) kick();
}

// With the lock held: an application's thread is about to run the worker.
void Progress::begin_poll(Time now, bool posts) {
  if (now - last_poll_ >= kNapAfter) polls_in_vain_since_ = now;  // it was elsewhere meanwhile
  note_poll(now, posts);
  keep_acks(kPollerKeepsAck);
  idle_cancelled_ = idle_requests_.load(std::memory_order_relaxed);
  ++polls_since_finish_;
  const bool for_sleeper = armed_ && watcher_ == Watcher::kPoll;
  if (for_sleeper ? !poll_sleep_.asleep()
                  : polls_since_finish_ > kArmedPolls && !waits_in_memory()) {
    disarm();
  }
}

// How long owed acknowledgements may wait; not at all while the transport's clock, by which they
// do, stands still.
void Progress::keep_acks(Duration patience) {
  worker_.set_ack_patience(clock_.paused() ? Duration::zero() : patience);
}

// It has run the worker, and may read memory from now on, or poll again. Not yet, if data came with
// the end of the last send: there is something to do first. If it reads memory afterwards, the
// helper finds that out within two beats.
bool Progress::end_poll(Time now, bool data_came) {
  const bool finished = polls_since_finish_ == 0;
  bool worked = false;
  // An armed port wakes nobody for what this burst left to be done.
  if (armed_ && (worker_.has_pending() || worker_.wants_wire())) disarm();
  if (waits_in_memory() || (polls_since_finish_ <= kArmedPolls && !data_came && !worker_.busy())) {
    worked = arm_or_run(now);
  }
  // Whoever sees its last send finish in its own poll has seen it.
  if (finished) polls_since_finish_ = kArmedPolls;
  return worked;
}

void Progress::note_poll(Time now, bool posts) {
  const uint64_t polls = polls_.load(std::memory_order_relaxed);
  const uint32_t late_posts = late_posts_.load(std::memory_order_relaxed);
  const uint32_t taken = __atomic_load_n(&worker_.doorbells().taken, __ATOMIC_RELAXED);
  // A client of an early version polls after each doorbell.
  const bool polled = polls - polls_seen_ > (posts ? 1 : 0);
  if (polled || taken != taken_seen_ || app_is_idle()) memory_reader_.on_poll(now);
  if (posts || late_posts != late_posts_seen_) memory_reader_.on_post(now);
  polls_seen_ = polls;
  late_posts_seen_ = late_posts;
  taken_seen_ = taken;
  last_poll_ = now;
  last_poll_ns_.store(now.ns(), std::memory_order_relaxed);
  if (now.ns() > looks_at_ns_.load(std::memory_order_relaxed) - kPutsOff.count_ns()) [[unlikely]] {
    put_off_look(now);
  }
}

void Progress::idle() {
  // Whoever has the lock sees this before or after giving it up.
  idle_requests_.fetch_add(1, std::memory_order_seq_cst);
  if (!lock_.try_lock()) return;
  DeferredWakes wakes;
  leave(clock_now(), wakes);
}

void Progress::kick() {
  const NoCancellation whole;
  const uint64_t one = 1;
  if (kick_fd_ >= 0) (void)!write(kick_fd_, &one, sizeof(one));
}

void Progress::lock_for_command() {
  commands_waiting_.fetch_add(1, std::memory_order_relaxed);
  for (uint32_t tries = 0; !lock_.lock_soon(); ++tries) back_off(tries);
  commands_waiting_.fetch_sub(1, std::memory_order_relaxed);
  call_sleeper();
}

bool Progress::lock_for_last_command() {
  const Time start = clock_now();
  for (uint32_t tries = 0; !lock_.lock_soon(); ++tries) {
    if (clock_now() - start > kLastCommandWaits) return false;
    back_off(tries);
  }
  return true;
}

bool Progress::run_sends(uint32_t doorbell, Time now) {
  const uint64_t completions_before = worker_.send_completions();
  const bool worked = worker_.run_sends(doorbell, clock_.to_transport(now));
  const bool completed = worker_.send_completions() != completions_before;
  if (completed) call_sleeper();
  if (completed && !worker_.busy()) polls_since_finish_ = 0;
  return worked;
}

bool Progress::run_burst(Time now) {
  sends_in_a_row_ = 0;
  const uint64_t completions_before = worker_.send_completions();
  const bool worked = worker_.run(clock_.to_transport(now));
  if (worked) call_sleeper();
  if (worker_.send_completions() != completions_before && !worker_.busy()) polls_since_finish_ = 0;
  return worked;
}

void Progress::disarm() {
  // Somebody runs the worker: no doorbell has to kick anybody, no peer has to wake us.
  uint32_t& sleeping = worker_.doorbells().sleeping;
  if (__atomic_load_n(&sleeping, __ATOMIC_RELAXED) != 0) {
    __atomic_store_n(&sleeping, 0, __ATOMIC_RELAXED);
  }
  if (!armed_) return;
  if (watcher_ == Watcher::kPoll) call_sleeper();
  worker_.port().disarm();
  armed_ = false;
}

// Arms the port; frames that wait already are taken first, for a few bursts.
// True: some were.
bool Progress::arm_or_run(Time now) {
  bool worked = false;
  watch_again();
  for (int i = 0; i < kRechecksMax && !armed_; ++i) {
    if (!worker_.has_pending()) armed_ = worker_.port().arm();
    if (!armed_) worked |= run_burst(now);
  }
  return worked;
}

Time Progress::needed_by(Time now) const {
  // An armed port tells when there is room on the wire; one that cannot tell is polled anyway.
  return worker_.wants_wire() && !armed_ ? now : clock_.to_wall(worker_.next_deadline());
}

// The helper sleeps until helper_wakes_at_ unless the port or a kick wakes it. Is that good enough?
// True: it is to be kicked.
bool Progress::helper_oversleeps(Time now) {
  const Time wakes_at =
      helper_beats_ ? now + (reader_beats(now) ? kReaderBeat : beat()) : helper_wakes_at_;
  // An acknowledgement that is owed should not wait until the peer misses it.
  const Duration late = app_is_idle() && !armed_ ? Duration::zero()
                        : reader_beats(now)      ? kReaderBeat
                        : app_is_idle()          ? kBeat
                        : worker_.owes_acks()    ? beat()
                                                 : beat() * 2;
  const bool soon = wakes_at <= now + late;
  if (soon) return false;
  const bool tells_helper = armed_ && watcher_ == Watcher::kHelper;
  const bool port_tells = tells_helper || worker_.port().notify_fd() < 0;
  if (port_tells && needed_by(now) + kBeat >= wakes_at) return false;
  helper_beats_ = false;
  helper_wakes_at_ = now;
  return true;
}

// Nobody is woken before the lock is free: the thread that is woken may run at once, on this core.
void Progress::give_up_lock(Time now, DeferredWakes& wakes) {
  const bool kicks = helper_oversleeps(now);
  unlock();
  wakes.send();
  if (kicks) kick();
}

void Progress::unlock() {
  const bool calls = std::exchange(calls_sleeper_, false);
  lock_.unlock();
  if (calls) poll_sleep_.call();
}

void Progress::leave(Time now, DeferredWakes& wakes) {
  for (int i = 0; i < kRechecksMax; ++i) {
    const uint32_t idle_seen = idle_requests_.load(std::memory_order_relaxed);
    if (idle_seen != idle_cancelled_) {
      keep_acks(Duration::zero());
      if (worker_.owes_acks()) run_burst(now);
      arm_or_run(now);
    }
    give_up_lock(now, wakes);
    const bool again =
        worker_.doorbells_pending() || idle_requests_.load(std::memory_order_seq_cst) != idle_seen;
    if (!again || !lock_.try_lock()) return;
    if (worker_.doorbells_pending()) run_burst(now);
  }
  give_up_lock(now, wakes);
  if (worker_.doorbells_pending()) kick();
}

}  // namespace mprdma::dataplane
