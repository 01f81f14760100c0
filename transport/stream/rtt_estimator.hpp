// Round-trip time of a stream: SRTT and RTTVAR as in TCP (RFC 6298, 2). An acknowledgement echoes
// the timestamp of the very copy that arrived, so retransmissions give valid samples, too.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "base/units.hpp"
#include "wire/mp_ack_ext.hpp"

namespace mprdma::transport {

class RttEstimator {
 public:
  // `initial`: SRTT before the first sample.
  explicit RttEstimator(Duration initial) : srtt_ns_(initial.count_ns()) {}

  // `echo`: the low 32 bits of the time, ns, when the copy left; `kept_us`: how long the receiver
  // says that it kept the acknowledgement, as in wire::MpAckExt. Returns the sample; zero if it is
  // ignored, because the echo is of another clock, or nobody knows how long it was kept.
  Duration on_echo(Time now, uint32_t echo, uint32_t kept_us = 0) {
    uint32_t sample_ns = static_cast<uint32_t>(now.ns()) - echo;
    if (!is_sample(sample_ns, kept_us)) return Duration::zero();
    note_largest(now, sample_ns);
    sample_ns = without_wait(sample_ns, kept_us);
    add(sample_ns);
    return Duration::ns(sample_ns);
  }
  // The sample of on_echo() alone.
  static Duration sample_of(Time now, uint32_t echo, uint32_t kept_us) {
    const uint32_t sample_ns = static_cast<uint32_t>(now.ns()) - echo;
    if (!is_sample(sample_ns, kept_us)) return Duration::zero();
    return Duration::ns(without_wait(sample_ns, kept_us));
  }

  // True once there was a sample.
  [[nodiscard]] bool measured() const { return measured_; }
  // Below 2^31 ns once measured.
  [[nodiscard]] Duration srtt() const { return Duration::ns(srtt_ns_); }
  // SRTT + 4 RTTVAR.
  [[nodiscard]] Duration with_variance() const { return Duration::ns(srtt_ns_ + 4 * rttvar_ns_); }
  // The largest sample of the last 8 to 16 round trips, over all paths, with the time that the
  // receiver kept the acknowledgement.
  [[nodiscard]] Duration largest() const {
    return Duration::ns(std::max(largest_ns_, largest_before_ns_));
  }
  // The least sample of all.
  [[nodiscard]] Duration least() const { return Duration::ns(least_ns_); }
  // True if the first sample is younger than 8 round trips: little is known yet.
  [[nodiscard]] bool cold() const { return periods_ < 2; }

  // SRTT alone, as hardware has kept it (offload_context.hpp).
  void load(Duration srtt, bool measured) {
    srtt_ns_ = srtt.count_ns();
    measured_ = measured;
  }

 private:
  static constexpr int64_t kPeriodRtts = 8;
  static constexpr int64_t kSrttWeight = 8;
  static constexpr int64_t kRttvarWeight = 4;

  static bool is_sample(uint32_t sample_ns, uint32_t kept_us) {
    return sample_ns <= static_cast<uint32_t>(INT32_MAX) && kept_us < wire::kMpAckDelayMax;
  }
  // A peer may claim more than there was.
  static uint32_t without_wait(uint32_t sample_ns, uint32_t kept_us) {
    const uint32_t kept_ns = kept_us * 1000;
    return kept_ns < sample_ns ? sample_ns - kept_ns : sample_ns;
  }
  void note_largest(Time now, uint32_t sample_ns) {
    if (now - period_start_ >= Duration::ns(srtt_ns_ * kPeriodRtts) || !measured_) [[unlikely]] {
      period_start_ = now;
      periods_ = static_cast<uint8_t>(periods_ < 2 ? periods_ + 1 : 2);
      largest_before_ns_ = largest_ns_;
      largest_ns_ = sample_ns;
      return;
    }
    if (sample_ns > largest_ns_) largest_ns_ = sample_ns;
  }
  void add(int64_t sample_ns) {
    if (sample_ns < least_ns_) least_ns_ = sample_ns;
    if (!measured_) {
      measured_ = true;
      srtt_ns_ = sample_ns;
      rttvar_ns_ = sample_ns / 2;
      return;
    }
    const int64_t error_ns = std::abs(sample_ns - srtt_ns_);
    rttvar_ns_ += (error_ns - rttvar_ns_) / kRttvarWeight;
    srtt_ns_ += (sample_ns - srtt_ns_) / kSrttWeight;
  }

  int64_t srtt_ns_;
  int64_t rttvar_ns_ = 0;
  Time period_start_;
  int64_t least_ns_ = INT64_MAX;
  uint32_t largest_ns_ = 0;  // of this period of kPeriodRtts
  uint32_t largest_before_ns_ = 0;
  uint8_t periods_ = 0;  // begun, counted to 2
  bool measured_ = false;
};

}  // namespace mprdma::transport
