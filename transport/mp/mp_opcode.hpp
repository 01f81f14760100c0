// The extended opcodes that a requester of the mode `mp` sends for each work request, and the flags
// that all data packets have.
#pragma once

#include "transport/core/params.hpp"
#include "transport/work/work_opcode.hpp"
#include "wire/mp_data_ext.hpp"
#include "wire/opcode.hpp"

namespace mprdma::transport {

// The opcode of a message's last packet, or of its only one.
constexpr wire::Opcode mp_last_opcode(WorkOpcode opcode, bool only) {
  using wire::Opcode;
  switch (opcode) {
    case WorkOpcode::kSendImm:
      return only ? Opcode::kMpSendOnlyImm : Opcode::kMpSendLastImm;
    case WorkOpcode::kSendInvalidate:
      return only ? Opcode::kMpSendOnlyInvalidate : Opcode::kMpSendLastInvalidate;
    case WorkOpcode::kWrite:
      return only ? Opcode::kMpWriteOnly : Opcode::kMpWriteLast;
    case WorkOpcode::kWriteImm:
      return only ? Opcode::kMpWriteOnlyImm : Opcode::kMpWriteLastImm;
    case WorkOpcode::kRead:
      return Opcode::kMpReadRequest;
    case WorkOpcode::kCompareSwap:
      return Opcode::kMpCompareSwap;
    case WorkOpcode::kFetchAdd:
      return Opcode::kMpFetchAdd;
    default:
      return only ? Opcode::kMpSendOnly : Opcode::kMpSendLast;
  }
}

constexpr wire::Opcode mp_opcode(WorkOpcode opcode, bool first, bool last) {
  using wire::Opcode;
  if (last) return mp_last_opcode(opcode, first);
  if (first) return is_write(opcode) ? Opcode::kMpWriteFirst : Opcode::kMpSendFirst;
  return is_write(opcode) ? Opcode::kMpWriteMiddle : Opcode::kMpSendMiddle;
}

// Of the mp data extension.
constexpr uint8_t asks_for_map(const Params& params) {
  return params.ack_map ? wire::kMpDataTakesMaps : uint8_t{0};
}

}  // namespace mprdma::transport
