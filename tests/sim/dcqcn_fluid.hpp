// DCQCN's fluid model (Zhu et al., "ECN or Delay", CoNEXT 2016, equations 3 to 7, with the increase
// events of the SIGCOMM paper), for tests: N flows alike of rate R packets a second at one queue,
// marked with probability p.
//
//   d alpha = g / K (1 - (1 - p)^(K R) - alpha)
//   d R     = - R alpha / (2 t) hit + (R_T - R) / 2 (E_B + E_T)
//   d R_T   = - (R_T - R) / t hit + R_AI ((1 - p)^(F B) E_B + (1 - p)^(F T R) E_T)
//   d queue = N R - C
//
// t is the CNP's interval, hit = 1 - (1 - p)^(t R) the chance of a CNP in it; E_B = R p / ((1 -
// p)^-B - 1) and E_T = R p / ((1 - p)^(-T R) - 1) are the expiries a second of byte counter and
// timer. p, and R beside it, are those of a round trip ago.
//
// Hyper increase, which needs both counts, is left out, as there. A preset without a byte counter
// has it after F + 1 expiries of its timer, where it is most of the increase: d R_T gains (R_HAI -
// R_AI) (1 - p)^((F + 1) T R) E_T.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.hpp"
#include "cc/dcqcn.hpp"

namespace mprdma::switchsim {

class DcqcnFluid {
 public:
  // In balance.
  struct FixPoint {
    double marked;
    double queue_bytes;
  };
  // Over time.
  struct Means {
    double marked;
    double queue_bytes;
    double queue_sd_bytes;
    double use;
  };

  DcqcnFluid(cc::DcqcnPreset preset, uint64_t link_bps, uint32_t wire_bytes, uint32_t flows)
      : c_(cc::dcqcn_constants(preset)),
        red_(cc::dcqcn_red(c_, link_bps)),
        wire_bytes_(wire_bytes),
        flows_(flows),
        link_(packets(link_bps)),
        additive_(packets(cc::dcqcn_scaled(c_.additive_bps, link_bps, c_.reference_bps))),
        hyper_(packets(cc::dcqcn_scaled(c_.hyper_bps, link_bps, c_.reference_bps))) {}

  [[nodiscard]] FixPoint fix_point() const {
    double low = 1e-7;
    double high = 0.5;
    for (int i = 0; i < 100; ++i) {
      const double middle = std::sqrt(low * high);
      (excess(middle, link_ / flows_) > 0 ? high : low) = middle;
    }
    const double span = red_.kmax_bytes - red_.kmin_bytes;
    return {low, red_.kmin_bytes + low * 1e6 / red_.pmax_ppm * span};
  }

  // Of the last part of a run that begins with an empty queue and flows at the least rate.
  [[nodiscard]] Means means(Duration round_trip, Duration warm_up, Duration counted) const {
    // What happened in each step of a round trip.
    std::vector<Heard> heard(static_cast<size_t>(steps_in(round_trip)));
    Flow flow = {.rate = packets(c_.rate_min_bps), .target = packets(c_.rate_min_bps)};
    double queue = 0;
    Means out = {};
    double squares = 0;
    const int64_t first = steps_in(warm_up);
    const int64_t end = first + steps_in(counted);
    for (int64_t i = 0; i < end; ++i) {
      Heard& slot = heard[static_cast<size_t>(i) % heard.size()];
      const Heard old = slot;
      slot = {.marking = marking(queue), .rate = flow.rate};
      const double inflow = flows_ * flow.rate;
      if (i >= first) {
        out.marked += slot.marking * inflow;
        out.queue_bytes += queue;
        squares += queue * queue;
        out.use += queue > 0 ? 1 : std::min(inflow / link_, 1.0);
      }
      queue = std::max(queue + (inflow - link_) * wire_bytes_ * seconds(kStep), 0.0);
      advance(old, &flow);
    }
    const auto n = static_cast<double>(end - first);
    out.marked /= n * link_;
    out.queue_bytes /= n;
    out.queue_sd_bytes = std::sqrt(std::max(squares / n - out.queue_bytes * out.queue_bytes, 0.0));
    out.use /= n;
    return out;
  }

 private:
  static constexpr Duration kStep = Duration::us(1);
  static int64_t steps_in(Duration time) { return time.count_ns() / kStep.count_ns(); }

  struct Flow {
    double rate;
    double target;
    double alpha = 0;
  };
  struct Heard {
    double marking = 0;
    double rate = 1;
  };
  // What marks of a probability do, a second.
  struct Events {
    double alpha;     // that it tends to
    double hit;       // CNPs
    double expiries;  // of timer and byte counter
    double raised;    // R_T
  };

  static double seconds(Duration time) { return static_cast<double>(time.count_ns()) / 1e9; }
  [[nodiscard]] double packets(uint64_t bps) const {
    return static_cast<double>(bps) / 8 / wire_bytes_;
  }
  [[nodiscard]] double marking(double queue_bytes) const {
    if (queue_bytes > red_.kmax_bytes) return 1;
    const double span = red_.kmax_bytes - red_.kmin_bytes;
    return std::max(queue_bytes - red_.kmin_bytes, 0.0) / span * red_.pmax_ppm / 1e6;
  }

  [[nodiscard]] Events events(double p, double rate) const {
    const double stay = std::log1p(-std::clamp(p, 1e-12, 1 - 1e-6));  // (1 - p)^n = exp(n stay)
    const double marks = rate * -std::expm1(stay);
    const double interval_s = seconds(c_.cnp_interval);
    const double ticks = seconds(c_.increase_timer) * rate;
    const double by_timer = marks / std::expm1(-stay * ticks);
    Events out = {.alpha = -std::expm1(stay * seconds(c_.alpha_timer) * rate),
                  .hit = -std::expm1(stay * interval_s * rate) / interval_s,
                  .expiries = by_timer,
                  .raised = additive_ * std::exp(stay * c_.fast_steps * ticks) * by_timer};
    if (c_.byte_counter == 0) {
      out.raised += (hyper_ - additive_) * std::exp(stay * (c_.fast_steps + 1) * ticks) * by_timer;
    } else {
      const double bytes = static_cast<double>(c_.byte_counter) / wire_bytes_;
      const double by_bytes = marks / std::expm1(-stay * bytes);
      out.expiries += by_bytes;
      out.raised += additive_ * std::exp(stay * c_.fast_steps * bytes) * by_bytes;
    }
    return out;
  }
  // Positive if marks of this probability cut R_T more than the increases raise it, while R stays.
  [[nodiscard]] double excess(double p, double rate) const {
    const Events e = events(p, rate);
    const double gap = rate * e.alpha * e.hit / e.expiries;
    return gap * e.hit - e.raised;
  }
  void advance(const Heard& heard, Flow* flow) const {
    const Events e = events(heard.marking, heard.rate);
    const double step_s = seconds(kStep);
    const double gap = flow->target - flow->rate;
    const double rate =
        flow->rate + step_s * (gap / 2 * e.expiries - flow->rate * flow->alpha / 2 * e.hit);
    const double target = flow->target + step_s * (e.raised - gap * e.hit);
    flow->alpha +=
        step_s / seconds(c_.alpha_timer) / (1U << c_.gain_shift) * (e.alpha - flow->alpha);
    flow->rate = std::clamp(rate, packets(c_.rate_min_bps), link_);
    flow->target = std::clamp(target, flow->rate, link_);
  }

  const cc::DcqcnConstants& c_;
  cc::DcqcnRed red_;
  double wire_bytes_;
  double flows_;
  double link_;
  double additive_;
  double hyper_;
};

}  // namespace mprdma::switchsim
