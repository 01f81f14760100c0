// Which queue pairs use a direct ring to their peer's process (client/daemon.hpp): connected ones
// whose peer is another process of the device.
//
// A queue pair changes its way only while it has nothing outstanding, so that its packets do not
// overtake one another. One that has just got its peer waits for the ring, for a short time. If the
// ring comes later, a queue pair that always has requests outstanding *drains*: it takes no more of
// them until they are done, and changes its way then. When a ring goes down its queue pairs send by
// the daemon again, and the transport repeats what was lost, but for segments, which need a ring: a
// request that has begun in such waits for the next one, and ends in an error (retry exceeded) if
// none comes.
#include <algorithm>

#include "dataplane/port/local_port_region.hpp"
#include "dataplane/worker/worker.hpp"

namespace mprdma::dataplane {

namespace {

// Longest time that a new queue pair waits for a ring that is on its way.
constexpr Duration kRingPatience = Duration::ms(50);
// A queue pair drains for as long as its own requests take, because those behind them would wait
// for them in any case. It waits this long at most for the end of its answers to the peer, which
// may ask on, and tries again this long after it has waited in vain.
constexpr Duration kAnswersMax = Duration::ms(50);
constexpr Duration kDrainAgain = Duration::s(2);
// A queue pair that has drained and changed sends nothing for so long, so that the peer, which
// drains at about the same time, finds no request of it and can change, too.
constexpr Duration kRestAfterChange = Duration::ms(20);
// Packets between two engines, where both have the frames for them: fewer than a port's large
// frames hold in all stay in the cache, and each costs the same as a short one.
constexpr uint32_t kSegment = local::kLargePayload;
// Packets that one acknowledgement answers there.
constexpr uint32_t kAckRun = 32;

}  // namespace

bool Worker::may_use_ring(const QpContext& qp) {
  return qp.path != PathState::kNone && !qp.loop && qp.qp.service() != transport::QpService::kUd;
}

// Called when the queue pair has got its peer.
void Worker::want_ring(QpContext& qp, Time now) {
  leave_ring(qp);
  if (daemon_ == nullptr || !is_own(qp.peer_ip()) || !may_use_ring(qp)) return;
  if (daemon_->ring_state(Qpn(qp.attr.dest_qpn), true) != RingState::kNone) {
    qp.ring_until = now + kRingPatience;
  }
  qp.ring_due = true;
}

// Called, too, when a queue pair is reset or destroyed, or gets another peer.
void Worker::leave_ring(QpContext& qp) {
  unpark(qp);
  take_back(qp);
  if (qp.ring != nullptr) --qp.ring->users;
  qp.ring = nullptr;
  qp.ring_until = Time::never();
  qp.ring_due = false;
  qp.next_drain = Time();
  if (qp.drains()) resume_sends(qp);
}

// The queue pair takes no requests before `until`, which may be put off.
void Worker::drain(QpContext& qp, Time until) {
  qp.held |= QpContext::kDrains;
  qp.drains_until = until;
  wheel_.schedule_no_later(qp.timer, until);
}

// The queue pair takes requests again.
void Worker::resume_sends(QpContext& qp) {
  qp.held &= static_cast<uint8_t>(~QpContext::kDrains);
  qp.drains_until = Time::never();
  mprdma_abi_ring_doorbell(doorbells_.get(), slot_of(qp.qp.qpn()));
}

// Requires ring_due, and that the queue pair is busy and goes by the daemon while its ring is up.
// Begins, prolongs or ends its drain.
void Worker::drain_for_ring(QpContext& qp) {
  const bool in_rts = qp.qp.state() == transport::QpState::kRts;
  if (in_rts && qp.qp.sends_outstanding() > 0) {
    if (qp.drains() || now_ >= qp.next_drain) drain(qp, now_ + kAnswersMax);
    return;
  }
  if (!qp.drains() || (in_rts && now_ < qp.drains_until)) return;
  resume_sends(qp);
  qp.next_drain = now_ + kDrainAgain;
}

// Until when a queue pair that goes by `ring` from now on rests; never(): it does not. Who kept no
// request waiting has left its peer a quiet moment already. The same ring begins no other rest.
Time Worker::rest_of(const QpContext& qp, const DirectRing* ring) const {
  if (!qp.drains() || ring == nullptr || qp.qp.state() != transport::QpState::kRts) {
    return Time::never();
  }
  if (ring == qp.ring) return qp.drains_until;
  const bool waiting = mprdma_abi_load_acquire(&qp.sq.dbr->producer) != qp.sq.next;
  return waiting ? now_ + kRestAfterChange : Time::never();
}

// Requires ring_due. Follows a change of the rings, if nothing is outstanding; otherwise the queue
// pair may drain.
void Worker::choose_ring(QpContext& qp) {
  const bool waits = waits_for_ring(qp);
  const bool gone = qp.ring != nullptr && !qp.ring->up;
  // Segments cannot go by the daemon: they take the ring as soon as there is one.
  const bool stranded = qp.ring == nullptr && qp.qp.sends_long();
  const bool must_stay = !waits && !gone && !stranded && qp.qp.busy();
  if (must_stay && qp.ring != nullptr) return;
  const Qpn peer(qp.attr.dest_qpn);
  const RingState state = daemon_->ring_state(peer, false);
  if (must_stay) {
    if (state == RingState::kUp) return drain_for_ring(qp);
    if (qp.drains()) resume_sends(qp);
    qp.ring_due = state == RingState::kComing;
    return;
  }
  if (waits && state == RingState::kComing && now_ < qp.ring_until) return;
  DirectRing* ring = daemon_->ring_to(peer);
  const Time rests_until = rest_of(qp, ring);
  leave_ring(qp);
  qp.ring = ring;
  if (ring != nullptr) ++ring->users;
  if (!rests_until.is_never()) drain(qp, rests_until);
  qp.ring_due = state == RingState::kComing;
  update_offer(qp);
  if (qp.mode_due) apply_mode(qp);
}

// A wire that is memory, with another engine at its end, has one path, and carries packets as long
// as its frames; what is on a network is offered nothing. Neither is a pair that speaks the paper's
// algorithm to the letter, or IRN: packets of the path MTU, and an acknowledgement for each. The
// peer's side of such a pair learns the mode with the offer, so that it never sends what was not
// offered.
PairNegotiation::WireOffer Worker::wire_offer(const QpContext& qp) const {
  if (qp.type != MPRDMA_ABI_QP_RC || qp.loop || qp.path == PathState::kNone) return {};
  const wire::PairMode mode = qp.pair.mode();
  if (mode == wire::PairMode::kMpPaper || mode == wire::PairMode::kIrn) return {};
  const Port& port = qp.ring != nullptr ? *qp.ring->port : *port_;
  if (!port.takes_bare()) return {};
  return {.segment = port.large_payload() >= kSegment ? kSegment : 0, .runs = true};
}

// The way to the peer is another one, or may be, or the mode is, or what the peer offers.
void Worker::update_offer(QpContext& qp) {
  if (qp.pair.offer(now_, wire_offer(qp))) mark_dirty(qp);
  apply_offers(qp);
}

// What each side sends is what the other takes.
void Worker::apply_offers(QpContext& qp) {
  const PairNegotiation::WireOffer own = wire_offer(qp);
  const PairNegotiation::WireOffer& peer = qp.pair.peer_offer();
  transport::QpAttributes attributes = qp.qp.attributes();
  const uint32_t common = std::min(own.segment, peer.segment);
  const uint32_t segment = common - common % attributes.path_mtu;
  const uint32_t run = own.runs && peer.runs ? kAckRun : 1;
  const uint32_t takes = std::max(attributes.take_segment, own.segment);
  if (segment == attributes.send_segment && run == attributes.ack_run &&
      takes == attributes.take_segment) {
    return;
  }
  attributes.send_segment = segment;
  attributes.take_segment = takes;
  attributes.ack_run = run;
  qp.qp.set_attributes(attributes);
}

// A process that does not read fills its ring: the queue pairs that send there leave the scheduler,
// so that they do not take the turns of others.
void Worker::park(QpContext& qp) {
  if (qp.active) return;
  qp.held |= QpContext::kParked;
  parked_.push(qp);
}

void Worker::unpark(QpContext& qp) {
  if (!qp.parked()) return;
  (qp.paused() ? paused_qps_ : parked_).remove(qp);
  qp.held &= static_cast<uint8_t>(~(QpContext::kParked | QpContext::kPaused));
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
    qp.held &= static_cast<uint8_t>(~QpContext::kParked);
    scheduler_.push(qp);
  }
}

// Called in service(): rings came up or went down. `ask`: those that are missing are asked for.
void Worker::follow_rings(bool ask, Time now) {
  const uint64_t changes = daemon_->ring_changes();
  if (!ask && changes == ring_changes_seen_) return;
  now_ = now;
  qps_.for_each([&](QpContext& qp) {
    if (!may_use_ring(qp) || !is_own(qp.peer_ip())) return;
    if (ask) daemon_->ring_state(Qpn(qp.attr.dest_qpn), true);
    qp.ring_due = true;
    mark_dirty(qp);
  });
  ring_changes_seen_ = changes;
  after_command(now);
}

}  // namespace mprdma::dataplane
