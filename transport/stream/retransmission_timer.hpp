// The retransmission timeout of a stream: RFC 6298 with a floor, doubled at each expiry (design
// 3.1), and limited by the verbs' transport timer (IBTA 9.9.2.1).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.hpp"
#include "transport/core/params.hpp"
#include "transport/stream/rtt_estimator.hpp"

namespace mprdma::transport {

class RetransmissionTimer {
 public:
  // `verbs_timeout` is the value of the transport timer; infinite: there is none. The timeout is at
  // most max(verbs_timeout, kTimeoutLimitMin), whatever RTT one slow path has shown; with back-off
  // it is at most max(verbs_timeout, 2 x the timeout without). So at least one packet is sent for
  // each of the verbs' retries before they are exceeded.
  void limit(Duration verbs_timeout) {
    limit_ = std::max(verbs_timeout, kTimeoutLimitMin);
    backoff_limit_ = verbs_timeout;
  }

  // Silence is counted from `now`.
  void restart(Time now) { base_ = now; }
  void back_off() { ++backoff_; }
  void end_backoff() { backoff_ = 0; }
  // Progress that gives no round trip: of the back-off `before` it, so much stays that the peer is
  // not silent.
  void ease_backoff(uint32_t before) { backoff_ = std::min(before, kEasedBackoff); }

  [[nodiscard]] Time base() const { return base_; }
  // Timeouts in a row.
  [[nodiscard]] uint32_t backoff() const { return backoff_; }
  // The timeout without back-off: max(floor, 4 SRTT, SRTT + 4 RTTVAR). With Params::rto_low it
  // depends on the packets in flight; without a number they are many.
  [[nodiscard]] Duration shortest(const Params& params, const RttEstimator& rtt,
                                  uint32_t in_flight = UINT32_MAX) const {
    const Duration variance = params.adapt_timeout ? rtt.with_variance() : Duration::zero();
    if (params.rto_low != Duration::zero()) [[unlikely]] {
      const bool few = in_flight <= kRtoLowPackets;
      return std::min(std::max(few ? params.rto_low : params.rto_high, variance), limit_);
    }
    return std::min(std::max({params.rto_floor, rtt.srtt() * 4, variance}), limit_);
  }
  [[nodiscard]] Duration timeout(const Params& params, const RttEstimator& rtt,
                                 uint32_t in_flight) const {
    const Duration base = shortest(params, rtt, in_flight);
    const uint32_t shift = std::min(backoff_, kBackoffShiftMax);
    Duration ceiling = params.rto_ceiling;
    if (silent() && ceiling < kSilentCeiling) {
      ceiling = std::min(ceiling * (int64_t{1} << (shift - kSilentAfter + 1)), kSilentCeiling);
    }
    return std::min({base * (int64_t{1} << shift), std::max(base, ceiling),
                     std::max(base * 2, backoff_limit_)});
  }
  // So many timeouts came in a row that the peer seems gone: one packet at a time asks for it, ever
  // more rarely, as the ceiling doubles from here on. A short one would fill the network.
  [[nodiscard]] bool silent() const { return backoff_ >= kSilentAfter; }

 private:
  // A timeout is doubled at most this often.
  static constexpr uint32_t kBackoffShiftMax = 16;
  static constexpr uint32_t kSilentAfter = 8;
  // Sixteen times the shortest timeout are above every round trip that it was meant for.
  static constexpr uint32_t kEasedBackoff = 4;
  static constexpr Duration kSilentCeiling = Duration::ms(500);

  Time base_;
  uint32_t backoff_ = 0;
  Duration limit_ = Duration::infinite();
  Duration backoff_limit_ = Duration::infinite();
};

}  // namespace mprdma::transport
