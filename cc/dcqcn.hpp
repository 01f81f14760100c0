// DCQCN (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section
// 3.1): events in, a sending rate out. Integers only. Pure: time is an argument; no packets.
//
//   CNP                R_T = R_C;  R_C = R_C (1 - alpha / 2);  alpha = (1 - g) alpha + g       (1)
//   no CNP for K       alpha = (1 - g) alpha                                                   (2)
//   timer, or B bytes  fast recovery, the first F times:    R_C = (R_T + R_C) / 2              (3)
//                      additive increase, from then on:     R_T += R_AI, then as above         (4)
//                      hyper increase, timer and counter:   R_T += R_HAI, then as above
//
// The timer and the byte counter count their expiries separately, T and BC, both from the last CNP.
// Fast recovery while max(T, BC) < F, hyper increase once min(T, BC) > F; where a preset has no
// byte counter, T alone decides.
//
// A flow begins at the rate of its link, without limit, and with alpha = 1. It is limited from its
// first CNP until R_C and R_T are back at the link's rate; meanwhile next_increase() is a deadline
// of the caller's, or is served late: the outcome is the same once on_time() was called. alpha is
// computed when a CNP asks for it.
//
// Invariants: rate_min <= R_C <= link rate; R_C <= R_T <= link rate; 0 <= alpha <= 1.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.hpp"
#include "base/units.hpp"
#include "cc/dcqcn_presets.hpp"

namespace mprdma::cc {

class Dcqcn {
 public:
  static constexpr uint64_t kLinkMaxBps = uint64_t{1} << 40;
  // alpha and g are parts of 2^24.
  static constexpr uint32_t kOne = 1U << 24;

  // Begins unlimited, at a link of the rate `link_bps`.
  void reset(const DcqcnConstants& constants, uint64_t link_bps) {
    CHECK(link_bps > 0 && link_bps <= kLinkMaxBps);
    const auto grown = [&](uint64_t at_reference) {
      return std::max<uint64_t>(dcqcn_scaled(at_reference, link_bps, constants.reference_bps), 1);
    };
    constants_ = &constants;
    link_bps_ = link_bps;
    additive_bps_ = grown(constants.additive_bps);
    hyper_bps_ = grown(constants.hyper_bps);
    rate_min_bps_ = std::min(constants.rate_min_bps, link_bps);
    alpha_ = kOne;
    alpha_at_ = Time::never();
    release();
  }

  void on_cnp(Time now) {
    on_time(now);
    alpha_ = alpha_at(now);
    alpha_at_ = now;
    target_bps_ = rate_bps_;
    rate_bps_ = std::max(rate_bps_ - (rate_bps_ >> 1) * alpha_ / kOne, rate_min_bps_);
    alpha_ += (kOne - alpha_) >> constants_->gain_shift;
    timer_steps_ = byte_steps_ = 0;
    bytes_left_ = static_cast<int64_t>(constants_->byte_counter);
    next_increase_ = now + constants_->increase_timer;
    limited_ = true;
  }
  // Serves every expiry of the timer up to now. True: the rate may have changed.
  bool on_time(Time now) {
    if (now < next_increase_) return false;
    while (next_increase_ <= now) {
      next_increase_ += constants_->increase_timer;
      increase(&timer_steps_);
    }
    return true;
  }
  // Counts wire bytes that were sent. True: the rate may have changed.
  bool on_bytes(uint32_t bytes) {
    if (!limited_ || constants_->byte_counter == 0) return false;
    bytes_left_ -= bytes;
    if (bytes_left_ > 0) return false;
    bytes_left_ += static_cast<int64_t>(constants_->byte_counter);
    increase(&byte_steps_);
    return true;
  }

  [[nodiscard]] bool limited() const { return limited_; }
  [[nodiscard]] uint64_t rate_bps() const { return rate_bps_; }      // R_C
  [[nodiscard]] uint64_t target_bps() const { return target_bps_; }  // R_T
  // The next expiry of the timer; never while there is no limit.
  [[nodiscard]] Time next_increase() const { return next_increase_; }
  [[nodiscard]] uint32_t alpha_at(Time now) const {
    if (alpha_at_.is_never()) return alpha_;
    const int64_t periods = (now - alpha_at_).count_ns() / constants_->alpha_timer.count_ns();
    return decayed(alpha_, static_cast<uint64_t>(std::max<int64_t>(periods, 0)));
  }
  [[nodiscard]] const DcqcnConstants& constants() const { return *constants_; }

 private:
  void release() {
    rate_bps_ = target_bps_ = link_bps_;
    timer_steps_ = byte_steps_ = 0;
    next_increase_ = Time::never();
    limited_ = false;
  }

  // Increases the rate after an expiry of T or BC, the one at `steps`; the phase follows from their
  // values before this expiry.
  void increase(uint32_t* steps) {
    const bool counts_bytes = constants_->byte_counter != 0;
    const uint32_t most = std::max(timer_steps_, byte_steps_);
    const uint32_t least = counts_bytes ? std::min(timer_steps_, byte_steps_) : timer_steps_;
    ++*steps;
    if (most >= constants_->fast_steps) {
      const bool hyper = least > constants_->fast_steps;
      target_bps_ = std::min(target_bps_ + (hyper ? hyper_bps_ : additive_bps_), link_bps_);
    }
    rate_bps_ =
        (rate_bps_ + target_bps_ + 1) / 2;  // rounded up, or the rate would never reach its target
    if (rate_bps_ >= link_bps_) release();
  }

  // alpha (1 - g)^periods, by squaring; the power is a part of 2^32.
  [[nodiscard]] uint32_t decayed(uint32_t alpha, uint64_t periods) const {
    uint64_t power = (uint64_t{1} << 32) - (uint64_t{1} << (32 - constants_->gain_shift));
    uint64_t result = alpha;
    for (; periods != 0 && result != 0; periods >>= 1) {
      if ((periods & 1) != 0) result = result * power >> 32;
      power = power * power >> 32;
    }
    return static_cast<uint32_t>(result);
  }

  const DcqcnConstants* constants_ = nullptr;
  uint64_t link_bps_ = 0;
  uint64_t additive_bps_ = 0;
  uint64_t hyper_bps_ = 0;
  uint64_t rate_min_bps_ = 0;
  uint64_t rate_bps_ = 0;
  uint64_t target_bps_ = 0;
  int64_t bytes_left_ = 0;
  Time next_increase_ = Time::never();
  Time alpha_at_ = Time::never();  // time of the last CNP
  uint32_t alpha_ = kOne;          // alpha at that CNP
  uint32_t timer_steps_ = 0;       // T
  uint32_t byte_steps_ = 0;        // BC
  bool limited_ = false;
};

}  // namespace mprdma::cc
