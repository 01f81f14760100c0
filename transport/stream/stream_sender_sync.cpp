// Synchronise operations at the sender (paper 3.5): how long they stay behind earlier packets, and
// how they are sent again after the receiver refused them.
#include "transport/stream/stream_sender.hpp"

namespace mprdma::transport {

Duration StreamSender::sync_delay() const {
  // Both factors have 16 fraction bits, which cancel; srtt < 2^31, delta <= 2^11, alpha <= 2^20.
  const int64_t scaled = srtt().count_ns() * reorder_delta_ * params_.sync_alpha.raw();
  return Duration::ns(scaled / window_.exact().raw());
}

// A synchronise operation behind a packet that is missing at the receiver can only be refused, and
// so can the next one: without this wait the network carries little but repetitions
// (docs/algorithms.md, "Synchronise").
Time StreamSender::sync_release() const {
  if (idle()) return Time();
  return board_.lost_count() == 0 ? last_sent_ + sync_delay() : Time::never();
}

// The receiver dropped a packet of a synchronise operation because an earlier packet is still
// missing there. The packet is sent again a little later; as this is no loss, the window stays.
void StreamSender::defer(Time now, Psn aack, Psn psn) {
  if (!board_.outstanding(psn) || board_.arrived(psn)) return;
  undo_.forget(psn);  // this copy is gone, also if the timeout was too early
  if (!refused_ || psn.before(*refused_)) set_refused(psn);
  if (board_.lost(psn)) return;
  // The receiver has the head of line and does not advance: it was not ready, and its RNR NAK was
  // lost. No other packet in flight may ask again.
  if (una() == aack && board_.arrived(una()) && !board_.resent(una())) {
    ask_head();
  }
  if (board_.held_count() == 0) deferred_until_ = now + sync_delay();
  board_.hold(psn);
  ++counters_->retransmitted_sync;
  ++stats_.retransmitted_sync;
  if (trace_.on()) [[unlikely]] {
    raise(now, TraceKind::refused, psn);
  }
  if (board_.held_is_next()) release_deferred();
}

// Together: one by one, a delay apart, figures 18 and 19 differ no more than their runs do. What
// ends the refusals is that new operations wait (sync_release()).
void StreamSender::release_deferred() {
  board_.release_all();
}

}  // namespace mprdma::transport
