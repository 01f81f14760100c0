// ACK clocking and path selection of the sender half (paper 3.2 to 3.5): which packet may leave
// when, and on which path. Under PathPolicy::kSingle nothing here does anything.
#include <algorithm>

#include "transport/stream_sender.hpp"

namespace mprdma::transport {

// What the window allows and no clock stands for: burst control held it back.
uint32_t StreamSender::unclocked_room() const {
  const uint32_t used = in_flight() + paths_.clocks();
  const uint32_t window = window_.packets();
  return used < window ? window - used : 0;
}

// A host that handles acknowledgements in bursts sends after the burst, so what the wire has not
// taken is judged once for each point in time, by what was there before it.
void StreamSender::begin_instant(Time now, bool has_new) {
  if (has_new) last_backlog_ = now;
  if (now != instant_) {
    instant_ = now;
    wire_waits_ = wire_limited_ || paths_.clocks() > kWireBacklogMax;
    if (paths_.clocked()) wire_limited_ = false;
  }
  if (now - round_start_ < srtt()) return;
  round_start_ = now;
  vps_before_ = vps_;
  vps_ = 0;
  if (paths_.clocked()) path_probe_due_ = paths_.chance(params_.path_probe_per_mille);
}

// May an acknowledgement without congestion mark add to the window?
bool StreamSender::may_grow(bool has_new) const {
  if (!params_.limit_growth) return true;
  if (!paths_.clocked()) return window_limited_ && !wire_limited_;
  return (has_new || due_count() > 0) && !wire_waits_;
}

// A path whose packets arrive more than delta behind the furthest one is too slow (paper 3.4).
bool StreamSender::from_slow_path(const wire::MpAckExt& ext) const {
  if (!paths_.clocked() || (ext.flags & wire::kMpAckReTx) != 0) return false;
  return ext.sack.distance_to(ooh_) > static_cast<int32_t>(params_.reorder_delta) + 1;
}

// An acknowledgement that came over `vp` was taken in. The window and the maps know of it.
void StreamSender::clock_out(Time now, uint16_t vp, bool news, bool slow, bool has_new) {
  if (!paths_.clocked()) return;
  burst_base_ = now;
  const bool work = due_count() > 0 || has_new || paper_.has_next() || early_candidate().any();
  const uint32_t room = unclocked_room();
  if (room > 0 && !slow) {
    if (work) {
      // In the paper's recovery the copies do not use room up, so one at a time.
      const uint32_t most = paper_.recovering() ? 1 : kBurstPackets;
      for (uint32_t n = std::min({room, most, paths_.room()}); n > 0; --n) paths_.store(now, vp);
    } else if (news && params_.path_window_reduction) {
      window_.on_unused_ack();
      ++stats_.window_reductions;
      ++counters_->window_reductions;
    }
  }
  settle_clocks(work);
}

// Clocks never exceed what the window leaves, and when nothing is under way no acknowledgement will
// clock anything: the whole window may leave, on random paths.
void StreamSender::settle_clocks(bool work) {
  if (!paths_.clocked()) return;
  const uint32_t used = in_flight() + paths_.clocks();
  const uint32_t window = window_.packets();
  // The paper's timeout sends a whole window, whatever is in flight.
  const bool paper_timeout = paper_.recovering() && paper_.by_timeout();
  if (used > window && !paper_timeout) paths_.drop(std::min(used - window, paths_.clocks()));
  const bool under_way = !idle() && (!params_.sack_map || in_flight() > 0);
  if (under_way || (work && paths_.clocks() > 0)) return;
  paths_.add_random(std::max(unclocked_room(), paths_.clocks() == 0 ? 1u : 0u));
}

void StreamSender::on_backlog(Time now) {
  if (!paths_.clocked()) return;
  if (!has_rtt_) last_backlog_ = now;  // pauses are counted from the beginning
  if (restart_due(now)) {
    window_.reset();
    window_before_timeout_ = window_;  // undoing a timeout must not bring back what was before
    paper_.on_restart();
    paths_.clear();
    last_backlog_ = now;
    ++stats_.restarts;
    ++counters_->window_restarts;
  } else if (params_.window_give_back) {
    window_.give_back();
  } else {
    return;
  }
  paths_.add_random(unclocked_room());
}

bool StreamSender::restart_due(Time now) const {
  if (!has_rtt_) return false;
  const Duration pause = srtt() * kRestartRtts;
  switch (params_.restart) {
    case RestartRule::kNoBacklog:
      return now - last_backlog_ > pause;
    case RestartRule::kIdle:
      return idle() && now - last_progress_ > pause;
    default:
      return false;
  }
}

// The path of a packet that leaves now.
uint16_t StreamSender::take_path(Time now, const Choice& choice) {
  uint16_t vp = 0;
  if (!paths_.clocked() || choice.kind == Choice::Kind::kProbe) {
    vp = paths_.draw();
    stats_.random_paths += paths_.clocked() ? 1 : 0;
  } else {
    PathSelector::Taken taken = paths_.take(now, srtt() * kRestartRtts);
    if (path_probe_due_ && !taken.random) {
      path_probe_due_ = false;
      taken = {paths_.draw(), true};
      ++stats_.path_probes;
      ++counters_->path_probes;
    }
    vp = taken.vp;
    stats_.random_paths += taken.random ? 1 : 0;
  }
  // A multiplicative hash into 64 buckets; for statistics only.
  vps_ |= uint64_t{1} << ((vp * 0x9e3779b1u) >> 26);
  return vp;
}

// When acknowledgements fail to come, what burst control held back leaves on random paths.
Time StreamSender::burst_deadline(bool has_new) const {
  const bool work = has_new || due_count() > 0 || paper_.has_next();
  if (!paths_.clocked() || !work || unclocked_room() == 0) return Time::never();
  return burst_base_ + srtt() / 2;
}

void StreamSender::release_burst(Time now) {
  if (!paths_.clocked() || now < burst_base_ + srtt() / 2) return;
  burst_base_ = now;
  paths_.add_random(unclocked_room());
}

}  // namespace mprdma::transport
