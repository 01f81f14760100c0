// The common case of the sender half in one piece (as the header prediction of TCP, Jacobson 1990):
// a new packet leaves, or an acknowledgement of the next packets in order arrives, while nothing is
// lost, out of order, refused, asked for or to be undone.
//
// Invariant: every function here leaves the stream as the general one would (stream_sender.cpp,
// stream_sender_credits.cpp).
#include <algorithm>

#include "transport/path/echoed_path.hpp"
#include "transport/stream/stream_sender_steady.hpp"

namespace mprdma::transport {

// What the ACK clock asks (send_gate.hpp), where no packet is lost or SACKed.
struct StreamSender::SteadyFacts {
  const StreamSender& sender;
  [[nodiscard]] uint32_t in_flight() const { return sender.board_.span(); }
  [[nodiscard]] uint32_t window() const { return sender.window_.packets(); }
  [[nodiscard]] bool idle() const { return sender.idle(); }
  [[nodiscard]] bool exact() const { return true; }
  [[nodiscard]] bool exceeds_window() const { return false; }
};

void StreamSender::begin_flight(Time now) {
  rto_.restart(now);
  last_progress_ = now;
  board_.begin_epoch(now);
  recovery_.on_begin(una());
  use_.began = una();
  probe_ = {.patience = patience()};
}

// A run is taken packet by packet; where a packet in its middle changes nothing but snd_una, the
// last one follows at once.
void StreamSender::take_steady(Time now, const SteadyAck& ack, bool has_new) {
  begin_instant(now);
  AckClock* const clock = gate_.ack_clock();
  RecycledPaths* const recycled = paths_.as<RecycledPaths>();
  const Psn from = una();
  cc::AckSample sample{.now = now, .vp = echoed_path(ack.vp)};
  for (uint32_t left = ack.run + 1; left-- > 0;) {
    const bool as_before = !use_.wire_limited;  // the next one finds the same
    sample.limited_by = limited_by(has_new, Lag::kSmall);
    if (left == 0) sample.rtt = rtt_.on_echo(now, ack.echoed_timestamp, ack.delay_us);
    sample.packets = board_.advance(ack.aack - left);
    const bool grows = sample.may_grow() && window_.packets() < window_max_;
    if (grows) {
      sample.in_flight = board_.span();
      window_.on_ack(sample);
    }
    use_.wire_limited = false;
    board_.roll_epoch(now, srtt(), false);
    if (recycled != nullptr) recycled->on_ack({.vp = sample.vp});
    if (clock != nullptr) {
      grant_steady({.now = now, .rtt = sample.rtt, .vp = sample.vp}, *clock, has_new);
    } else if (as_before && !grows) {
      left = std::min(left, 1U);
    }
  }
  undo_.on_advance(from, ack.aack);
  on_progress(now);
}

// grant_credits() of one packet.
inline void StreamSender::grant_steady(const PathSample& ack, AckClock& clock, bool has_new) {
  const SteadyFacts facts{*this};
  const bool keep = keeps_path(clock.pathless());
  const uint16_t own = keep ? uint16_t{0} : ack.vp;
  const bool room = clock.on_ack(ack.now, own, facts, has_new ? kBurstPackets : 0);
  if (!has_new || (keep && room)) note_spare(ack);
  if (room && !has_new && params_.path_window_reduction) {
    window_.on_unused_ack();
    ++stats_.window_reductions;
    ++counters_->window_reductions;
  }
  clock.update(facts, has_new);
}

}  // namespace mprdma::transport
