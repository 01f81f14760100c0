#include "switchsim/sim/result/ideal_time.hpp"

#include <algorithm>
#include <utility>

#include "switchsim/sim/scenario/wire_size.hpp"

namespace mprdma::switchsim {

namespace {

const PortConfig& config_of(const Topology& topology, PortId port) {
  const LinkConfig& link = topology.links[port / 2];
  return port % 2 == 0 ? link.ab : link.ba;
}

SimSpan crossing(const IdealTime::Path& path, uint32_t wire) {
  SimSpan sum;
  for (const IdealTime::Hop& hop : path) sum = sum + hop.rate.time_of(wire) + hop.delay;
  return sum;
}

// The time at which the last of `full` packets and, if `rest_wire` is not 0, a shorter one has
// arrived: the longest chain through the grid of "packet after packet" and "hop after hop".
SimSpan train(const IdealTime::Path& path, uint64_t full, uint32_t full_wire, uint32_t rest_wire) {
  SimSpan delays;
  for (const IdealTime::Hop& hop : path) delays = delays + hop.delay;
  if (full == 0) return crossing(path, rest_wire);
  SimSpan longest;
  SimSpan before;    // full packets, up to and including this hop
  SimSpan interval;  // of the slowest hop so far
  SimSpan after;     // the rest, from this hop on
  if (rest_wire != 0) after = crossing(path, rest_wire) - delays;
  for (size_t i = 0; i < path.size(); ++i) {
    const IdealTime::Hop& hop = path[i];
    before = before + hop.rate.time_of(full_wire);
    interval = std::max(interval, hop.together.time_of(full_wire));
    const bool last = i + 1 == path.size();
    if (rest_wire != 0 || last) {
      longest = std::max(longest, before + interval * static_cast<int64_t>(full - 1) + after);
    }
    if (rest_wire != 0) after = after - hop.rate.time_of(rest_wire);
  }
  return longest + delays;
}

// The size of the packet that goes the other way: an acknowledgement, a READ's request, or the
// response to an RPC.
uint32_t other_wire_bytes(const FlowSpec& flow) {
  using wire::Opcode;
  if (flow.rpc_credits > 0) return datagram_wire_bytes(flow.rpc_response_bytes);
  const bool mp = flow.params.protocol == transport::Protocol::kMp;
  wire::Packet packet;
  if (flow.operation == FlowOperation::kRead) {
    packet.opcode = mp ? Opcode::kMpReadRequest : Opcode::kRcReadRequest;
  } else {
    const bool roce = flow.params.protocol == transport::Protocol::kRoce;
    packet.opcode = roce ? Opcode::kRcAck : Opcode::kMpAck;
  }
  return wire_bytes(packet);
}

}  // namespace

IdealTime::IdealTime(const Topology& topology)
    : topology_(topology), routes_(topology, 0), path_of_node_(topology.nodes()) {}

// Walks tier by tier: the ports at the same distance on shortest paths. Each switch is left once,
// however many ways lead to it.
IdealTime::Path IdealTime::path(NodeId from, NodeId to, bool single) const {
  Path out;
  ++paths_;
  std::vector<PortId> ports{routes_.nic(from)};
  while (!ports.empty()) {
    Hop hop;
    uint64_t together_bps = 0;
    std::vector<PortId> next;
    bool arrived = false;
    for (const PortId port : ports) {
      const PortConfig& config = config_of(topology_, port);
      hop.rate = std::max(hop.rate, config.rate);
      hop.delay = together_bps == 0 ? config.delay : std::min(hop.delay, config.delay);
      together_bps += config.rate.bits_per_second();
      const NodeId node = topology_.to(port);
      if (node == to) {
        arrived = true;
      } else if (node >= topology_.hosts && std::exchange(path_of_node_[node], paths_) != paths_) {
        const auto more = routes_.next_ports(node, to);
        next.insert(next.end(), more.begin(), more.end());
      }
    }
    hop.together = single ? hop.rate : LinkRate::bps(together_bps);
    out.push_back(hop);
    if (arrived) return out;
    ports = std::move(next);
  }
  return {};
}

IdealTime::Way IdealTime::way(const FlowSpec& flow) const {
  const bool single =
      flow.rpc_credits > 0 || flow.params.path_policy == transport::PathPolicy::kSingle;
  const bool read = flow.operation == FlowOperation::kRead;
  const NodeId source = read ? flow.to : flow.from;
  const NodeId sink = read ? flow.from : flow.to;
  return {path(source, sink, single), path(sink, source, single)};
}

SimSpan IdealTime::of(const Way& way, const FlowSpec& flow, uint64_t bytes) {
  if (way.data.empty() || way.back.empty()) return {};
  const uint64_t full = bytes / flow.path_mtu;
  const auto rest = static_cast<uint32_t>(bytes % flow.path_mtu);
  const auto wire = [&flow](uint32_t payload) { return data_wire_bytes(flow, payload); };
  return train(way.data, full, wire(flow.path_mtu), rest != 0 ? wire(rest) : 0) +
         crossing(way.back, other_wire_bytes(flow));
}

}  // namespace mprdma::switchsim
