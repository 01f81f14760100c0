// A stand-in for libmprdma-engine.so on the other side of abi/: every QP of the process is wired to
// every other, instantly and without loss. It obeys the queue ABI and checks what a provider must
// guarantee; everything about packets is missing. Tests look at it and make it raise events with
// the functions below. Any thread.
#pragma once

#include <cstdint>

#include "abi/mprdma_abi_cm.h"

namespace mprdma::provider_test {

// A transport mode that this engine does not have.
inline constexpr uint32_t kModeOfALaterEngine = 77;

#define MPRDMA_FAKE_API extern "C" __attribute__((visibility("default")))

// How often mprdma_engine_connect() succeeded in this process since it started (a child counts on
// from its parent's number).
MPRDMA_FAKE_API uint32_t fake_engine_connects();
// Connections and objects that exist now.
MPRDMA_FAKE_API uint32_t fake_engine_objects();
// Raises an event (MPRDMA_ABI_EVENT_*) for a QP, by number; false: no such QP.
MPRDMA_FAKE_API bool fake_engine_raise_qp(uint32_t type, uint32_t qpn);
// Raises one event of a kind that concerns the port or the device at every connection.
MPRDMA_FAKE_API void fake_engine_raise_port(uint32_t type);
// Called once, when a completion's event is decided on and not raised yet.
MPRDMA_FAKE_API void fake_engine_before_event(void (*call)());
// While true, send queues are not looked at.
MPRDMA_FAKE_API void fake_engine_hold(bool hold);
// What connections made from now on are told that the engine can do (MPRDMA_ABI_FEATURE_*).
MPRDMA_FAKE_API void fake_engine_features(uint64_t features);
// A region as the provider described it.
struct FakeMr {
  uint64_t addr;
  uint64_t length;
  uint64_t iova;
  uint32_t access;
  uint32_t flags;
};
MPRDMA_FAKE_API bool fake_engine_mr(uint32_t lkey, FakeMr* out);
// What the last MODIFY_CQ said.
struct FakeModeration {
  uint32_t count;
  uint32_t period_us;
};
MPRDMA_FAKE_API FakeModeration fake_engine_moderation();
// What a QP was made with, and how many of its requests had the synchronise flag.
struct FakeQp {
  uint64_t create_bytes;  // of the input of CREATE_QP
  uint32_t mode;
  uint32_t initial_window;
  uint32_t window_max;
  uint32_t reorder_delta;
  uint32_t window_slots;
  uint32_t synchronised;
};
MPRDMA_FAKE_API bool fake_engine_qp(uint32_t qpn, FakeQp* out);
// Communication ids that exist; the next command of that kind (MPRDMA_ABI_CM_*) fails; the last one
// of a kind; an event for an id.
MPRDMA_FAKE_API uint32_t fake_engine_cm_ids();
MPRDMA_FAKE_API void fake_engine_cm_fail(uint32_t op, int error);
MPRDMA_FAKE_API void fake_engine_cm_last(uint32_t op, mprdma_abi_cm_command* out);
MPRDMA_FAKE_API bool fake_engine_cm_raise(uint32_t type, uint32_t id);
// Calls of progress(), kick() and send() so far.
MPRDMA_FAKE_API uint64_t fake_engine_progress_calls();

}  // namespace mprdma::provider_test
