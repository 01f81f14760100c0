// Drives the verilated congestion window and cc::MpWindow with the same events: after each one the
// windows and what is owed are the same, or the program says where they differ and ends with 1.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/fixed_point.hpp"
#include "base/prng.hpp"
#include "cc/mp_window.hpp"
#include "offload/lockstep/lockstep.hpp"
#include "offload/lockstep/window_device.hpp"

namespace mprdma::offload {
namespace {

// Cycles from the one in which a request is given to its answer.
constexpr uint64_t kAnswerAfter = 10;
constexpr uint32_t kOne = Fixed16::kOneRaw;
constexpr uint32_t kOwedMax = (1U << 24) - 1;

// What the events were, so that a run that shows nothing is noticed.
struct Counts {
  uint64_t at_floor = 0;
  uint64_t at_max = 0;
  uint64_t owed_full = 0;
  uint64_t owed_spent = 0;
  uint64_t grown = 0;
  uint64_t resets = 0;  // with requests under way
};

struct Case {
  WindowRequest request;
  // Losses of the event, each half a packet, and what the receiver dropped, a quarter.
  uint32_t holes = 0;
  bool drop = false;
};

// The reference.
WindowState after(const Case& c) {
  const WindowRequest& r = c.request;
  const WindowEvent& e = r.event;
  cc::MpWindow window({.initial_packets = r.initial / kOne, .max_packets = r.max / kOne});
  window.load(Fixed16::from_raw(r.state.window), Fixed16::from_raw(r.state.owed));
  for (uint32_t i = 0; i < c.holes; ++i) window.on_loss({.kind = cc::LossKind::kHole});
  if (c.drop) window.on_loss({.kind = cc::LossKind::kWindowDrop});
  cc::AckSample sample;
  sample.ece = e.marked;
  sample.limited_by = cc::LimitedBy::kWindow;
  if (e.slow) {
    window.on_slow_path(sample);
  } else if (e.marked || e.grows) {
    window.on_ack(sample);
  }
  if (e.unused && window.window().floor() > e.used) window.on_unused_ack();
  if (e.timeout) window.on_timeout(Time());
  if (e.gives_back) window.give_back();
  if (e.recovers) window.recover();
  return {window.window().raw(), std::min(window.owed().raw(), kOwedMax)};
}

class Traffic {
 public:
  explicit Traffic(uint64_t seed) : prng_(seed) {}

  Case next() {
    Case out;
    WindowRequest& r = out.request;
    r.initial = (1 + below(128)) * kOne;
    r.max = std::max(r.initial, (1 + below(prng_.chance(1, 8) ? 65535 : 128)) * kOne);
    r.state.window = window(r);
    r.state.owed = prng_.chance(1, 4) ? 0 : prng_.chance(1, 8) ? kOwedMax - below(kOne) : owed();
    WindowEvent& e = r.event;
    const uint32_t what = below(16);
    if (what == 0) {
      e.timeout = true;
    } else if (what == 1) {
      e.gives_back = true;
      e.recovers = prng_.chance(1, 2);
    } else if (what == 2) {
      e.recovers = true;
    } else {
      acknowledge(out);
    }
    return out;
  }

 private:
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(prng_.below(n)); }
  // At an end of the range, about a power of two, or anywhere.
  uint32_t window(const WindowRequest& r) {
    const uint32_t about_a_power = (uint32_t{1} << (16 + below(16))) + below(5) - 2;
    switch (below(8)) {
      case 0:
        return std::min(kOne + below(kOne), r.max);
      case 1:
        return std::max(kOne, r.max - below(kOne));
      case 2:
      case 3:
      case 4:
        return std::clamp(about_a_power, kOne, r.max);
      default:
        return kOne + below(r.max - kOne + 1);
    }
  }
  uint32_t owed() { return below(uint32_t{1} << (1 + below(24))); }
  void acknowledge(Case& c) {
    WindowEvent& e = c.request.event;
    if (prng_.chance(1, 4)) {
      c.holes = prng_.chance(1, 4) ? below(129) : below(4);
      c.drop = prng_.chance(1, 2);
      e.cost = c.holes * (kOne / 2) + (c.drop ? kOne / 4 : 0);
    }
    const uint32_t kind = below(4);
    e.slow = kind == 0;
    e.marked = kind == 1;
    e.grows = kind == 2;
    e.unused = !e.grows && prng_.chance(1, 2);
    e.used = prng_.chance(1, 2) ? below(4) : below(260);
  }

  Prng prng_;
};

class Lockstep {
 public:
  explicit Lockstep(const LockstepOptions& options)
      : options_(options),
        device_(options.device_seed(), options.mutant),
        traffic_(options.seed),
        pauses_(options.seed + 1),
        expected_(options.program, kAnswerAfter) {
    if (!options.waveform.empty()) device_.record(options.waveform);
  }

  // False: they differ.
  bool run() {
    uint64_t begun = 0;
    while (done() < options_.events) {
      std::optional<Case> now;
      if (begun < options_.events && !pauses_.chance(1, 12)) now = traffic_.next();
      if (now && pauses_.chance(1, 20'000)) {
        device_.reset(now->request);
        counts_.resets += expected_.reset().empty() ? 0 : 1;
      }
      if (!expected_.check(device_.step(now ? &now->request : nullptr))) return false;
      if (!now) continue;
      const WindowState state = after(*now);
      count(now->request, state);
      expected_.expect(now->request, state);
      ++begun;
    }
    return true;
  }

  [[nodiscard]] uint64_t done() const { return expected_.done(); }
  [[nodiscard]] bool shows_everything() const {
    const Counts& c = counts_;
    return c.at_floor > 0 && c.at_max > 0 && c.owed_full > 0 && c.owed_spent > 0 && c.grown > 0 &&
           c.resets > 0;
  }
  void print() const {
    const Counts& c = counts_;
    fmt::print("{}: {} events, no difference; {} cycles\n", options_.program, done(),
               expected_.cycles());
    fmt::print("  at one packet {}, at the largest {}, owed as much as fits {}, spent {}, ",
               c.at_floor, c.at_max, c.owed_full, c.owed_spent);
    fmt::print("grown {}, resets {}\n", c.grown, c.resets);
  }

 private:
  void count(const WindowRequest& request, const WindowState& state) {
    counts_.at_floor += state.window == kOne ? 1 : 0;
    counts_.at_max += state.window == request.max ? 1 : 0;
    counts_.owed_full += state.owed == kOwedMax ? 1 : 0;
    counts_.owed_spent += request.state.owed > 0 && state.owed == 0 ? 1 : 0;
    counts_.grown += state.window > request.state.window ? 1 : 0;
  }

  LockstepOptions options_;
  WindowDevice device_;
  Traffic traffic_;
  Prng pauses_;
  Expectations<WindowRequest, WindowState> expected_;
  Counts counts_;
};

}  // namespace
}  // namespace mprdma::offload

int main(int argc, char** argv) {
  mprdma::offload::LockstepOptions options;
  options.program = std::filesystem::path(argv[0]).filename();
  CLI::App app("Compares the RTL's congestion window with the software's, event by event");
  options.add_to(app);
  CLI11_PARSE(app, argc, argv);
  mprdma::offload::Lockstep lockstep(options);
  return run_to_the_end(lockstep, options, "");
}
