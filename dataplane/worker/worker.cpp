#include "dataplane/worker/worker.hpp"

namespace mprdma::dataplane {

// The host gave the processor to others, although a timer was due.
void Worker::note_missed_turn(Time now) {
  if (listening_since_ == now) return;
  listening_since_ = now;
  ++counters_.turns_missed;
}

bool Worker::run(Time now) {
  now_ = now;
  ++counters_.bursts;
  // Doorbells come before messages, so that a receive posted before its message arrived is found.
  bool worked = doorbells_pending() && process_doorbells(now);
  worked |= receive({port_.get()}, wire_batch_, now) > 0;
  if (daemon_ != nullptr) {
    for (DirectRing* ring : daemon_->rings()) {
      worked |= receive({ring->port.get(), ring}, ring->batch, now) > 0;
    }
  }
  if (loop_.pending()) worked |= receive({&loop_}, loop_batch_, now) > 0;
  wheel_.advance(now, [this, now, &worked](TimerNode& node) {
    auto& qp = *static_cast<QpContext*>(node.owner);
    const Time due = qp.qp.next_deadline();
    if (due <= now) {
      // A deadline of zero means at once (an error is to be cleaned up), and tells of no wait.
      if (due != Time() && now - due >= kMissedTurn) note_missed_turn(now);
      qp.qp.listen_since(listening_since_);
      qp.qp.on_deadline(now, actions_);
      apply_actions(qp, nullptr);
    }
    mark_dirty(qp);  // the timer has to be set anew in any case
    worked = true;
  });
  cq_wheel_.advance(now, [this, &worked](TimerNode& node) {
    worked = true;
    if (&node == &pause_timer_) return end_pauses_due(now_);
    static_cast<Cq*>(node.owner)->expire(counters_);
  });
  if (release_count_ > 0) flush_released();
  if (nic_part_.neighbours_due(now)) [[unlikely]]
    worked |= nic_part_.serve_neighbours(now);
  reschedule_dirty();
  if (negotiating_ != nullptr) [[unlikely]]
    worked |= negotiate(now);
  if (nic_part_.cm_due(now)) [[unlikely]]
    worked |= nic_part_.serve_cm(now);
  burst_was_full_ = false;
  if (wants_wire()) worked |= transmit(now);
  // A request that fails while it is being sent completes without a packet: its event is due, too.
  worked |= dirty_cqs_ != nullptr;
  if (owing_qps_ != nullptr) {
    const uint64_t sent_before = counters_.frames_out;
    send_owed_acks();
    worked |= counters_.frames_out != sent_before;
  }
  if (commit_batches() || worked) {
    port_->flush();
    fire_events();
  } else {
    ++counters_.bursts_idle;
  }
  return worked;
}

void Worker::catch_up(Time now) {
  constexpr int kBursts = 32;
  for (int i = 0; i < kBursts && run(now); ++i) {
  }
}

}  // namespace mprdma::dataplane
