// Synchronise operations at the sender (paper 3.5): how long they stay behind what they follow, and
// what becomes of those that the receiver refused.
#include "transport/stream_sender.hpp"

namespace mprdma::transport {

Duration StreamSender::sync_delay() const {
  // Both factors have 16 fraction bits, which cancel; srtt < 2^31, delta <= 2^7, alpha <= 2^20.
  const int64_t scaled = srtt_ns_ * params_.reorder_delta * params_.sync_alpha.raw();
  return Duration::ns(scaled / window_.exact().raw());
}

// Behind what is missing at the receiver it could only be refused, and so could the next: without
// this the network carries little but repeats (docs/algorithms.md, "Synchronise").
Time StreamSender::sync_release() const {
  if (idle()) return Time();
  return lost_count_ == 0 ? last_sent_ + sync_delay() : Time::never();
}

// The receiver dropped a packet of a synchronise operation because something before it is still
// missing there. It is sent again a little later; nothing is wrong, so nothing else happens.
void StreamSender::defer(Time now, Psn aack, Psn psn) {
  if (!outstanding(psn) || sacked_.test(psn.value())) return;
  timed_out_.clear(psn.value());  // this copy is gone, also if the timeout was too early
  if (lost_.test(psn.value())) return;
  // The receiver has the head of line and does not move: it was not ready, and its word of that
  // was lost. Nothing else may be under way that would ask.
  if (una_ == aack && sacked_.test(una_.value()) && !recent(una_)) probe_due_ = probe_head_ = true;
  if (deferred_count_ == 0) deferred_until_ = now + sync_delay();
  lost_.set(psn.value());
  ++lost_count_;
  deferred_.set(psn.value());
  ++deferred_count_;
  ++counters_->retransmitted_sync;
  ++stats_.retransmitted_sync;
  if (deferred_is_next()) release_deferred(now);
}

// Everything before the first refused operation has arrived, if snd_una is at its first packet or
// in it: then it cannot be refused again.
bool StreamSender::deferred_is_next() const {
  const auto before = static_cast<uint32_t>(una_.distance_to(first_deferred()));
  return followers_.next_set(una_.value() + 1, before) == before;
}

// The delay is over at a time: everything before the first refused operation has been sent again.
// What comes after it must not matter: the receiver may drop that for want of this.
bool StreamSender::deferral_runs() const {
  if (deferred_count_ == 0) return false;
  const auto before = static_cast<uint32_t>(una_.distance_to(first_deferred()));
  return lost_.next_set(una_.value(), before) == before;
}

// Of what was refused the first operation goes again, and the next one a delay after it, as new
// ones do: the delay is what gives those before it the time to arrive.
void StreamSender::release_deferred(Time now) {
  Psn psn = first_deferred();
  do {
    if (deferred_.test(psn.value())) --deferred_count_;
    deferred_.clear(psn.value());
    ++psn;
  } while (psn.before(nxt_) && !followers_.test(psn.value()));
  deferred_until_ = now + sync_delay();
}

}  // namespace mprdma::transport
