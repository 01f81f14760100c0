// A stream whose sending half a device keeps (hardware.hpp): it is asked at every event, and what
// it answers is kept, so that all else of the stream finds the state where it always is. Waits for
// a receiver that is not ready are software's, and so is the transport timer, as a RoCE connection
// has both.
#include <algorithm>

#include "transport/stream/stream_sender.hpp"

namespace mprdma::transport {

namespace {

using Kind = HardwareSender::Kind;

// Times of the context come round after 1.07 s. A device marks them as old before that; here the
// first event after a silence does.
constexpr Duration kSweep = Duration::ms(500);

OffloadPacketOut::Kind kind_of(StreamSender::Choice::Kind kind) {
  using From = StreamSender::Choice::Kind;
  if (kind == From::kNew) return OffloadPacketOut::Kind::kNew;
  return kind == From::kProbe ? OffloadPacketOut::Kind::kProbe : OffloadPacketOut::Kind::kCopy;
}

}  // namespace

void StreamSender::attach(HardwareSender* half) {
  if (half != nullptr && !mprdma::transport::fits_offload(params_)) return;
  hardware_ = half;
  // The common case is the device's, too.
  if (half != nullptr) plain_kind_ = false;
  settle_plain();
}

// Gives the device the state as it is.
void StreamSender::load_hardware(Time now) {
  hardware_->load(now, {stored_context(now), una(), nxt(), rto_.backoff()});
  hardware_->told_at = now;
}

HardwareSender::Answer StreamSender::ask_hardware(HardwareSender::Event event) {
  if (event.now - hardware_->told_at >= kSweep) load_hardware(event.now);
  hardware_->told_at = event.now;
  ++counters_->hardware_events;
  event.explore = paths_.chance(params_.path_probe_per_mille);
  event.path = paths_.draw(event.now);
  return hardware_->step(event);
}

void StreamSender::keep_answer(Time now, const HardwareSender::Answer& answer) {
  const HardwareSender::State& state = answer.state;
  const bool advanced = una().before(state.una);
  const RoceSender roce{.una = state.una,
                        .nxt = state.nxt,
                        .silent_since = answer.restarts ? now : rto_.base(),
                        .backoff = state.backoff,
                        .last_progress = answer.progresses ? now : last_progress_};
  board_ = Scoreboard(board_.span_max(), state.una);
  recovery_.reset(state.una);
  load_context(now, state.context, roce);
  if (!advanced) return;
  set_asking(false);
  paused_until_ = Time::never();  // the receiver went on: it is ready again
}

// A run is taken apart, as in software; only the last one gives a round trip.
StreamSender::AckResult StreamSender::hardware_acks(Time now, const wire::Packet& ack,
                                                    bool has_new) {
  const wire::MpAckExt& ext = ack.mp_ack;
  heard_ = true;
  OffloadAck one{.aack = ack.psn,
                 .sack_valid = (ext.flags & wire::kMpAckSackValid) != 0,
                 .sack = ext.sack,
                 .nack = ext.nack,
                 .ece = (ext.flags & wire::kMpAckEce) != 0,
                 .copy = (ext.flags & wire::kMpAckReTx) != 0,
                 .sample = true,
                 .echoed_timestamp = ext.echoed_timestamp,
                 .delay_us = ext.delay_us,
                 .vp = ack.vp};
  if (ext.run == 0) return hardware_ack(now, one, has_new);
  AckResult result = AckResult::kGhost;
  for (uint32_t left = ext.run + 1U; left-- > 0;) {
    one.sack = ext.sack - left;
    one.aack = one.sack + 1;
    one.sample = left == 0;
    result = std::max(result, hardware_ack(now, one, has_new));
  }
  return result;
}

StreamSender::AckResult StreamSender::hardware_ack(Time now, const OffloadAck& ack, bool has_new) {
  const HardwareSender::Answer answer =
      ask_hardware({.kind = Kind::kAck, .now = now, .has_new = has_new, .ack = ack});
  if (answer.refused) return AckResult::kGhost;
  keep_answer(now, answer);
  const bool progress = answer.progresses || answer.restarts;
  return progress ? AckResult::kProgress : AckResult::kStale;
}

// No packet is named, and no path.
void StreamSender::hardware_implied_ack(Time now, Psn aack) {
  heard_ = true;
  OffloadAck ack;
  ack.aack = aack;
  hardware_ack(now, ack, true);
}

void StreamSender::hardware_event(Time now, Kind kind, bool has_new) {
  keep_answer(now, ask_hardware({.kind = kind, .now = now, .has_new = has_new}));
}

uint16_t StreamSender::hardware_sent(Time now, const Choice& choice) {
  const bool is_new = choice.kind == Choice::Kind::kNew;
  const HardwareSender::Answer answer =
      ask_hardware({.kind = Kind::kNext, .now = now, .has_new = is_new});
  if (!answer.packet || answer.packet->kind != kind_of(choice.kind) ||
      answer.packet->psn != choice.psn) {
    // It has lost its way. The stream has not: it goes on in software, from what was answered last.
    ++counters_->hardware_left;
    hardware_ = nullptr;
    return on_sent(now, choice);
  }
  keep_answer(now, answer);
  ++counters_->packets_sent;
  ++stats_.packets_sent;
  if (!is_new) {
    ++counters_->packets_retransmitted;
    ++stats_.retransmitted;
  }
  if (choice.kind == Choice::Kind::kProbe) ++stats_.retransmitted_probe;
  last_sent_ = now;
  note_path_of(choice.psn, answer.packet->vp);
  return note_path(answer.packet->vp);
}

}  // namespace mprdma::transport
