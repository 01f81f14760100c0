// What the operations of work requests have in common, whatever the service and the mode; and what
// the length of a packet may be at its place in a message.
#pragma once

#include "transport/core/types.hpp"
#include "wire/packet.hpp"

namespace mprdma::transport {

constexpr bool is_write(WorkOpcode opcode) {
  return opcode == WorkOpcode::kWrite || opcode == WorkOpcode::kWriteImm;
}

constexpr bool is_atomic(WorkOpcode opcode) {
  return opcode == WorkOpcode::kCompareSwap || opcode == WorkOpcode::kFetchAdd;
}

// Answered by data, which takes one of the responder's resources (IBTA 9.7.5.2.3); max_rd_atomic
// bounds those.
constexpr bool is_answered(WorkOpcode opcode) {
  return opcode == WorkOpcode::kRead || is_atomic(opcode);
}

constexpr bool consumes_receive(WorkOpcode opcode) {
  return opcode == WorkOpcode::kSend || opcode == WorkOpcode::kSendImm ||
         opcode == WorkOpcode::kSendInvalidate || opcode == WorkOpcode::kWriteImm;
}

constexpr WcOpcode completion_opcode(WorkOpcode opcode) {
  switch (opcode) {
    case WorkOpcode::kWrite:
    case WorkOpcode::kWriteImm:
      return WcOpcode::kWrite;
    case WorkOpcode::kRead:
      return WcOpcode::kRead;
    case WorkOpcode::kCompareSwap:
      return WcOpcode::kCompareSwap;
    case WorkOpcode::kFetchAdd:
      return WcOpcode::kFetchAdd;
    case WorkOpcode::kLocalInvalidate:
      return WcOpcode::kLocalInvalidate;
    case WorkOpcode::kBindMw:
      return WcOpcode::kBindMw;
    default:
      return WcOpcode::kSend;
  }
}

// Packets that a message of `bytes` takes; an empty message takes one.
constexpr uint32_t packets_of(uint32_t bytes, uint32_t path_mtu) {
  return bytes <= path_mtu ? 1 : (bytes - 1) / path_mtu + 1;
}

// First and middle packets are full, last ones not empty (IBTA 9.7.4.1.6).
inline bool length_fits_place(const wire::Packet& packet, uint32_t path_mtu) {
  const wire::OpcodeInfo& info = packet.info();
  if (info.first || info.middle) return packet.payload_len == path_mtu;
  return packet.payload_len <= path_mtu && (info.only || packet.payload_len > 0);
}

}  // namespace mprdma::transport
