#include "switchsim/sim/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/check.hpp"
#include "cc/dcqcn.hpp"
#include "switchsim/model/buffer_layout.hpp"
#include "switchsim/sim/traffic.hpp"
#include "switchsim/sim/wire_size.hpp"
#include "transport/types.hpp"

namespace mprdma::switchsim {

std::optional<LinkId> Scenario::link_named(std::string_view wanted) const {
  for (size_t i = 0; i < topology.links.size(); ++i) {
    if (topology.links[i].name == wanted) return static_cast<LinkId>(i);
  }
  return std::nullopt;
}

std::optional<NodeId> Scenario::host_named(std::string_view wanted) const {
  for (size_t i = 0; i < host_names.size(); ++i) {
    if (host_names[i] == wanted) return static_cast<NodeId>(i);
  }
  return std::nullopt;
}

LinkId Scenario::link(std::string_view wanted) const {
  const std::optional<LinkId> found = link_named(wanted);
  CHECK(found.has_value());
  return *found;
}

NodeId Scenario::host(std::string_view wanted) const {
  const std::optional<NodeId> found = host_named(wanted);
  CHECK(found.has_value());
  return *found;
}

namespace {

std::string check_red(const RedConfig& red) {
  if (red.kmin_bytes > red.kmax_bytes) return "RED: kmin is above kmax";
  if (red.pmax_ppm > 1'000'000) return "RED: pmax is above 1";
  return {};
}

std::string check_port(const PortConfig& port) {
  if (port.rate.bits_per_second() == 0) return "a rate of 0 (take the link down instead)";
  if (port.loss_ppm > 1'000'000) return "a loss above 1";
  if (port.delay < SimSpan()) return "a delay below 0";
  return check_red(port.red);
}

std::string check_buffers(const Topology& topology) {
  if (!managed(topology)) return {};
  const bool limited = topology.switch_buffer_bytes != 0;
  if (topology.switch_buffer_bytes > kManagedBufferBytesMax)
    return "switch_buffer_bytes above 2^40";
  if (topology.buffer_alpha_q16 > kBufferAlphaQ16Max) return "buffer_alpha above 64";
  if (!limited && topology.buffer_alpha_q16 != 0) return "buffer_alpha of a buffer without a limit";
  if (topology.pfc.on && topology.pfc.pause_bytes == 0 && topology.buffer_alpha_q16 == 0) {
    return "PFC without a threshold: pause_bytes or buffer_alpha";
  }
  for (const LinkConfig& link : topology.links) {
    if (topology.pfc.on && std::max(link.ab.delay, link.ba.delay) > SimSpan::ms(1000)) {
      return fmt::format("link '{}': a delay above a second, with PFC", link.name);
    }
  }
  const uint64_t bytes = limited ? topology.switch_buffer_bytes : kManagedBufferBytesMax;
  for (const uint64_t dedicated : dedicated_bytes(topology)) {
    if (dedicated <= bytes) continue;
    return fmt::format("a switch's reserves and headroom take {} of its {} bytes", dedicated,
                       bytes);
  }
  return {};
}

std::string check_topology(const Scenario& scenario) {
  const Topology& topology = scenario.topology;
  if (topology.hosts < 2) return "fewer than two hosts";
  if (scenario.host_names.size() != topology.hosts) return "hosts without names";
  std::vector<uint32_t> links_of(topology.nodes());
  std::set<std::string> names;
  for (const LinkConfig& link : topology.links) {
    if (link.a >= topology.nodes() || link.b >= topology.nodes() || link.a == link.b) {
      return fmt::format("link '{}': no such ends", link.name);
    }
    if (!names.insert(link.name).second) return fmt::format("two links named '{}'", link.name);
    ++links_of[link.a];
    ++links_of[link.b];
    for (const PortConfig* port : {&link.ab, &link.ba}) {
      const std::string error = check_port(*port);
      if (!error.empty()) return fmt::format("link '{}': {}", link.name, error);
    }
  }
  for (NodeId host = 0; host < topology.hosts; ++host) {
    if (links_of[host] != 1) {
      return fmt::format("host '{}' has {} links, not one", scenario.host_names[host],
                         links_of[host]);
    }
  }
  return check_buffers(topology);
}

std::string check_flow(const Scenario& scenario, const FlowSpec& flow) {
  const transport::Params& p = flow.params;
  if (flow.from >= scenario.topology.hosts || flow.to >= scenario.topology.hosts) {
    return "no such host";
  }
  if (flow.from == flow.to) return "from a host to itself";
  if (flow.path_mtu < 256 || flow.path_mtu > 4096) return "path_mtu is not in 256..4096";
  if (flow.post_depth == 0 || flow.post_depth > 4096) return "post_depth is not in 1..4096";
  if (flow.message_bytes == 0 || flow.message_bytes > transport::kMaxMessageBytes) {
    return "message_bytes is not in 1..2^30";
  }
  for (size_t i = 0; i < flow.timed_messages.size(); ++i) {
    const TimedMessage& message = flow.timed_messages[i];
    if (message.bytes == 0 || message.bytes > transport::kMaxMessageBytes) {
      return "a message's size is not in 1..2^30";
    }
    if (i > 0 && message.at < flow.timed_messages[i - 1].at) return "messages out of order";
  }
  if (flow.synchronise_ppm > 1'000'000) return "a synchronise share above 1";
  if (flow.turn_packets == 0 || flow.turn_packets > 4096) return "turn_packets is not in 1..4096";
  if (flow.think > SimSpan() && flow.post_depth != 1) return "think needs a post_depth of 1";
  if (flow.pinned_link && *flow.pinned_link >= scenario.topology.links.size()) {
    return "pinned to a link that is not there";
  }
  if (flow.pinned_link && p.path_policy != transport::PathPolicy::kSingle) {
    return "pinned, and not on a single path";
  }
  if (p.initial_window > p.window_slots) return "initial_window exceeds window_slots";
  if (p.window_max < p.initial_window) return "window_max is below initial_window";
  if (p.loss_trigger > p.window_slots) return "loss_trigger exceeds window_slots";
  if (p.reorder_delta > p.window_slots) return "reorder_delta exceeds window_slots";
  if (p.rto_ceiling < p.rto_floor) return "rto_ceiling is below rto_floor";
  if (p.congestion != transport::Congestion::kNone && p.protocol != transport::Protocol::kRoce) {
    return "congestion control of the mode roce, and another mode";
  }
  return {};
}

std::string flow_name(const Scenario& scenario, size_t i) {
  const std::string& name = scenario.flows[i].name;
  return name.empty() ? fmt::format("flow{}", i) : name;
}

std::string check_flows(const Scenario& scenario) {
  std::set<std::string> names;
  for (size_t i = 0; i < scenario.flows.size(); ++i) {
    const std::string name = flow_name(scenario, i);
    const std::string error = check_flow(scenario, scenario.flows[i]);
    if (!error.empty()) return fmt::format("flow '{}': {}", name, error);
    if (!names.insert(name).second) return fmt::format("two flows named '{}'", name);
  }
  return {};
}

// A flow of the traffic may get the other name: its own is the stem and a number.
bool names_collide(std::string_view stem, std::string_view other) {
  return other.starts_with(stem) &&
         other.find_first_not_of("0123456789", stem.size()) == std::string_view::npos;
}

std::string check_all_traffic(const Scenario& scenario) {
  for (size_t i = 0; i < scenario.traffic.size(); ++i) {
    const TrafficSpec& traffic = scenario.traffic[i];
    const std::string& stem = traffic.flow.name;
    std::string error = check_traffic(scenario, traffic);
    if (error.empty()) {
      FlowSpec flow = traffic.flow;  // of any two hosts
      flow.from = 0;
      flow.to = 1;
      error = check_flow(scenario, flow);
    }
    if (!error.empty()) return fmt::format("traffic '{}': {}", stem, error);
    for (size_t j = 0; j < scenario.traffic.size(); ++j) {
      const std::string& other = scenario.traffic[j].flow.name;
      if (i == j || !names_collide(stem, other)) continue;
      return fmt::format("traffic '{}' and '{}': their flows would have the same names", stem,
                         other);
    }
    for (size_t j = 0; j < scenario.flows.size(); ++j) {
      if (!names_collide(stem, flow_name(scenario, j))) continue;
      return fmt::format("traffic '{}': its flows would be named like flow '{}'", stem,
                         flow_name(scenario, j));
    }
  }
  return {};
}

std::string check_event(const Scenario& scenario, const LinkEvent& event) {
  if (event.link >= scenario.topology.links.size()) return "no such link";
  if (event.at < SimTime()) return "before the beginning";
  if (event.rate && event.rate->bits_per_second() == 0) {
    return "a rate of 0 (take the link down instead)";
  }
  if (event.loss_ppm && *event.loss_ppm > 1'000'000) return "a loss above 1";
  if (event.delay && *event.delay < SimSpan()) return "a delay below 0";
  return event.red ? check_red(*event.red) : std::string();
}

}  // namespace

std::string validate(const Scenario& scenario) {
  std::string error = check_topology(scenario);
  if (!error.empty()) return "topology: " + error;
  if (scenario.duration <= SimSpan()) return "duration is not above 0";
  if (scenario.warm_up < SimSpan() || scenario.warm_up >= scenario.duration) {
    return "warm_up is not in 0..duration";
  }
  if (scenario.sample <= SimSpan() || scenario.queue_sample <= SimSpan()) {
    return "a sampling interval of 0";
  }
  if (scenario.ack_delay < SimSpan() || scenario.ack_jitter < SimSpan()) {
    return "a delay of acknowledgements below 0";
  }
  for (const LinkId path : scenario.paths) {
    if (path >= scenario.topology.links.size()) return "a path is a link that is not there";
  }
  if (scenario.flows.empty() && scenario.traffic.empty()) return "no flow";
  error = check_flows(scenario);
  if (error.empty()) error = check_all_traffic(scenario);
  if (!error.empty()) return error;
  for (const LinkEvent& event : scenario.events) {
    error = check_event(scenario, event);
    if (!error.empty()) return fmt::format("event at {} us: {}", event.at.ps() / 1e6, error);
  }
  return {};
}

uint32_t data_wire_bytes(FlowOperation operation, uint32_t payload_bytes,
                         transport::Protocol protocol) {
  using wire::Opcode;
  const bool mp = protocol == transport::Protocol::kMp;
  wire::Packet packet;
  packet.payload_len = payload_bytes;
  switch (operation) {
    case FlowOperation::kWrite:
      packet.opcode = mp ? Opcode::kMpWriteMiddle : Opcode::kRcWriteMiddle;
      break;
    case FlowOperation::kSend:
      packet.opcode = mp ? Opcode::kMpSendMiddle : Opcode::kRcSendMiddle;
      break;
    case FlowOperation::kRead:
      packet.opcode = mp ? Opcode::kMpReadResponseMiddle : Opcode::kRcReadResponseMiddle;
      break;
  }
  return wire_bytes(packet);
}

uint32_t ack_wire_bytes() {
  wire::Packet packet;
  packet.opcode = wire::Opcode::kMpAck;
  return wire_bytes(packet);
}

uint32_t longest_packet_bytes(const Scenario& scenario) {
  uint32_t path_mtu = 0;
  for (const FlowSpec& flow : scenario.flows) path_mtu = std::max(path_mtu, flow.path_mtu);
  for (const TrafficSpec& traffic : scenario.traffic) {
    path_mtu = std::max(path_mtu, traffic.flow.path_mtu);
  }
  return wire_bytes(wire::kMaxTransportHeaderBytes, path_mtu);
}

double payload_ceiling_bps(LinkRate rate, FlowOperation operation, uint32_t path_mtu,
                           transport::Protocol protocol) {
  return static_cast<double>(rate.bits_per_second()) * path_mtu /
         data_wire_bytes(operation, path_mtu, protocol);
}

std::string transport_name(const transport::Params& params) {
  if (params.protocol == transport::Protocol::kMp) return "mp";
  switch (params.congestion) {
    case transport::Congestion::kDcqcnPaper:
      return cc::dcqcn_constants(cc::DcqcnPreset::kPaper).name;
    case transport::Congestion::kDcqcnTuned:
      return cc::dcqcn_constants(cc::DcqcnPreset::kTuned).name;
    default:
      return "roce";
  }
}

}  // namespace mprdma::switchsim
