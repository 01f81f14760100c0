// A fluid model of windows that share one queue: what is in flight beyond the pipe waits, a round
// trip is the base and the wait, and each flow has its window's share of the acknowledgements.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/fixed_point.hpp"
#include "base/units.hpp"
#include "cc/algorithm.hpp"

namespace mprdma::cc {

inline double exact_packets(Fixed16 window) {
  return static_cast<double>(window.raw()) / Fixed16::kOneRaw;
}

struct QueueSpec {
  double base_us = 20;
  double packets_per_us = 4;  // 1 KB at 33 Gb/s
  double mark_us = 1e9;       // packets that wait longer are marked
  double seconds = 0.2;
};

// Means of the last half.
struct QueueOutcome {
  double rtt_us = 0;
  double window = 0;  // of one flow, packets
  double jain = 0;    // of the flows' mean windows
  double use = 0;     // of the link
};

template <class Control>
QueueOutcome share_a_queue(std::vector<Control>& flows, const QueueSpec& spec) {
  const double pipe = spec.base_us * spec.packets_per_us;
  std::vector<double> credits(flows.size());
  std::vector<double> sums(flows.size());
  const auto steps = static_cast<int64_t>(spec.seconds * 1e6);
  QueueOutcome out;
  // What a flow hears is a round trip old.
  std::vector<double> waits(1, 0.0);
  for (int64_t i = 0; i < steps; ++i) {
    const Time now = Time::from_ns(1'000'000 + i * 1000);
    double in_flight = 0;
    for (const Control& flow : flows) in_flight += exact_packets(flow.window());
    const double wait_us = std::max(in_flight - pipe, 0.0) / spec.packets_per_us;
    waits.push_back(wait_us);
    const auto delayed = static_cast<size_t>(
        std::max<double>(0, static_cast<double>(waits.size()) - 1 - spec.base_us - wait_us));
    const double heard_us = waits[delayed];
    const double rtt_us = spec.base_us + heard_us;
    for (size_t f = 0; f < flows.size(); ++f) {
      const double window = exact_packets(flows[f].window());
      credits[f] += window / (spec.base_us + wait_us);
      for (; credits[f] >= 1; credits[f] -= 1) {
        flows[f].on_ack({.now = now,
                         .rtt = Duration::ns(std::llround(rtt_us * 1000)),
                         .in_flight = static_cast<uint32_t>(window),
                         .ece = heard_us > spec.mark_us});
      }
      if (i >= steps / 2) sums[f] += window;
    }
    if (i < steps / 2) continue;
    out.rtt_us += spec.base_us + wait_us;
    out.use += std::min(in_flight / pipe, 1.0);
  }
  const int64_t first = steps / 2;
  const auto counted = static_cast<double>(steps - first);
  double sum = 0;
  double squares = 0;
  for (const double each : sums) {
    sum += each / counted;
    squares += each / counted * (each / counted);
  }
  const auto n = static_cast<double>(flows.size());
  out.rtt_us /= counted;
  out.use /= counted;
  out.window = sum / n;
  out.jain = sum * sum / (n * squares);
  return out;
}

}  // namespace mprdma::cc
