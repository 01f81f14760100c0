// Pauses of the port's peer (wire/pause_frame.hpp): data of a priority waits until its pause ends.
//
// A packet has the priority of its DSCP, unless the configuration names one for all, as for a port
// whose VLAN tag says it. A queue pair that meets a pause is parked, so that those of other
// priorities go on. That costs a packet no instruction, and a queue pair's turn and a post two;
// while a priority is paused, posts take the general way.
//
// Acknowledgements and what else answers leave all the same. The engine has no queue in which they
// could wait, as a network card has; dropped ones would cost their sender what PFC is to save; and
// they are a fiftieth of the bytes that they answer, which the headroom of a switch takes.
// Direct rings, the loopback and other processes of the device are no part of the link.
#include <algorithm>
#include <array>
#include <cstring>

#include "dataplane/worker/worker.hpp"

namespace mprdma::dataplane {

namespace {

constexpr uint8_t bit(unsigned priority) {
  return static_cast<uint8_t>(1U << priority);
}

}  // namespace

// False: the frame is not of MAC Control.
bool Worker::receive_pause(const RxFrame& frame, Time now) {
  // The peer may still write the frame.
  std::array<unsigned char, wire::kMinFrameBytes> bytes;
  const size_t copied = std::min<size_t>(frame.length, bytes.size());
  std::memcpy(bytes.data(), frame.data, copied);
  if (!wire::PauseFrame::is_on(bytes.data(), copied)) return false;
  wire::PauseFrame pause;
  const uint8_t ours = config_.pfc_priority ? bit(*config_.pfc_priority) : 0xff;
  if (wire::PauseFrame::parse({bytes.data(), copied}, pause) != wire::PauseDrop::kNone) {
    ++counters_.drop_bad_pause;
  } else if (!config_.pfc || !pause.concerns(ours)) {
    ++counters_.pfc_ignored;
  } else {
    pause.priorities &= ours;
    obey_pause(pause, now);
  }
  return true;
}

void Worker::obey_pause(const wire::PauseFrame& pause, Time now) {
  ++counters_.pfc_received;
  const uint64_t rate = uint64_t{config_.params.link_mbps} * 1'000'000;
  uint8_t begun = 0;
  for (unsigned p = 0; p < pause.quanta.size(); ++p) {
    if (!pause.concerns(bit(p)) || pause.quanta[p] == 0) continue;
    begun |= bit(p);
    paused_until_[p] = now + wire::pause_time(pause.quanta[p], rate);
  }
  const auto ended = static_cast<uint8_t>(pause.priorities & ~begun);
  end_pauses(ended, now);
  if (paused_ == 0) paused_since_ = now;
  paused_ |= begun;
  end_pauses_due(now);
}

// Ends the pauses whose time is over, and sets the timer for the next one.
void Worker::end_pauses_due(Time now) {
  uint8_t over = 0;
  Time next = Time::never();
  for (unsigned p = 0; p < paused_until_.size(); ++p) {
    if ((paused_ & bit(p)) == 0) continue;
    if (paused_until_[p] <= now) {
      over |= bit(p);
    } else {
      next = std::min(next, paused_until_[p]);
    }
  }
  end_pauses(over, now);
  if (!next.is_never()) cq_wheel_.schedule(pause_timer_, next);
}

void Worker::end_pauses(uint8_t priorities, Time now) {
  if (paused_ == 0) return;
  // Two threads that take turns may read the clock in the other order.
  const Duration lasted = std::max(now - paused_since_, Duration::zero());
  counters_.pfc_paused_us += static_cast<uint64_t>(lasted.count_ns()) / 1000;
  paused_since_ = now;
  if ((paused_ & priorities) == 0) return;
  paused_ &= static_cast<uint8_t>(~priorities);
  if (paused_ == 0) cq_wheel_.cancel(pause_timer_);
  paused_to_look_ = paused_qps_.size();
}

// Those that wait for the end of a pause are looked at when one ends, or when something else has
// changed with them, and not before.
void Worker::park_for_pause(QpContext& qp) {
  if (qp.active) return;
  qp.held |= QpContext::kPaused;
  paused_qps_.push(qp);
}

void Worker::unpause_some() {
  paused_to_look_ = std::min(paused_to_look_, paused_qps_.size());  // some may have gone
  for (unsigned left = kTxPerBurst; left > 0 && paused_to_look_ > 0; --left, --paused_to_look_) {
    QpContext& qp = *paused_qps_.pop();
    if (waits_for_pause(qp)) {
      paused_qps_.push(qp);
      continue;
    }
    qp.held &= static_cast<uint8_t>(~QpContext::kPaused);
    scheduler_.push(qp);
  }
}

// Something has changed with a paused queue pair: it has room in its window, which it does not use,
// or its peer cannot be reached any more.
void Worker::look_at_paused(QpContext& qp) {
  if (waits_for_pause(qp)) {
    qp.qp.on_back_pressure();
  } else {
    unpark(qp);
  }
}

bool Worker::pause_stops(const wire::FrameTemplate& outer) const {
  const wire::FrameAddress& to = outer.address();
  const unsigned priority = config_.pfc_priority.value_or(wire::priority_of(to.dscp));
  return (paused_ & bit(priority)) != 0 && !is_own(to.dst_ip);
}

// What the queue pair sends next waits for the end of a pause.
bool Worker::waits_for_pause(const QpContext& qp) const {
  if (paused_ == 0) return false;
  if (qp.qp.service() != transport::QpService::kUd) {
    return qp.path == PathState::kReady && qp.ring == nullptr && !qp.loop && pause_stops(qp.outer);
  }
  if (!qp.qp.wants_to_send()) return false;
  const AddressHandle* ah = ahs_.find(qp.qp.next_ah());
  return ah != nullptr && ah->pd == qp.pd && ah->path == PathState::kReady && !ah->loop &&
         pause_stops(ah->outer);
}

}  // namespace mprdma::dataplane
