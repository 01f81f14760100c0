// What the sender takes back: packets and timeouts that an acknowledgement of the original shows to
// have been none.
#include "transport/stream/stream_sender.hpp"

namespace mprdma::transport {

// The packet had not been lost. What a timeout took is no matter of single packets.
void StreamSender::undo_loss(Time now, Psn psn) {
  if (!board_.forgive(psn)) return;
  ++counters_->losses_undone;
  ++stats_.losses_undone;
  window_.on_loss_undone();
  if (trace_.on()) [[unlikely]] {
    raise(now, TraceKind::undone, psn, "loss");
  }
}

// Judges the timeout by an acknowledgement of a packet that was outstanding then. A packet that was
// SACKed before proves nothing, because networks duplicate packets.
void StreamSender::judge_timeout(Time now, const wire::MpAckExt& ext) {
  const bool known = board_.sacked(ext.sack) && !board_.given_up(ext.sack);
  if (!undo_.covers(ext.sack) || known) return;
  if ((ext.flags & wire::kMpAckReTx) == 0) undo_timeout(now);
  undo_.close();
}

void StreamSender::undo_timeout(Time now) {
  ++counters_->timeouts_undone;
  ++stats_.timeouts_undone;
  window_ = undo_.window_before();
  settle_plain();
  // What was charged since has come back with it; what was charged before is not given back.
  board_.forgive_all();
  if (window_max_ != params_.window_max) follow(window_max_);
  for (Psn psn = una(); psn.before(nxt()); ++psn) {
    if (undo_.lost_by_timeout(psn)) board_.found(psn);
  }
  if (trace_.on()) [[unlikely]] {
    raise(now, TraceKind::undone, una(), "timeout");
  }
}

}  // namespace mprdma::transport
