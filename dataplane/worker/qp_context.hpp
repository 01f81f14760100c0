// The engine's object for a queue pair: the transport's state machine, the provider's rings, and
// the way to the peer. Made and destroyed by commands, used by the holder of the worker's lock
// only.
#pragma once

#include <cstdint>

#include "abi/mprdma_abi.h"
#include "base/timing_wheel.hpp"
#include "dataplane/client/daemon.hpp"
#include "dataplane/mgmt/mode_negotiation.hpp"
#include "dataplane/mgmt/neighbour_table.hpp"
#include "dataplane/worker/cq.hpp"
#include "dataplane/worker/work_ring.hpp"
#include "transport/qp.hpp"
#include "wire/frame.hpp"

namespace mprdma::dataplane {

class Srq;

enum class PathState : uint8_t {
  kNone,       // no address was set
  kResolving,  // packets wait while the Ethernet address is resolved
  kReady,
  kFailed,  // nobody answers: what is sent is dropped, so that the transport's timers see it
};

// Copies a neighbour's address and state into the queue pair or address handle that sends to it.
template <class Way>
void apply_neighbour(Way& way, const NeighbourTable::Entry& entry) {
  if (entry.state == NeighbourTable::State::kReachable) {
    way.address.dst_mac = entry.mac;
    way.path = PathState::kReady;
  } else if (entry.state == NeighbourTable::State::kFailed) {
    way.path = PathState::kFailed;
  }
}

struct QpContext {
  QpContext(const transport::QpConfig& config, const transport::Device& device,
            const mprdma_abi_create_qp& command)
      : qp(config, device),
        cookie(command.cookie),
        type(command.type),
        flags(command.flags),
        sq(command.sq),
        rq(command.rq) {
    timer.owner = this;
  }

  transport::Qp qp;
  uint64_t cookie;
  const mprdma_abi_client* client = nullptr;
  // nullptr: this type of queue pair has no such queue (XRC).
  Cq* send_cq = nullptr;
  Cq* recv_cq = nullptr;
  Srq* srq = nullptr;
  uint32_t pd = 0;    // 0: of its shared receive queues (XRC receive)
  uint32_t xrcd = 0;  // XRC receive
  uint32_t type = MPRDMA_ABI_QP_RC;
  uint32_t flags = 0;  // MPRDMA_ABI_QP_* creation flags
  WorkRing sq;
  WorkRing rq;
  mprdma_abi_qp_attr attr{};
  // Mode that the transport's parameters stand for; DEFAULT: not agreed with the peer yet.
  uint32_t mode = MPRDMA_ABI_MODE_DEFAULT;
  mprdma_abi_qp_transport wanted{};  // as requested at creation
  PairNegotiation pair;
  // Time since when requests have waited for the mode, for the peer's Ethernet address or for the
  // link to come up for the first time; never(): none waits.
  Time waiting_since = Time::never();

  // Since the queue pair was made or reset: payload bytes, each once, and those sent again.
  uint64_t bytes_out = 0;
  uint64_t bytes_in = 0;
  uint64_t bytes_retransmitted = 0;

  // Requests waited long enough for a link that has never come up.
  bool goes_without_link = false;

  // The way to the peer.
  wire::FrameAddress address;
  PathState path = PathState::kNone;
  bool loop = false;  // the peer's address is our own
  // The direct ring that it sends to; nullptr: the port, or the loop. worker_rings.cpp.
  DirectRing* ring = nullptr;
  Time ring_until = Time::never();  // until then what it sends waits for the ring to come up
  bool ring_due = false;            // ring may not be the one that it should be

  // A completion of this queue pair was lost because its queue was full.
  bool completion_lost = false;
  // Work requests wait in a ring because the transport's queue was full.
  bool backlog = false;
  // True if this queue pair is included in the worker's number of busy ones.
  bool busy = false;

  // True if this queue pair waits for room in its ring.
  bool parked = false;

  // Links of the scheduler, the timer, and the list of queue pairs changed in this burst.
  QpContext* next_active = nullptr;
  bool active = false;
  QpContext* next_negotiating = nullptr;
  bool negotiating = false;
  QpContext* next_dirty = nullptr;
  bool dirty = false;
  TimerNode timer;
};

}  // namespace mprdma::dataplane
