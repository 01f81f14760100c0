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
#include <array>
#include <cstdint>

#include "base/check.hpp"
#include "base/units.hpp"

namespace mprdma::cc {

// The constants of a preset. Rates marked "at reference" grow with the link's rate.
struct DcqcnConstants {
  const char* name = "";
  Duration cnp_interval;      // shortest time between two CNPs of a queue pair
  Duration alpha_timer;       // K
  Duration increase_timer;    // between two values of T
  uint32_t gain_shift = 0;    // g = 2^-shift
  uint32_t fast_steps = 0;    // F
  uint64_t byte_counter = 0;  // B, wire bytes; 0: none
  uint64_t reference_bps = 0;
  uint64_t additive_bps = 0;  // R_AI, at reference
  uint64_t hyper_bps = 0;     // R_HAI, at reference
  uint64_t rate_min_bps = 0;
  // RED of the switches that these constants belong to; bytes at reference if they grow.
  uint32_t kmin_bytes = 0;
  uint32_t kmax_bytes = 0;
  uint32_t pmax_ppm = 0;
  bool red_grows = false;
};

enum class DcqcnPreset : uint8_t { kPaper, kTuned };

// The presets. dcqcn-paper: the paper's constants; the paper names no least rate, so that one is
// from its authors' simulator (bobzhuyb/ns3-rdma). dcqcn-tuned: HPCC's simulator
// (alibaba-edu/High-Precision-Congestion-Control run.py, "dcqcn").
inline constexpr std::array<DcqcnConstants, 2> kDcqcnPresets = {{
    {.name = "dcqcn-paper",
     .cnp_interval = Duration::us(50),
     .alpha_timer = Duration::us(55),
     .increase_timer = Duration::us(55),
     .gain_shift = 8,
     .fast_steps = 5,
     .byte_counter = 10'000'000,
     .reference_bps = 40'000'000'000,
     .additive_bps = 40'000'000,
     .hyper_bps = 400'000'000,
     .rate_min_bps = 100'000'000,
     .kmin_bytes = 5'000,
     .kmax_bytes = 200'000,
     .pmax_ppm = 10'000,
     .red_grows = false},
    {.name = "dcqcn-tuned",
     .cnp_interval = Duration::us(4),
     .alpha_timer = Duration::us(1),
     .increase_timer = Duration::us(300),
     .gain_shift = 8,
     .fast_steps = 1,
     .byte_counter = 0,
     .reference_bps = 25'000'000'000,
     .additive_bps = 5'000'000,
     .hyper_bps = 50'000'000,
     .rate_min_bps = 1'000'000'000,
     .kmin_bytes = 100'000,
     .kmax_bytes = 400'000,
     .pmax_ppm = 200'000,
     .red_grows = true},
}};

constexpr const DcqcnConstants& dcqcn_constants(DcqcnPreset preset) {
  return kDcqcnPresets[static_cast<size_t>(preset)];
}

// Scales a value: value * link / reference. It fits 64 bits because links have whole Mb/s.
constexpr uint64_t dcqcn_scaled(uint64_t value, uint64_t link_bps, uint64_t reference_bps) {
  constexpr uint64_t kMega = 1'000'000;
  return value * (link_bps / kMega) / (reference_bps / kMega);
}

// The switches' RED curve of a preset, for a port of that rate.
struct DcqcnRed {
  uint32_t kmin_bytes = 0;
  uint32_t kmax_bytes = 0;
  uint32_t pmax_ppm = 0;
};
constexpr DcqcnRed dcqcn_red(const DcqcnConstants& constants, uint64_t link_bps) {
  const auto grown = [&](uint32_t bytes) {
    if (!constants.red_grows) return bytes;
    return static_cast<uint32_t>(dcqcn_scaled(bytes, link_bps, constants.reference_bps));
  };
  return {grown(constants.kmin_bytes), grown(constants.kmax_bytes), constants.pmax_ppm};
}

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
