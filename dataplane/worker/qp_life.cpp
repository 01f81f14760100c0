// Addresses, neighbours and the link; the life of a queue pair inside the worker.
#include <algorithm>
#include <utility>

#include "abi/mprdma_ring.h"
#include "dataplane/qpn.hpp"
#include "dataplane/worker/qp_params.hpp"
#include "dataplane/worker/worker.hpp"
#include "wire/neighbour.hpp"

namespace mprdma::dataplane {

namespace {

// Half of the frames that the port can lend stay free for arriving packets.
void limit_held(const PortInfo& port, transport::HeldPool& held) {
  held.set_limit(std::max(port.rx_frames / 2, 1u));
  held.set_long_limit(std::max(port.rx_large_frames / 2, 1u));
}

void empty_ring(WorkRing& ring) {
  if (ring.depth == 0) return;
  ring.next = ring.completed = mprdma_abi_load_acquire(&ring.dbr->producer);
  mprdma_abi_store_release(&ring.dbr->consumer, ring.next);
}

}  // namespace

Worker::Worker(const WorkerConfig& config, std::unique_ptr<Port> port, Time now)
    : config_(config),
      configured_params_(config.params),
      port_(std::move(port)),
      daemon_(port_->daemon()),
      port_info_(port_->info()),
      loop_(config.mtu),
      wire_batch_(port_.get(), true),
      loop_batch_(&loop_, true),
      gids_{wire::link_local_of(config.mac), wire::map_ipv4(config.ipv4)},
      prng_(config.seed),
      doorbells_(std::make_unique<mprdma_abi_doorbell_page>()),
      qps_(prng_.split("qp numbers"), daemon_ != nullptr ? daemon_->block() : QpBlock{}),
      mrs_(kMaxMrs, prng_.split("keys")),
      nic_part_({.mac = config.mac,
                 .ipv4 = config.ipv4,
                 .mtu = config.mtu,
                 .port = port_.get(),
                 .loop = &loop_,
                 .prng = &prng_,
                 .counters = &counters_,
                 .drops = &wire_drops_,
                 .worker = this,
                 .on_neighbour = &Worker::on_neighbour,
                 .on_pair_mad = &Worker::on_pair_mad}),
      held_(std::max(config.held_frames, 1u)),
      frames_(held_.budget() + kBurst),
      wheel_(now),
      cq_wheel_(now),
      placements_(transport::kMaxPlacements),
      released_(transport::kMaxReleased),
      actions_(placements_, released_),
      now_(now) {
  device_.memory = &mrs_.memory();
  device_.held = &held_;
  device_.counters = &transport_counters_;
  device_.owes_acks = true;
  device_.trace = config.trace;
  device_.hardware = config.hardware;
  device_.host = this;
  device_.find_xrc_srq = &find_xrc_srq;
  mrs_.memory().set_presence(&memory_there, this);
  link_up_ = link_seen_ = port_->link_up();
  limit_held(port_info_, held_);
  settle_link(port_info_, &config_.params);
  if (daemon_ == nullptr) return;
  // mprdmad passes on the pauses that are to be obeyed, and puts no other into its ports.
  config_.pfc = true;
  config_.pfc_priority.reset();
}

Worker::~Worker() = default;

const transport::SharedReceives* Worker::find_xrc_srq(void* host, uint32_t xrcd, uint32_t srqn) {
  const Srq* srq = static_cast<Worker*>(host)->srqs_.find(srqn);
  return srq != nullptr && srq->is_xrc() && srq->xrcd() == xrcd ? srq->shared() : nullptr;
}

Time Worker::next_deadline() const {
  Time next =
      std::min({wheel_.next_deadline(), cq_wheel_.next_deadline(), nic_part_.next_deadline()});
  for (const QpContext* qp = owing_qps_; qp != nullptr; qp = qp->next_owing) {
    next = std::min(next, qp->qp.owed_since() + ack_patience_);
  }
  return next;
}

void Worker::attach(QpContext* qp) {
  qps_.set(qp->qp.qpn(), qp);
}

void Worker::detach(QpContext* qp, Time now) {
  now_ = now;
  send_owed_acks(*qp);
  qp->qp.set_state(now, transport::QpState::kReset, actions_);
  apply_actions(*qp, nullptr);
  flush_released();
  unpark(*qp);
  scheduler_.remove(*qp);
  wheel_.cancel(qp->timer);
  for (QpContext** link = &dirty_qps_; *link != nullptr; link = &(*link)->next_dirty) {
    if (*link == qp) {
      *link = qp->next_dirty;
      break;
    }
  }
  for (QpContext** link = &owing_qps_; *link != nullptr; link = &(*link)->next_owing) {
    if (*link == qp) {
      *link = qp->next_owing;
      break;
    }
  }
  mcast_.forget(qp);
  leave_ring(*qp);
  end_negotiation(*qp);
  send_filled();
  if (qp->busy) --busy_qps_;
  mrs_.memory().forget_queue_pair(qp->qp.qpn());
  qps_.release(qp->qp.qpn());
}

void Worker::forget_cq(Cq* cq) {
  cq_wheel_.cancel(cq->timer);
  for (Cq** link = &dirty_cqs_; *link != nullptr; link = &(*link)->next_dirty) {
    if (*link == cq) {
      *link = cq->next_dirty;
      return;
    }
  }
}

void Worker::remove_client(const mprdma_abi_client* client) {
  std::erase(clients_, client);
}

bool Worker::set_state(QpContext& qp, Time now, transport::QpState state) {
  const transport::QpState from = qp.qp.state();
  now_ = now;
  send_owed_acks(qp);
  const bool done = qp.qp.set_state(now, state, actions_);
  apply_actions(qp, nullptr);
  flush_released();
  mark_dirty(qp);
  send_filled();
  if (!done) return false;
  if (state == transport::QpState::kRtr) begin_negotiation(qp, now);
  if (state == transport::QpState::kReset) end_negotiation(qp);
  if (state == transport::QpState::kReset || from == transport::QpState::kReset) {
    leave_ring(qp);
    // Posted requests are dropped: the rings are empty, whatever indices the provider starts from.
    qp.path = PathState::kNone;
    qp.mode_due = false;
    qp.backlog = qp.completion_lost = qp.goes_without_link = false;
    empty_ring(qp.sq);
    empty_ring(qp.rq);
  } else {
    // Requests may have been posted that the previous state did not admit.
    mprdma_abi_ring_doorbell(doorbells_.get(), slot_of(qp.qp.qpn()));
  }
  return true;
}

int Worker::set_path(QpContext& qp, Time now) {
  mprdma_abi_create_ah to{};
  to.sgid_index = qp.attr.sgid_index;
  to.traffic_class = qp.attr.traffic_class;
  to.hop_limit = qp.attr.hop_limit;
  std::memcpy(to.dgid, qp.attr.dgid, sizeof(to.dgid));
  AddressHandle found;
  const int error = nic_part_.resolve_address(to, now, &found);
  if (error != 0) return error;
  if (found.group) return EINVAL;
  qp.outer = found.outer;
  // A sender that reacts to congestion marks its packets as ECT.
  if (answers_marks(qp)) qp.outer.set_ecn(wire::Ecn::kEct0);
  qp.path = found.path;
  // On a shared device, our address may also mean another process.
  qp.loop = is_own(found.peer_ip()) && (daemon_ == nullptr || qps_.owns(Qpn(qp.attr.dest_qpn)));
  want_ring(qp, now);
  mark_dirty(qp);
  return 0;
}

void Worker::on_neighbour(void* worker, const wire::IpAddress& ip) {
  static_cast<Worker*>(worker)->path_changed(ip);
}

// What is known of a neighbour changed: its queue pairs go on, or learn that it is gone.
void Worker::path_changed(const wire::IpAddress& peer) {
  const NeighbourTable::Entry* entry = nic_part_.table().find(peer);
  if (entry == nullptr) return;
  qps_.for_each([&](QpContext& qp) {
    if (qp.path == PathState::kNone || qp.loop || qp.peer_ip() != peer) return;
    apply_neighbour(qp, *entry);
    mark_dirty(qp);
  });
  ah_path_changed(peer, *entry);
}

void Worker::after_command(Time now) {
  now_ = now;
  reschedule_dirty();
  negotiate(now);
  send_filled();
  fire_events();
}

// What was written outside a burst does not wait for the next one that finds work.
void Worker::send_filled() {
  if (commit_batches()) port_->flush();
}

void Worker::reschedule_dirty() {
  while (dirty_qps_ != nullptr) {
    QpContext* qp = dirty_qps_;
    dirty_qps_ = qp->next_dirty;
    qp->dirty = false;
    reschedule(*qp);
  }
}

// Requests still in the ring (the mode was not agreed yet) are flushed as well.
void Worker::fail(QpContext& qp) {
  qp.qp.set_state(now_, transport::QpState::kErr, actions_);
  apply_actions(qp, nullptr);
  mprdma_abi_ring_doorbell(doorbells_.get(), slot_of(qp.qp.qpn()));
}

// A completion that its queue could not take is lost, and with it the order of work: the queue pair
// can't go on (IBTA 11.6.3.1: the CQ error; 10.10.2: its queue pairs).
void Worker::fail_if_cq_lost(QpContext& qp) {
  const transport::QpState state = qp.qp.state();
  if (state == transport::QpState::kErr || state == transport::QpState::kReset) return;
  const bool overrun = (qp.send_cq != nullptr && qp.send_cq->overrun()) ||
                       (qp.recv_cq != nullptr && qp.recv_cq->overrun());
  if (!overrun && !qp.completion_lost) return;
  qp.completion_lost = false;
  fail(qp);
  drain_completions(qp);
  raise_event(qp.client, MPRDMA_ABI_EVENT_QP_FATAL, qp.cookie);
}

// Called after a change: writes completions and events, and sets what the queue pair waits for.
void Worker::reschedule(QpContext& qp) {
  transport::QpChanges changes =
      std::exchange(qp.changes, transport::QpChanges{0}) | qp.qp.take_changes();
  if ((changes & transport::kCompletionsChanged) != 0 && drain_completions(qp)) {
    changes |= qp.qp.take_changes();
    fail_if_cq_lost(qp);
    if (qp.backlog) mprdma_abi_ring_doorbell(doorbells_.get(), slot_of(qp.qp.qpn()));
    const bool last = qp.qp.sends_outstanding() == 0;
    if (last) changes |= transport::kBusyChanged;
    // It may take another way now, and does not wait for this one any more.
    if ((last && qp.ring_due) || !qp.waiting_since.is_never()) changes |= transport::kOthersChanged;
  }
  if (qp.qp.owes_ack() && !qp.owing) {
    qp.owing = true;
    qp.next_owing = owing_qps_;
    owing_qps_ = &qp;
  }
  if ((changes & transport::kOthersChanged) != 0) reschedule_others(qp);
  if ((changes & transport::kBusyChanged) != 0) note_busy(qp);
  if ((changes & transport::kSendingChanged) != 0 && qp.qp.wants_to_send() && can_send(qp)) {
    if (qp.paused()) [[unlikely]]
      look_at_paused(qp);
    scheduler_.push(qp);
  }
  if ((changes & transport::kDeadlineChanged) != 0) set_timer(qp);
}

// What the transport's common case does not change.
void Worker::reschedule_others(QpContext& qp) {
  drain_events(qp);
  fail_if_cq_lost(qp);
  if (qp.drains() && qp.ring != nullptr && now_ >= qp.drains_until) resume_sends(qp);
  if (qp.ring_due) choose_ring(qp);
  note_waiting(qp);
}

void Worker::note_busy(QpContext& qp) {
  const bool busy = qp.qp.busy();
  if (busy != qp.busy) {
    qp.busy = busy;
    busy_qps_ += busy ? 1u : ~0u;
  }
}

// A timer that stands too early costs one look when it fires; only an earlier deadline moves it.
void Worker::set_timer(QpContext& qp) {
  const Time pair_deadline_at = pair_deadline(qp);
  if (pair_deadline_at <= now_) push_negotiating(qp);
  const Time next = pair_deadline_at <= now_ ? Time::never() : pair_deadline_at;
  const Time ring_at = std::min(qp.ring_until, qp.drains_until);
  wheel_.schedule_no_later(qp.timer, std::min({qp.qp.next_deadline(), next, ring_at}));
}

void Worker::service(Time clock, Time now) {
  flush_released();
  port_->service(clock);
  follow_block(now);
  if (daemon_ != nullptr) follow_rings(false, now);
  const bool up = port_->link_up();
  if (up == link_up_) return;
  set_link(up, now);
  after_command(now);
}

// A daemon that could not return the same numbers has given the old ones to another process.
void Worker::follow_block(Time now) {
  if (daemon_ == nullptr || daemon_->block() == qps_.block()) return;
  now_ = now;
  qps_.for_each([this](QpContext& qp) {
    if (qp.qp.state() == transport::QpState::kReset) return;
    fail(qp);
    raise_event(qp.client, MPRDMA_ABI_EVENT_QP_FATAL, qp.cookie);
  });
  qps_.move_to(daemon_->block());
  after_command(now);
}

// Neighbours that could not be reached are asked for again: the requests may have been lost on a
// wire without a link.
void Worker::ask_failed_paths(Time now) {
  const auto ask = [&](auto& of) {
    if (of.path != PathState::kFailed) return false;
    const NeighbourTable::Entry* entry = nic_part_.table().resolve(of.peer_ip(), now);
    if (entry == nullptr) return false;
    of.path = PathState::kResolving;
    apply_neighbour(of, *entry);
    return true;
  };
  qps_.for_each([&](QpContext& qp) {
    if (ask(qp)) mark_dirty(qp);
  });
  ahs_.for_each([&](uint32_t, AddressHandle& ah) { ask(ah); });
  mark_datagram_qps_dirty();
}

void Worker::set_link(bool up, Time now) {
  link_up_ = up;
  end_pauses(0xff, now);  // of a peer that has gone
  // An armed port may have told nobody of the link.
  if (paused_to_look_ > 0) cq_wheel_.schedule(pause_timer_, now);
  if (up) {
    link_seen_ = true;
    link_up_since_ = now;
    limit_held(port_->info(), held_);  // it is the peer that lends
    // Queue pairs that are made from now on know the rate that the link has now.
    config_.params = configured_params_;
    settle_link(port_->info(), &config_.params);
    silent_peers_.forget_all();  // it may have been the link
    nic_part_.on_link_up(now);
    ask_failed_paths(now);
    if (daemon_ != nullptr) follow_rings(true, now);
  }
  // Whoever waited for the link to ask its peer does so now, or does not wait for ever. The process
  // at the other end may be another one, or just have told what it reads.
  qps_.for_each([this, now](QpContext& qp) {
    if (link_up_ && qp.pair.begun()) {
      update_offer(qp);
      qp.pair.tell_again(now);
    }
    if (!qp.pair.next_deadline().is_never() || !qp.waiting_since.is_never()) mark_dirty(qp);
  });
  for (const mprdma_abi_client* client : clients_) {
    raise_event(client, up ? MPRDMA_ABI_EVENT_PORT_ACTIVE : MPRDMA_ABI_EVENT_PORT_ERR, 1);
  }
}

}  // namespace mprdma::dataplane
