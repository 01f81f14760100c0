// Drives the verilated congestion window and cc::MpWindow with the same events: after each one the
// windows and what is owed are the same, or the program says where they differ and ends with 1.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "base/fixed_point.hpp"
#include "base/prng.hpp"
#include "cc/mp_window.hpp"
#include "offload/lockstep/window_device.hpp"

namespace mprdma::offload {
namespace {

// Cycles from the one in which a request is given to its answer.
constexpr uint64_t kAnswerAfter = 10;
constexpr uint32_t kOne = Fixed16::kOneRaw;
constexpr uint32_t kOwedMax = (1U << 24) - 1;

struct Options {
  uint64_t events = 1'000'000;
  uint64_t seed = 1;
  uint32_t mutant = 0;
  std::string waveform;  // a file, or empty
  std::string program;
};

// What the events were, so that a run that shows nothing is noticed.
struct Counts {
  uint64_t at_floor = 0;
  uint64_t at_max = 0;
  uint64_t owed_full = 0;
  uint64_t owed_spent = 0;
  uint64_t grown = 0;
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
  if (e.unused) window.on_unused_ack();
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
  // About a power of two, at an end of the range, or anywhere.
  uint32_t window(const WindowRequest& r) {
    const uint32_t what = below(8);
    uint32_t out = kOne + below(r.max - kOne + 1);
    if (what < 2) out = kOne + below(kOne);
    if (what == 2) out = r.max - below(kOne);
    if (what < 5) out = (uint32_t{1} << (16 + below(16))) + below(5) - 2;
    return std::clamp(out, kOne, r.max);
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
  }

  Prng prng_;
};

std::string text(const WindowState& s) {
  return fmt::format("window {:08x} owed {:06x}", s.window, s.owed);
}

std::string text(const WindowRequest& r) {
  const WindowEvent& e = r.event;
  return fmt::format(
      "{} initial {:08x} max {:08x} cost {:06x} slow {} marked {} grows {} unused {} timeout {} "
      "gives_back {} recovers {}",
      text(r.state), r.initial, r.max, e.cost, e.slow, e.marked, e.grows, e.unused, e.timeout,
      e.gives_back, e.recovers);
}

class Lockstep {
 public:
  explicit Lockstep(const Options& options)
      : options_(options),
        device_(static_cast<int>(options.seed % 1'000'000) + 1, options.mutant),
        traffic_(options.seed),
        pauses_(options.seed + 1) {
    if (!options.waveform.empty()) device_.record(options.waveform);
  }

  // False: they differ.
  bool run() {
    uint64_t begun = 0;
    while (done_ < options_.events) {
      std::optional<Case> now;
      if (begun < options_.events && !pauses_.chance(1, 12)) now = traffic_.next();
      const std::optional<WindowState> answer = device_.step(now ? &now->request : nullptr);
      if (now) {
        expected_.push_back({now->request, after(*now), device_.cycles()});
        ++begun;
      }
      if (!compare(answer)) return false;
    }
    return true;
  }

  [[nodiscard]] uint64_t done() const { return done_; }
  [[nodiscard]] bool shows_everything() const {
    const Counts& c = counts_;
    return c.at_floor > 0 && c.at_max > 0 && c.owed_full > 0 && c.owed_spent > 0 && c.grown > 0;
  }
  void print() const {
    const Counts& c = counts_;
    fmt::print("{}: {} events, no difference; {} cycles\n", options_.program, done_,
               device_.cycles());
    fmt::print(
        "  at one packet {}, at the largest {}, owed as much as fits {}, spent {}, grown {}\n",
        c.at_floor, c.at_max, c.owed_full, c.owed_spent, c.grown);
  }

 private:
  struct Expected {
    WindowRequest request;
    WindowState state;
    uint64_t at;
  };

  // An answer comes in the cycle in which it is due, and in no other.
  bool compare(const std::optional<WindowState>& answer) {
    const bool due = !expected_.empty() && device_.cycles() - expected_.front().at == kAnswerAfter;
    if (due != answer.has_value()) {
      fmt::print("{}: event {}: {}\n", options_.program, done_,
                 due ? "no answer in time" : "an answer that nothing asks for");
      return false;
    }
    if (!due) return true;
    const Expected wanted = expected_.front();
    expected_.pop_front();
    if (*answer != wanted.state) {
      fmt::print("{}: event {} differs\n  request  {}\n  software {}\n  hardware {}\n",
                 options_.program, done_, text(wanted.request), text(wanted.state), text(*answer));
      return false;
    }
    count(wanted);
    ++done_;
    return true;
  }
  void count(const Expected& e) {
    counts_.at_floor += e.state.window == kOne ? 1 : 0;
    counts_.at_max += e.state.window == e.request.max ? 1 : 0;
    counts_.owed_full += e.state.owed == kOwedMax ? 1 : 0;
    counts_.owed_spent += e.request.state.owed > 0 && e.state.owed == 0 ? 1 : 0;
    counts_.grown += e.state.window > e.request.state.window ? 1 : 0;
  }

  Options options_;
  WindowDevice device_;
  Traffic traffic_;
  Prng pauses_;
  std::deque<Expected> expected_;
  Counts counts_;
  uint64_t done_ = 0;
};

int run(const Options& options) {
  Lockstep lockstep(options);
  if (!lockstep.run()) {
    fmt::print("replay: {} --seed {} --events {}{} --waveform window.vcd\n", options.program,
               options.seed, lockstep.done() + 16,
               options.mutant != 0 ? fmt::format(" --mutant {}", options.mutant) : "");
    return 1;
  }
  lockstep.print();
  if (lockstep.shows_everything()) return 0;
  fmt::print("{}: the events do not show everything\n", options.program);
  return 1;
}

}  // namespace
}  // namespace mprdma::offload

int main(int argc, char** argv) {
  mprdma::offload::Options options;
  options.program = std::filesystem::path(argv[0]).filename();
  CLI::App app("Compares the RTL's congestion window with the software's, event by event");
  app.add_option("--events", options.events, "requests");
  app.add_option("--seed", options.seed, "of the events, and of what registers hold at first");
  app.add_option("--mutant", options.mutant, "of the RTL, where they are built in");
  app.add_option("--waveform", options.waveform, "all signals to this file, as VCD");
  CLI11_PARSE(app, argc, argv);
  return mprdma::offload::run(options);
}
