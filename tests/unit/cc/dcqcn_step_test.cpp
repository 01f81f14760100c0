// Both presets of DCQCN against the equations of its paper (Zhu et al., SIGCOMM 2015, section 3.1),
// computed here in floating point: the answer to a step of marks and to its end, and two fix
// points. The constants are written out once more, from their sources, so that a preset with other
// ones fails. The fix point with a queue is in tests/sim/dcqcn_fix_point_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ostream>
#include <string>

#include "cc/dcqcn.hpp"

namespace mprdma::cc {
namespace {

// Times in us, rates in Mb/s, those of additive and hyper increase for the link of this row.
struct Source {
  const char* name;
  DcqcnPreset preset;
  uint64_t link;
  int cnp_interval;  // N
  int alpha_timer;   // K
  int timer;         // T
  double gain;       // g
  int fast_steps;    // F
  double additive;   // R_AI
  double hyper;      // R_HAI
  bool counts_bytes;
  double least;
  // A pattern with a fix point well below the link's rate: CNPs N apart, then a pause.
  int cnps;
  int pause;
};

// In place of the bytes of the row, in what a failure prints.
void PrintTo(const Source& source, std::ostream* out) {
  *out << source.name;
}

constexpr Source kSources[] = {
    {.name = "Paper",
     .preset = DcqcnPreset::kPaper,
     .link = 40'000,
     .cnp_interval = 50,
     .alpha_timer = 55,
     .timer = 55,
     .gain = 1.0 / 256,
     .fast_steps = 5,
     .additive = 40,
     .hyper = 400,
     .counts_bytes = true,
     .least = 100,
     .cnps = 2,
     .pause = 1200},
    // HPCC's simulator names its rates for 25 Gb/s: 5 and 50 Mb/s.
    {.name = "Tuned",
     .preset = DcqcnPreset::kTuned,
     .link = 100'000,
     .cnp_interval = 4,
     .alpha_timer = 1,
     .timer = 300,
     .gain = 1.0 / 256,
     .fast_steps = 1,
     .additive = 20,
     .hyper = 200,
     .counts_bytes = false,
     .least = 1000,
     .cnps = 5,
     .pause = 1250},
};

// The equations, for a flow that sends too little for its byte counter to expire.
struct Equations {
  explicit Equations(const Source& of) : source(of) {}

  void cnp() {
    alpha = alpha_now();
    target = rate;
    rate = std::max(rate * (1 - alpha / 2), source.least);
    alpha = (1 - source.gain) * alpha + source.gain;
    since = expiries = 0;
  }
  void pass(int us) {
    since += us;
    for (; (expiries + 1) * source.timer <= since; ++expiries) {
      // Hyper increase needs both counts beyond F; where nothing counts bytes, the timer's.
      const bool hyper = !source.counts_bytes && expiries > source.fast_steps;
      const double step = hyper ? source.hyper : source.additive;
      if (expiries >= source.fast_steps)
        target = std::min(target + step, static_cast<double>(source.link));
      rate = (rate + target) / 2;
    }
  }
  [[nodiscard]] double alpha_now() const {
    const int periods = since / source.alpha_timer;
    return alpha * std::pow(1 - source.gain, periods);
  }

  const Source& source;
  double rate = 0;
  double target = 0;
  double alpha = 0;
  int since = 0;  // the last CNP
  int expiries = 0;
};

struct Flow {
  explicit Flow(const Source& source) {
    dcqcn.reset(dcqcn_constants(source.preset), source.link * 1'000'000);
  }
  void cnp() { dcqcn.on_cnp(now); }
  void pass(int us) {
    now += Duration::us(us);
    dcqcn.on_time(now);
  }
  // The rate of the link again, and alpha 0.
  void forget() {
    cnp();
    pass(2'000'000);
  }
  [[nodiscard]] double rate() const { return static_cast<double>(dcqcn.rate_bps()) / 1e6; }
  [[nodiscard]] double target() const { return static_cast<double>(dcqcn.target_bps()) / 1e6; }
  [[nodiscard]] double alpha() const {
    return static_cast<double>(dcqcn.alpha_at(now)) / Dcqcn::kOne;
  }

  Dcqcn dcqcn;
  Time now = Time::from_ns(1'000'000);
};

class DcqcnStep : public testing::TestWithParam<Source> {};

TEST_P(DcqcnStep, RateFollowsTheEquationsThroughMarksAndAfterThem) {
  const Source& source = GetParam();
  Flow flow(source);
  flow.forget();
  ASSERT_FALSE(flow.dcqcn.limited());
  Equations model(source);
  model.rate = model.target = static_cast<double>(source.link);
  // Congestion lasts for 200 CNPs, to the least rate.
  for (int i = 0; i < 200; ++i) {
    flow.cnp(), model.cnp();
    ASSERT_NEAR(flow.rate(), model.rate, 1e-3 * model.rate) << i;
    flow.pass(source.cnp_interval), model.pass(source.cnp_interval);
    ASSERT_NEAR(flow.alpha(), model.alpha_now(), 1e-4) << i;
  }
  EXPECT_EQ(flow.rate(), source.least);
  // Then the flow is alone, and finds the rate of the link.
  for (int i = 0; flow.dcqcn.limited(); ++i) {
    ASSERT_LT(i, 1200);
    flow.pass(source.timer), model.pass(source.timer);
    ASSERT_NEAR(flow.rate(), model.rate, 1e-3 * model.rate) << i;
    ASSERT_NEAR(flow.target(), model.target, 1e-3 * model.target) << i;
  }
  EXPECT_NEAR(model.rate, static_cast<double>(source.link), 1);
}

// A CNP in each interval: k values of K lie between two of them, so
//   alpha = ((1 - g) alpha + g) (1 - g)^k
TEST_P(DcqcnStep, LastingCongestionBringsAlphaToItsFixPoint) {
  const Source& source = GetParam();
  const int periods = source.cnp_interval / source.alpha_timer;
  const double stay = std::pow(1 - source.gain, periods);
  const double fix_point = source.gain * stay / (1 - (1 - source.gain) * stay);
  for (const bool from_above : {true, false}) {
    Flow flow(source);
    if (!from_above) flow.forget();
    for (int i = 0; i < 4000; ++i) {
      flow.cnp();
      flow.pass(source.cnp_interval);
    }
    EXPECT_NEAR(flow.alpha(), fix_point, 1e-3 * fix_point) << from_above;
  }
}

// One period of the pattern.
template <class Any>
void repeat(const Source& source, Any& any) {
  for (int i = 0; i < source.cnps; ++i) {
    any.cnp();
    any.pass(i + 1 < source.cnps ? source.cnp_interval : source.pause);
  }
}
// Of an affine function, from two of its values.
double fix_point_of(double at_zero, double at_one) {
  return at_zero / (1 - (at_one - at_zero));
}

// A period is an affine function of alpha, and for that alpha of the rate.
TEST_P(DcqcnStep, AFlowComesToTheFixPointOfMarksThatRepeat) {
  Source boundless = GetParam();
  boundless.least = 0;
  const auto after = [&](double alpha, double rate) {
    Equations model(boundless);
    model.alpha = alpha;
    model.rate = rate;
    repeat(boundless, model);
    return model;
  };
  const double alpha = fix_point_of(after(0, 0).alpha_now(), after(1, 0).alpha_now());
  const double rate = fix_point_of(after(alpha, 0).rate, after(alpha, 1).rate);
  ASSERT_GT(rate, 2 * GetParam().least);
  ASSERT_LT(rate, 0.5 * static_cast<double>(boundless.link));
  for (const bool from_above : {true, false}) {
    Flow flow(GetParam());
    if (from_above) flow.forget();
    for (int i = 0; i < 1500; ++i) repeat(boundless, flow);
    EXPECT_NEAR(flow.rate(), rate, 5e-3 * rate) << from_above;
    EXPECT_NEAR(flow.alpha(), alpha, 5e-3 * alpha) << from_above;
  }
}

INSTANTIATE_TEST_SUITE_P(Preset, DcqcnStep, testing::ValuesIn(kSources),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace mprdma::cc
