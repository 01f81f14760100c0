#include "switchsim/sim/scenario/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"
#include "switchsim/sim/scenario/wire_size.hpp"

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

std::optional<uint32_t> Scenario::flow_named(std::string_view wanted) const {
  for (uint32_t i = 0; i < flows.size(); ++i) {
    if (flow_name(i) == wanted) return i;
  }
  return std::nullopt;
}

std::string Scenario::flow_name(uint32_t flow) const {
  const std::string& own = flows[flow].name;
  return own.empty() ? fmt::format("flow{}", flow) : own;
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

uint32_t data_wire_bytes(const FlowSpec& flow, uint32_t payload_bytes) {
  if (flow.rpc_credits > 0) return datagram_wire_bytes(payload_bytes);
  return data_wire_bytes(flow.operation, payload_bytes, flow.params.protocol);
}

uint32_t datagram_wire_bytes(uint32_t payload_bytes) {
  wire::Packet packet;
  packet.opcode = wire::Opcode::kUdSendOnlyImm;
  packet.payload_len = payload_bytes;
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

double payload_ceiling_bps(LinkRate rate, const FlowSpec& flow) {
  return static_cast<double>(rate.bits_per_second()) * flow.path_mtu /
         data_wire_bytes(flow, flow.path_mtu);
}

std::string transport_name(const FlowSpec& flow) {
  return flow.rpc_credits > 0 ? "ud" : transport_name(flow.params);
}

std::string transport_name(const transport::Params& params) {
  if (params.protocol == transport::Protocol::kMp) return "mp";
  if (params.protocol == transport::Protocol::kIrn) {
    const std::string_view congestion = transport::word_of(params.congestion);
    const bool none = params.congestion == transport::Congestion::kNone;
    return none ? "irn" : "irn+" + std::string(congestion);
  }
  if (params.congestion == transport::Congestion::kNone) return "roce";
  return std::string(transport::word_of(params.congestion));
}

}  // namespace mprdma::switchsim
