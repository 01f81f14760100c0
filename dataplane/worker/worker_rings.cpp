// Which queue pairs use a direct ring to their peer's process (client/daemon.hpp): connected ones
// whose peer is another process of the device.
//
// A queue pair changes its way only while it has nothing outstanding, so that its packets do not
// overtake one another. One that has just got its peer waits for the ring, for a short time: it
// might be busy ever after. When a ring goes down its queue pairs send by the daemon again, and the
// transport repeats what was lost.
#include "dataplane/worker/worker.hpp"

namespace mprdma::dataplane {

namespace {

// Longest time that a new queue pair waits for a ring that is on its way.
constexpr Duration kRingPatience = Duration::ms(50);

}  // namespace

bool Worker::may_use_ring(const QpContext& qp) {
  return qp.path != PathState::kNone && !qp.loop && qp.qp.service() != transport::QpService::kUd;
}

// Called when the queue pair has got its peer.
void Worker::want_ring(QpContext& qp, Time now) {
  leave_ring(qp);
  if (daemon_ == nullptr || !is_own(qp.address.dst_ip) || !may_use_ring(qp)) return;
  if (daemon_->ring_state(Qpn(qp.attr.dest_qpn), true) != RingState::kNone) {
    qp.ring_until = now + kRingPatience;
  }
  qp.ring_due = true;
}

void Worker::leave_ring(QpContext& qp) {
  unpark(qp);
  if (qp.ring != nullptr) --qp.ring->users;
  qp.ring = nullptr;
  qp.ring_until = Time::never();
  qp.ring_due = false;
}

// Requires ring_due. Follows a change of the rings, if nothing is outstanding.
void Worker::choose_ring(QpContext& qp) {
  const bool waits = waits_for_ring(qp);
  const bool gone = qp.ring != nullptr && !qp.ring->up;
  if (!waits && !gone && qp.qp.busy()) return;
  const Qpn peer(qp.attr.dest_qpn);
  const RingState state = daemon_->ring_state(peer, false);
  if (waits && state == RingState::kComing && now_ < qp.ring_until) return;
  DirectRing* ring = daemon_->ring_to(peer);
  leave_ring(qp);
  qp.ring = ring;
  if (ring != nullptr) ++ring->users;
  qp.ring_due = state == RingState::kComing;
}

// A process that does not read fills its ring: the queue pairs that send there leave the scheduler,
// so that they do not take the turns of others.
void Worker::park(QpContext& qp) {
  if (qp.active) return;
  qp.parked = true;
  parked_.push(qp);
}

void Worker::unpark(QpContext& qp) {
  if (!qp.parked) return;
  qp.parked = false;
  parked_.remove(qp);
  scheduler_.push(qp);
}

// Looks at a few of them in each burst.
void Worker::unpark_some() {
  constexpr int kPerBurst = 8;
  for (int i = 0; i < kPerBurst && !parked_.empty(); ++i) {
    QpContext& qp = *parked_.pop();
    if (qp.ring->up && qp.ring->port->tx_tight()) {
      parked_.push(qp);
      continue;
    }
    qp.parked = false;
    scheduler_.push(qp);
  }
}

// Called in service(): rings came up or went down. `ask`: those that are missing are asked for.
void Worker::follow_rings(bool ask, Time now) {
  const uint64_t changes = daemon_->ring_changes();
  if (!ask && changes == ring_changes_seen_) return;
  now_ = now;
  qps_.for_each([&](QpContext& qp) {
    if (!may_use_ring(qp) || !is_own(qp.address.dst_ip)) return;
    if (ask) daemon_->ring_state(Qpn(qp.attr.dest_qpn), true);
    qp.ring_due = true;
    mark_dirty(qp);
  });
  ring_changes_seen_ = changes;
  after_command(now);
}

}  // namespace mprdma::dataplane
