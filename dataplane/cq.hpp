// A completion queue as the engine sees it: it writes entries into the provider's ring and raises
// completion events for a queue that is armed.
//
// No wake-up is lost: the provider stores `arm`, then (after a full fence) looks into the ring once
// more; the engine stores the entry, then (after a full fence) looks at `arm`. Whoever comes
// second sees the other. The fence is paid once for each queue and burst (fire()).
//
// Called by the holder of the worker's lock.
#pragma once

#include <cstdint>

#include "abi/mprdma_abi.h"
#include "abi/mprdma_ring.h"
#include "dataplane/engine_counters.hpp"

namespace mprdma::dataplane {

// Where asynchronous events go: the client that made the object.
inline void raise_event(const mprdma_abi_client* client, mprdma_abi_event_type type,
                        uint64_t cookie) {
  if (client == nullptr || client->on_event == nullptr) return;
  mprdma_abi_event event{};
  event.type = type;
  event.cookie = cookie;
  client->on_event(client->context, &event);
}

class Cq {
 public:
  Cq(const mprdma_abi_create_cq& command, const mprdma_abi_client* client);

  // Writes `entry` (its sequence is filled here). `urgent`: solicited, or an error, which counts
  // as solicited (IBTA 11.4.2.2). False: the ring is full, the entry is lost; the first time raises
  // a CQ error.
  bool push(mprdma_abi_cqe& entry, bool urgent, EngineCounters& counters);

  // Once at the end of a burst for each queue that got an entry.
  void fire(EngineCounters& counters);

  // Moves unread entries into a new ring. EINVAL: they do not fit.
  int resize(const mprdma_abi_resize_cq& command);

  [[nodiscard]] const mprdma_abi_client* client() const { return client_; }
  [[nodiscard]] bool overrun() const { return overrun_; }

  // Of the worker: queues that got an entry in this burst.
  Cq* next_touched = nullptr;
  bool touched = false;
  // Queue pairs that use it; a queue in use is not destroyed.
  uint32_t users = 0;

 private:
  mprdma_abi_cqe* ring_;
  mprdma_abi_cq_dbr* dbr_;
  const mprdma_abi_client* client_;
  uint64_t cookie_;
  uint32_t depth_;
  uint32_t producer_ = 0;
  uint32_t consumer_seen_ = 0;
  uint32_t fired_serial_ = 0;
  bool urgent_ = false;
  bool overrun_ = false;
};

}  // namespace mprdma::dataplane
