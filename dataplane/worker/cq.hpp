// A completion queue as the engine sees it: it writes entries into the provider's ring and raises
// completion events for a queue that is armed.
//
// No wake-up is lost: the provider stores `arm`, then (after a full fence) looks into the ring once
// more; the engine stores the entry, then (after a full fence) looks at `arm`. Whoever comes
// second sees the other. The fence is paid once for each queue and burst (fire()).
//
// Moderation (MODIFY_CQ) keeps an event back until enough entries wait or a time is over; the
// caller of fire() must call expire() then, so a moderated event may be late but is never lost.
//
// Called by the holder of the worker's lock.
#pragma once

#include <cstdint>

#include "abi/mprdma_abi.h"
#include "abi/mprdma_ring.h"
#include "base/timing_wheel.hpp"
#include "base/units.hpp"
#include "dataplane/sys/no_cancellation.hpp"
#include "dataplane/worker/engine_counters.hpp"

namespace mprdma::dataplane {

// Where asynchronous events go: the client that made the object.
inline void raise_event(const mprdma_abi_client* client, mprdma_abi_event_type type,
                        uint64_t cookie, uint32_t arm_serial = 0) {
  if (client == nullptr || client->on_event == nullptr) return;
  const NoCancellation whole;
  mprdma_abi_event event{};
  event.type = type;
  event.arm_serial = arm_serial;
  event.cookie = cookie;
  client->on_event(client->context, &event);
}

class Cq {
 public:
  Cq(const mprdma_abi_create_cq& command, const mprdma_abi_client* client);

  // The next entry, which the caller fills but for its sequence and then hands over by push().
  // nullptr: the ring is full, and the completion lost; the first time raises a CQ error.
  mprdma_abi_cqe* reserve(EngineCounters& counters) {
    if (producer_ - consumer_seen_ >= depth_) [[unlikely]] {
      if (!find_room(counters)) return nullptr;
    }
    return &ring_[producer_ & (depth_ - 1)];
  }
  // `entry`: of reserve(). `failed`: it has an error, which counts as solicited (IBTA 11.4.2.2).
  void push(mprdma_abi_cqe* entry, bool failed, bool solicited, EngineCounters& counters) {
    mprdma_abi_store_release(&entry->sequence, ++producer_);
    failed_ |= failed;
    solicited_ |= solicited || failed;
    ++counters.completions;
  }

  // Called once at the end of a burst for each queue that got an entry. Returns when to call
  // expire(); never: no event waits.
  [[nodiscard]] Time fire(Time now, EngineCounters& counters);
  void expire(EngineCounters& counters);
  void moderate(uint16_t count, uint16_t period_us);

  // Moves unread entries into a new ring. EINVAL: they do not fit.
  int resize(const mprdma_abi_resize_cq& command);

  [[nodiscard]] const mprdma_abi_client* client() const { return client_; }
  [[nodiscard]] bool overrun() const { return overrun_; }

  // The worker's list of queues that got an entry in this burst.
  Cq* next_dirty = nullptr;
  bool dirty = false;
  TimerNode timer;
  // Queue pairs and XRC SRQs that use it; a queue in use is not destroyed.
  uint32_t users = 0;

 private:
  bool find_room(EngineCounters& counters);
  [[nodiscard]] bool may_wait(uint32_t waiting) const;
  void raise(uint32_t serial, EngineCounters& counters);

  mprdma_abi_cqe* ring_;
  mprdma_abi_cq_dbr* dbr_;
  const mprdma_abi_client* client_;
  uint64_t cookie_;
  uint32_t depth_;
  uint32_t producer_ = 0;
  uint32_t consumer_seen_ = 0;
  uint32_t fired_serial_ = 0;
  uint32_t count_ = 0;                  // moderation
  Duration period_ = Duration::zero();  // moderation
  uint32_t waiting_since_ = 0;          // first entry that the next event is about
  Time due_ = Time::never();            // of an event that waits
  uint32_t due_serial_ = 0;             // serial of the request for the waiting event
  bool solicited_ = false;
  bool failed_ = false;  // an entry with an error came in this burst
  bool overrun_ = false;
};

}  // namespace mprdma::dataplane
