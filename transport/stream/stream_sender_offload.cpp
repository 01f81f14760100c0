// A stream moves into hardware and back (offload_context.hpp).
#include "base/check.hpp"
#include "transport/stream/offload_fields.hpp"
#include "transport/stream/stream_sender.hpp"

namespace mprdma::transport {

namespace {

// A time, and the flag that says that it is older than the range.
uint32_t stored(Time now, Time time, uint8_t old, uint8_t* flags) {
  if (now.ns() / kOffloadUnitNs - time.ns() / kOffloadUnitNs >= kOffloadRange) {
    *flags |= old;
    return 0;
  }
  return offload_units(time);
}

// The latest time before `now` that is stored like this; one that is old is the range ago.
Time loaded(Time now, uint32_t time, bool old) {
  const int64_t unit = now.ns() / kOffloadUnitNs;
  return Time::from_ns(unit * kOffloadUnitNs) - offload_since(now, time, old);
}

}  // namespace

bool StreamSender::fits_offload() const {
  const bool waits = paused() || asking_ || refused_;
  return mprdma::transport::fits_offload(params_) && !waits && board_.fits_offload();
}

std::optional<OffloadContext> StreamSender::to_offload(Time now) const {
  return fits_offload() ? std::optional(stored_context(now)) : std::nullopt;
}

// Requires parameters of hardware, and no packet that waits.
OffloadContext StreamSender::stored_context(Time now) const {
  const AckClock* const clock = gate_.ack_clock();
  OffloadContext out;
  out.window_raw = window_.exact().raw();
  out.owed_raw = saturated_bytes(window_.owed().raw(), 3);
  board_.store(out);
  out.credits = static_cast<uint8_t>(saturated_bytes(clock->credits(), 1));
  out.srtt_ns = saturated_bytes(static_cast<uint64_t>(srtt().count_ns()), 3);
  out.round_start = stored(now, round_.start, OffloadContext::kRoundOld, &out.flags);
  out.epoch_start = stored(now, board_.epoch_start(), OffloadContext::kEpochOld, &out.flags);
  out.last_ack = stored(now, clock->burst_base(), OffloadContext::kAckOld, &out.flags);
  out.last_congestion = stored(now, last_congestion_, OffloadContext::kCongestionOld, &out.flags);
  if (round_.explore) out.flags |= OffloadContext::kPathProbeDue;
  if (rtt_.measured()) out.flags |= OffloadContext::kRttKnown;
  if (probe_.due > 0) out.flags |= OffloadContext::kProbes;
  if (probe_.head) out.flags |= OffloadContext::kAsksHead;
  return out;
}

void StreamSender::from_offload(Time now, const OffloadContext& context, const RoceSender& roce,
                                const Prng& paths) {
  const RetransmissionTimer limited = rto_;
  const uint32_t path_mtu = path_mtu_;
  reset(roce.una, wire::kVirtualPathMin, paths);
  rto_ = limited;
  path_mtu_ = path_mtu;
  load_context(now, context, roce);
}

// Requires that nothing is outstanding at snd_una.
void StreamSender::load_context(Time now, const OffloadContext& context, const RoceSender& roce) {
  AckClock* const clock = gate_.ack_clock();
  CHECK(clock != nullptr);
  const auto is = [&](uint8_t flag) { return (context.flags & flag) != 0; };
  const auto load_time = [&](uint32_t stored, uint8_t old) { return loaded(now, stored, is(old)); };
  window_.load(Fixed16::from_raw(context.window_raw), Fixed16::from_raw(context.owed_raw));
  board_.load(context, roce.nxt, load_time(context.epoch_start, OffloadContext::kEpochOld));
  clock->load(context.credits, load_time(context.last_ack, OffloadContext::kAckOld));
  rtt_.load(Duration::ns(context.srtt_ns), is(OffloadContext::kRttKnown));
  round_.start = load_time(context.round_start, OffloadContext::kRoundOld);
  round_.explore = is(OffloadContext::kPathProbeDue);
  last_congestion_ = load_time(context.last_congestion, OffloadContext::kCongestionOld);
  probe_.due = is(OffloadContext::kProbes) ? 1 : 0;
  probe_.head = is(OffloadContext::kAsksHead);
  probe_.rounds = kProbeRounds;  // what is due but the head is the try after timeouts
  rto_.end_backoff();
  rto_.restart(roce.silent_since);
  for (uint32_t i = 0; i < roce.backoff; ++i) rto_.back_off();
  last_progress_ = roce.last_progress;
}

}  // namespace mprdma::transport
