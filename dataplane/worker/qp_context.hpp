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
#include "wire/frame_template.hpp"

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
    way.set_dst_mac(entry.mac);
    way.path = PathState::kReady;
  } else if (entry.state == NeighbourTable::State::kFailed) {
    way.path = PathState::kFailed;
  }
}

// Whether the application answers what arrives, a WRITE or a SEND, by a post of its own, and soon:
// then the acknowledgement may wait for the answer and leave with it. So a peer that polls for its
// completion is still polling when the answer comes.
class AnswerHabit {
 public:
  // An answer within this time is one.
  static constexpr Duration kSoon = Duration::us(150);

  // A packet of a WRITE or a SEND has arrived.
  void on_data(Time now) {
    data_at_ = now;
    unanswered_ = true;
  }
  // The application posts a send request.
  void on_post(Time now) {
    if (!unanswered_) return;
    unanswered_ = false;
    if (now - data_at_ <= kSoon) {
      score_ = score_ < kScoreMax ? static_cast<uint8_t>(score_ + 1) : kScoreMax;
    } else {
      miss();
    }
  }
  // An acknowledgement has waited in vain.
  void miss() { score_ = static_cast<uint8_t>(score_ > kPenalty ? score_ - kPenalty : 0); }

  // True if an answer is likely to come soon.
  [[nodiscard]] bool expected() const { return unanswered_ && score_ >= kEnough; }
  // Data has come since the last post.
  [[nodiscard]] bool unanswered() const { return unanswered_; }

 private:
  // Entered after few answers and left by a score that decays, so that one late answer changes
  // nothing.
  static constexpr uint8_t kEnough = 2;
  static constexpr uint8_t kPenalty = 2;
  static constexpr uint8_t kScoreMax = 8;

  Time data_at_;
  bool unanswered_ = false;
  uint8_t score_ = 0;
};

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

  // A packet may be on its way whose payload is lent.
  bool lends = false;

  // Requests waited long enough for a link that has never come up.
  bool goes_without_link = false;

  // The way to the peer.
  wire::FrameTemplate outer;
  [[nodiscard]] const wire::IpAddress& peer_ip() const { return outer.address().dst_ip; }
  void set_dst_mac(const wire::MacAddress& mac) { outer.set_dst_mac(mac); }
  PathState path = PathState::kNone;
  bool loop = false;  // the peer's address is our own
  // The direct ring that it sends to; nullptr: the port, or the loop. worker_rings.cpp.
  DirectRing* ring = nullptr;
  Time ring_until = Time::never();    // until then what it sends waits for the ring to come up
  bool ring_due = false;              // ring may not be the one that it should be
  Time drains_until = Time::never();  // the end of kDrains; never(): without it
  Time next_drain;                    // kDrains does not begin before
  bool mode_due = false;              // the mode is agreed, and is applied when the ring is known

  // A completion of this queue pair was lost because its queue was full.
  bool completion_lost = false;
  // Work requests wait in a ring because the transport's queue was full.
  bool backlog = false;
  // True if this queue pair is included in the worker's number of busy ones.
  bool busy = false;

  // What keeps its requests from leaving at once: it waits for room in its direct ring, or for the
  // end of a pause; it takes no requests, so that it has nothing outstanding and can change its
  // way, or rests after it has.
  static constexpr uint8_t kParked = 1 << 0;
  static constexpr uint8_t kDrains = 1 << 1;
  static constexpr uint8_t kPaused = 1 << 2;
  uint8_t held = 0;
  // It is in a list of those that wait, and not in the scheduler.
  [[nodiscard]] bool parked() const { return (held & (kParked | kPaused)) != 0; }
  [[nodiscard]] bool paused() const { return (held & kPaused) != 0; }
  [[nodiscard]] bool drains() const { return (held & kDrains) != 0; }

  // Links of the scheduler, the timer, and the list of queue pairs changed in this burst.
  QpContext* next_active = nullptr;
  bool active = false;
  QpContext* next_negotiating = nullptr;
  bool negotiating = false;
  QpContext* next_dirty = nullptr;
  bool dirty = false;
  QpContext* next_owing = nullptr;
  bool owing = false;  // it owes an acknowledgement, and is in the list
  AnswerHabit answers;
  transport::QpChanges changes = 0;  // of the host's own making, to be looked at
  TimerNode timer;
};

}  // namespace mprdma::dataplane
