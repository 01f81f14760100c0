#include "switchsim/fluid/mp_fluid.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.hpp"

namespace mprdma::fluid {

namespace {

constexpr int kBisections = 100;

double rtt_s(const Path& path, double queue_bytes) {
  return path.base_rtt_s + queue_bytes / path.bytes_per_s;
}

// The queue at which RED marks the share `marked`; with a step, its threshold.
double queue_for(const Red& red, double marked) {
  return red.kmin_bytes + std::min(marked / red.pmax, 1.0) * (red.kmax_bytes - red.kmin_bytes);
}

// The past states, for the marks of R* ago: linear between two steps, and the first state for times
// before it.
class History {
 public:
  History(double step_s, const std::vector<double>& first) : step_s_(step_s), points_{first} {}

  void add(const std::vector<double>& queue_bytes) { points_.push_back(queue_bytes); }

  [[nodiscard]] double queue_bytes(size_t path, double at_s) const {
    if (at_s <= 0) return points_.front()[path];
    const double exact = at_s / step_s_;
    const auto below = std::min(static_cast<size_t>(exact), points_.size() - 1);
    const size_t above = std::min(below + 1, points_.size() - 1);
    const double part = exact - static_cast<double>(below);
    return points_[below][path] + part * (points_[above][path] - points_[below][path]);
  }

 private:
  double step_s_;
  std::vector<std::vector<double>> points_;
};

State moved(const State& from, const State& slope, double by_s) {
  State out = from;
  for (size_t i = 0; i < out.window.size(); ++i) {
    out.window[i] += slope.window[i] * by_s;
    out.queue_bytes[i] = std::max(out.queue_bytes[i] + slope.queue_bytes[i] * by_s, 0.0);
  }
  return out;
}

// The weighted mean of Runge and Kutta: (a + 2 b + 2 c + d) / 6.
State weighted(const State& a, const State& b, const State& c, const State& d) {
  State out = a;
  for (size_t i = 0; i < out.window.size(); ++i) {
    out.window[i] = (a.window[i] + 2 * b.window[i] + 2 * c.window[i] + d.window[i]) / 6;
    out.queue_bytes[i] =
        (a.queue_bytes[i] + 2 * b.queue_bytes[i] + 2 * c.queue_bytes[i] + d.queue_bytes[i]) / 6;
  }
  return out;
}

void keep_above_one(State* state) {
  const double cwnd = state->cwnd();
  if (cwnd >= 1) return;
  for (double& window : state->window) {
    window = cwnd > 0 ? window / cwnd : 1.0 / static_cast<double>(state->window.size());
  }
}

class Integrator {
 public:
  Integrator(const Model& model, const Run& run)
      : model_(model),
        step_s_(run.step_s),
        state_(first(model, run)),
        history_(run.step_s, state_.queue_bytes) {
    const FixPoint rest = fix_point(model);
    for (size_t i = 0; i < model.paths.size(); ++i) {
      delay_s_.push_back(rtt_s(model.paths[i], rest.state.queue_bytes[i]));
      CHECK(delay_s_.back() > run.step_s);
    }
  }

  [[nodiscard]] const State& state() const { return state_; }

  // Advances the state from time_s to time_s + step.
  void step(double time_s) {
    const double half = step_s_ / 2;
    const State a = derivative(model_, state_, marks(time_s));
    const State b = derivative(model_, moved(state_, a, half), marks(time_s + half));
    const State c = derivative(model_, moved(state_, b, half), marks(time_s + half));
    const State d = derivative(model_, moved(state_, c, step_s_), marks(time_s + step_s_));
    state_ = moved(state_, weighted(a, b, c, d), step_s_);
    keep_above_one(&state_);
    history_.add(state_.queue_bytes);
  }

 private:
  static State first(const Model& model, const Run& run) {
    const size_t paths = model.paths.size();
    std::vector<double> share = run.initial_share;
    if (share.empty()) share.assign(paths, 1);
    CHECK(share.size() == paths);
    const double sum = std::accumulate(share.begin(), share.end(), 0.0);
    State out;
    out.queue_bytes.assign(paths, 0);
    for (const double part : share) out.window.push_back(run.initial_cwnd * part / sum);
    return out;
  }

  [[nodiscard]] std::vector<double> marks(double at_s) const {
    std::vector<double> out;
    for (size_t i = 0; i < model_.paths.size(); ++i) {
      out.push_back(model_.paths[i].red.marked(history_.queue_bytes(i, at_s - delay_s_[i])));
    }
    return out;
  }

  const Model& model_;
  double step_s_;
  State state_;
  History history_;
  std::vector<double> delay_s_;  // R*
};

}  // namespace

double Red::marked(double queue_bytes) const {
  if (queue_bytes > kmax_bytes) return 1;
  if (queue_bytes <= kmin_bytes) return 0;
  return pmax * (queue_bytes - kmin_bytes) / (kmax_bytes - kmin_bytes);
}

double State::cwnd() const {
  return std::accumulate(window.begin(), window.end(), 0.0);
}

State derivative(const Model& model, const State& state, const std::vector<double>& marked) {
  State out = state;
  const double cwnd = state.cwnd();
  for (size_t i = 0; i < model.paths.size(); ++i) {
    const Path& path = model.paths[i];
    const double rtt = rtt_s(path, state.queue_bytes[i]);
    const double window = state.window[i];
    out.window[i] = window / (cwnd * rtt) * (1 - marked[i]) - window / (2 * rtt) * marked[i];
    out.queue_bytes[i] = model.flows * window * model.packet_bytes / rtt - path.bytes_per_s;
    if (state.queue_bytes[i] <= 0) out.queue_bytes[i] = std::max(out.queue_bytes[i], 0.0);
  }
  return out;
}

// Bisects over cwnd: a larger window is marked less, so queues are shorter and the network holds
// less than the window.
FixPoint fix_point(const Model& model) {
  CHECK(!model.paths.empty());
  FixPoint out;
  double low = 1;
  double high = 1e9;
  for (int i = 0; i < kBisections; ++i) {
    out.cwnd = (low + high) / 2;
    out.marked = 2 / (out.cwnd + 2);
    out.state = {};
    for (const Path& path : model.paths) {
      const double queue = queue_for(path.red, out.marked);
      out.state.queue_bytes.push_back(queue);
      out.state.window.push_back(path.bytes_per_s * rtt_s(path, queue) /
                                 (model.flows * model.packet_bytes));
    }
    (out.state.cwnd() > out.cwnd ? low : high) = out.cwnd;
  }
  return out;
}

Trace integrate(const Model& model, const Run& run) {
  Integrator integrator(model, run);
  Trace out;
  out.queue_bytes.resize(model.paths.size());
  out.marked.resize(model.paths.size());
  const auto steps = static_cast<size_t>(std::ceil(run.duration_s / run.step_s));
  const auto stride =
      std::max<size_t>(static_cast<size_t>(std::llround(run.sample_s / run.step_s)), 1);
  for (size_t i = 0; i <= steps; ++i) {
    const double time_s = static_cast<double>(i) * run.step_s;
    if (i % stride == 0) {
      const State& state = integrator.state();
      out.time_s.push_back(time_s);
      out.cwnd.push_back(state.cwnd());
      for (size_t p = 0; p < model.paths.size(); ++p) {
        out.queue_bytes[p].push_back(state.queue_bytes[p]);
        out.marked[p].push_back(model.paths[p].red.marked(state.queue_bytes[p]));
      }
    }
    integrator.step(time_s);
  }
  return out;
}

Moments moments(const Trace& trace, const std::vector<double>& values, double from_s) {
  double sum = 0;
  double squares = 0;
  double count = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (trace.time_s[i] < from_s) continue;
    sum += values[i];
    squares += values[i] * values[i];
    count += 1;
  }
  if (count == 0) return {};
  const double mean = sum / count;
  return {mean, std::sqrt(std::max(squares / count - mean * mean, 0.0))};
}

}  // namespace mprdma::fluid
