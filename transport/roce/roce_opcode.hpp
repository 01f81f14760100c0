// The BTH opcodes of the standard's reliable connection by operation, place in the message and
// service (IBTA volume 1, 9.2.1, table 38; XRC: annex A14, where the operation codes of RC stand
// under service bits of their own).
#pragma once

#include <cstdint>

#include "transport/work/work_opcode.hpp"
#include "wire/aeth.hpp"
#include "wire/mp_ack_ext.hpp"
#include "wire/opcode.hpp"

namespace mprdma::transport {

// Tells whether go-back-0 begins a message again whose first PSN is `first`, after a loss at `psn`.
// Behind the first 2^21 packets of a message both ends go back N. A message may have 2^22 packets
// (1 GiB in packets of 256 bytes), a READ behind it as many, and serial numbers span less than
// 2^23.
constexpr bool goes_back_0(Psn first, Psn psn) {
  return first.distance_to(psn) < int32_t{1} << 21;
}

// The XRC opcode of an RC opcode's operation, or the RC opcode itself.
constexpr wire::Opcode roce_opcode(wire::Opcode rc, bool xrc) {
  return xrc ? static_cast<wire::Opcode>(static_cast<uint8_t>(rc) |
                                         static_cast<uint8_t>(wire::Opcode::kXrcSendFirst))
             : rc;
}
static_assert(roce_opcode(wire::Opcode::kRcAck, true) == wire::Opcode::kXrcAck);

constexpr wire::Opcode roce_last_opcode(WorkOpcode opcode, bool only) {
  using wire::Opcode;
  switch (opcode) {
    case WorkOpcode::kSend:
      return only ? Opcode::kRcSendOnly : Opcode::kRcSendLast;
    case WorkOpcode::kSendImm:
      return only ? Opcode::kRcSendOnlyImm : Opcode::kRcSendLastImm;
    case WorkOpcode::kSendInvalidate:
      return only ? Opcode::kRcSendOnlyInvalidate : Opcode::kRcSendLastInvalidate;
    case WorkOpcode::kWrite:
      return only ? Opcode::kRcWriteOnly : Opcode::kRcWriteLast;
    case WorkOpcode::kWriteImm:
      return only ? Opcode::kRcWriteOnlyImm : Opcode::kRcWriteLastImm;
    case WorkOpcode::kCompareSwap:
      return Opcode::kRcCompareSwap;
    case WorkOpcode::kFetchAdd:
      return Opcode::kRcFetchAdd;
    default:
      return Opcode::kRcReadRequest;
  }
}

// The opcode of a request's packet.
constexpr wire::Opcode roce_request_opcode(WorkOpcode opcode, bool first, bool last) {
  using wire::Opcode;
  if (last) return roce_last_opcode(opcode, first);
  if (is_write(opcode)) return first ? Opcode::kRcWriteFirst : Opcode::kRcWriteMiddle;
  return first ? Opcode::kRcSendFirst : Opcode::kRcSendMiddle;
}

// The opcode of a READ response's packet.
constexpr wire::Opcode roce_response_opcode(bool first, bool last) {
  using wire::Opcode;
  if (first) return last ? Opcode::kRcReadResponseOnly : Opcode::kRcReadResponseFirst;
  return last ? Opcode::kRcReadResponseLast : Opcode::kRcReadResponseMiddle;
}

// Completion::vendor_err for the NAK that caused a completion's error: the code that the mode mp
// has for that error.
constexpr uint32_t roce_vendor_err(uint8_t syndrome) {
  using wire::NackCode;
  if (wire::aeth_kind(syndrome) == wire::AethKind::kRnrNak) {
    return static_cast<uint32_t>(NackCode::kRnr);
  }
  switch (static_cast<wire::NakCode>(wire::aeth_value(syndrome))) {
    case wire::NakCode::kPsnSequenceError:
      return static_cast<uint32_t>(NackCode::kSequenceError);
    case wire::NakCode::kInvalidRequest:
      return static_cast<uint32_t>(NackCode::kInvalidRequest);
    case wire::NakCode::kRemoteAccessError:
      return static_cast<uint32_t>(NackCode::kRemoteAccessError);
    case wire::NakCode::kRemoteOperationalError:
      return static_cast<uint32_t>(NackCode::kRemoteOperationalError);
    default:
      return 0;
  }
}

}  // namespace mprdma::transport
