// The constants of DCQCN (dcqcn.hpp): those of the paper, and those of HPCC's simulator; the RED
// curve of the switches belongs to them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

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

}  // namespace mprdma::cc
