// Paths that are bad, or longer than the others, and closed loops beside them, which the figures of
// this folder compare with the same loops on a healthy network.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "evaluation/batch.hpp"

namespace mprdma::figures {

// A closed loop, and the paths of which the last ones are bad.
struct Loop {
  const char* id;
  const char* text;
  uint32_t bytes;
  uint32_t depth = 1;
  uint32_t paths = 4;
  uint32_t bad_paths = 1;
  uint32_t rtt_us = 12;
  const char* operation = "write";
};

// A link loses this share of its packets, in both directions.
inline void lose(switchsim::Scenario* scenario, const std::string& name, uint32_t loss_ppm) {
  switchsim::LinkConfig& link = scenario->topology.links[scenario->link(name)];
  link.ab.loss_ppm = link.ba.loss_ppm = loss_ppm;
}
inline constexpr uint32_t kAllLost = 1'000'000;

// The loop where the last paths lose this share of their packets, in both directions.
inline switchsim::Scenario with_loss(const std::string& file, const Loop& loop, uint32_t loss_ppm) {
  switchsim::Scenario scenario =
      load(file, {"topology.paths=" + std::to_string(loop.paths),
                  "topology.base_rtt_us=" + std::to_string(loop.rtt_us),
                  "flow[0].message_bytes=" + std::to_string(loop.bytes),
                  "flow[0].post_depth=" + std::to_string(loop.depth),
                  "flow[0].operation=\"" + std::string(loop.operation) + "\"",
                  // As many round trips for each.
                  "duration_us=" + std::to_string(1000 * loop.rtt_us),
                  "warm_up_us=" + std::to_string(160 * loop.rtt_us)});
  for (uint32_t i = 0; i < loop.bad_paths; ++i) {
    lose(&scenario, "path" + std::to_string(loop.paths - i), loss_ppm);
  }
  return scenario;
}

// The settings of so many loops, each between two hosts of its own, and `others`.
inline std::vector<std::string> loops_of(uint32_t pairs, std::vector<std::string> others = {}) {
  const std::string n = std::to_string(pairs);
  others.push_back("topology.servers=" + n);
  others.push_back("flow[0].from=\"a1..a" + n + "\"");
  others.push_back("flow[0].to=\"b1..b" + n + "\"");
  return others;
}

// A path gets this rate in both directions.
inline void slow_down(switchsim::Scenario* scenario, const char* path, uint32_t gbps) {
  switchsim::LinkConfig& link = scenario->topology.links[scenario->link(path)];
  link.ab.rate = link.ba.rate = switchsim::LinkRate::gbps(gbps);
}

// A path becomes longer, there and back together.
inline void lengthen(switchsim::Scenario* scenario, const char* path, uint32_t longer_us) {
  switchsim::LinkConfig& link = scenario->topology.links[scenario->link(path)];
  for (auto* direction : {&link.ab, &link.ba}) {
    direction->delay = direction->delay + switchsim::SimSpan::ns(longer_us * 500);
  }
}

}  // namespace mprdma::figures
