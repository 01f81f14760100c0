// The timers of the sender half. None is armed by hand: each follows from the state of the stream,
// so that no event can forget to move one.
#include <algorithm>

#include "transport/stream/stream_sender.hpp"

namespace mprdma::transport {

Duration StreamSender::base_rto() const {
  return rto_.shortest(params_, rtt_);
}

Duration StreamSender::probe_timeout() const {
  const Duration variance = params_.adapt_timeout ? rtt_.with_variance() : Duration::zero();
  return std::max({params_.probe_floor, srtt() * 2, variance});
}

// When a timer of a stream that is neither idle nor paused expires; never: it does not run.
template <StreamSender::Timer kTimer>
Time StreamSender::expiry(bool has_new) const {
  if constexpr (kTimer == Timer::kDeferral) {
    return deferral_runs() ? deferred_until_ : Time::never();
  } else if constexpr (kTimer == Timer::kBurst) {
    if (!gate_.clocked() || !(has_new || has_due())) return Time::never();
    return gate_.deadline(facts_of_silence(), srtt() / 2);
  } else if constexpr (kTimer == Timer::kTimeout) {
    return only_deferred() ? Time::never() : rto_.base() + rto();
  } else {
    static_assert(kTimer == Timer::kProbe);
    const bool runs = params_.tail_probe && !probe_.done && !only_deferred();
    return runs ? rto_.base() + probe_timeout() : Time::never();
  }
}

template <StreamSender::Timer kTimer>
void StreamSender::expire(Time now) {
  if constexpr (kTimer == Timer::kDeferral) {
    if (only_deferred()) rto_.restart(now);
    release_deferred(now);
    gate_.update(facts(), true);
  } else if constexpr (kTimer == Timer::kBurst) {
    late_.forget(una());
    gate_.on_deadline(now, facts(), srtt() / 2);
  } else if constexpr (kTimer == Timer::kTimeout) {
    on_timeout(now);
  } else {
    static_assert(kTimer == Timer::kProbe);
    probe_.done = probe_.due = true;
  }
}

Time StreamSender::next_deadline(bool has_new) const {
  if (idle()) return Time::never();
  if (paused()) return paused_until_;
  return std::min({expiry<Timer::kDeferral>(has_new), expiry<Timer::kBurst>(has_new),
                   expiry<Timer::kTimeout>(has_new), expiry<Timer::kProbe>(has_new)});
}

// In the order of Timer: a timer that expires may stop those behind it.
void StreamSender::on_deadline(Time now) {
  if (idle()) return;
  if (paused()) return end_pause(now);
  if (now >= expiry<Timer::kDeferral>(true)) expire<Timer::kDeferral>(now);
  if (now >= expiry<Timer::kBurst>(true)) expire<Timer::kBurst>(now);
  if (now >= expiry<Timer::kTimeout>(true)) expire<Timer::kTimeout>(now);
  if (now >= expiry<Timer::kProbe>(true)) expire<Timer::kProbe>(now);
}

// The receiver was not ready: the head of line asks it again.
void StreamSender::end_pause(Time now) {
  if (now < paused_until_) return;
  paused_until_ = Time::never();
  rto_.restart(now);
  probe_.due = probe_.head = true;
}

}  // namespace mprdma::transport
