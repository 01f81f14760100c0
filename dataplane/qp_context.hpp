// A queue pair as the engine holds it: the transport's state machine, the provider's rings, and the
// way to the peer. Made and destroyed by commands, touched by the holder of the worker's lock only.
#pragma once

#include <cstdint>

#include "abi/mprdma_abi.h"
#include "dataplane/cq.hpp"
#include "dataplane/timing_wheel.hpp"
#include "transport/qp.hpp"
#include "wire/frame.hpp"

namespace mprdma::dataplane {

// A send or receive ring in the provider's memory.
struct WorkRing {
  void* ring = nullptr;
  mprdma_abi_queue_dbr* dbr = nullptr;
  uint32_t depth = 0;  // 0: no such queue
  uint32_t stride = 0;
  uint32_t max_sge = 0;
  uint32_t max_inline = 0;
  uint32_t next = 0;       // first slot that the transport has not been given
  uint32_t completed = 0;  // send queue: first slot that has not completed

  explicit WorkRing(const mprdma_abi_queue& queue)
      : ring(reinterpret_cast<void*>(queue.ring)),
        dbr(reinterpret_cast<mprdma_abi_queue_dbr*>(queue.dbr)),
        depth(queue.depth),
        stride(queue.stride),
        max_sge(queue.max_sge),
        max_inline(queue.max_inline) {}
};

enum class PathState : uint8_t {
  kNone,       // no address was set
  kResolving,  // wait: the Ethernet address is being asked for
  kReady,
  kFailed,  // nobody answers: what is sent is dropped, so that the transport's timers see it
};

struct QpContext {
  QpContext(const transport::QpConfig& config, const transport::Device& device,
            const mprdma_abi_create_qp& command)
      : qp(config, device), cookie(command.cookie), sq(command.sq), rq(command.rq) {
    timer.owner = this;
  }

  transport::Qp qp;
  uint64_t cookie;
  const mprdma_abi_client* client = nullptr;
  Cq* send_cq = nullptr;
  Cq* recv_cq = nullptr;
  uint32_t pd = 0;
  WorkRing sq;
  WorkRing rq;
  mprdma_abi_qp_attr attr{};
  uint32_t mode = MPRDMA_ABI_MODE_DEFAULT;  // what the transport's parameters amount to

  // Since the queue pair was made or reset: payload bytes, each once, and those sent again.
  uint64_t bytes_out = 0;
  uint64_t bytes_in = 0;
  uint64_t bytes_retransmitted = 0;

  // The way to the peer.
  wire::FrameAddress address;
  PathState path = PathState::kNone;
  bool loop = false;  // the peer's address is our own

  // Work requests wait in a ring because the transport's queue was full.
  bool backlog = false;
  // Counted in the worker's number of busy queue pairs.
  bool busy = false;

  // Scheduler, timer, and the list of those touched in this burst.
  QpContext* next_active = nullptr;
  bool active = false;
  QpContext* next_touched = nullptr;
  bool touched = false;
  TimerNode timer;
};

}  // namespace mprdma::dataplane
