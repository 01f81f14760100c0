// Conclusions from path probes about the network to a peer (mprdma doctor --path). Pure: from what
// was asked and answered to findings. What end hosts cannot see is not claimed: each finding says
// what it rests on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/client/protocol.hpp"
#include "tools/doctor/doctor_checks.hpp"

namespace mprdma::tools {

struct PathSample {
  dataplane::client::PathProbe asked;
  dataplane::client::PathAnswer answer;
};

struct PathMeasured {
  std::string peer;  // as it was given
  std::string from;  // the device, for people
  uint32_t device_mtu = 0;
  // Short probes, in rounds over all source ports.
  std::vector<PathSample> ports;
  std::vector<PathSample> there;  // probes of rising lengths, with short answers
  std::vector<PathSample> back;   // probes of rising lengths, with answers as long
};

struct PortRow {
  uint16_t port = 0;
  uint32_t sent = 0;
  uint32_t answered = 0;
  uint64_t rtt_min_ns = 0;
  uint64_t rtt_median_ns = 0;
  // Routers on the way: what was taken off the TTL. Of the last answer.
  uint32_t hops_there = 0;
  uint32_t hops_back = 0;
};

// Summarises the probes of each port, in the order of the ports.
std::vector<PortRow> port_rows(const PathMeasured& measured);

// How many groups these round-trip times fall into, with gaps that noise does not make: 1 or more;
// 0 of nothing.
size_t rtt_groups(std::vector<uint64_t> rtts_ns);

std::vector<Finding> judge_path(const PathMeasured& measured);

}  // namespace mprdma::tools
