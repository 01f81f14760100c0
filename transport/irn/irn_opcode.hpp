// The packets of the mode irn are those of RC in the standard, with a bit of the BTH that says so;
// acknowledgements, and a response that ends in an error, have the extended opcodes, which stand at
// the place of the RC operation in the range of mp (wire/opcode.hpp).
#pragma once

#include <cstdint>

#include "wire/opcode.hpp"

namespace mprdma::transport {

// The RC opcode of an extended one that the standard has, too. The opcode itself of another one.
constexpr wire::Opcode irn_opcode(wire::Opcode extended) {
  using wire::Opcode;
  const bool standard = extended != Opcode::kMpAck && extended < Opcode::kMpResponseError;
  return standard ? static_cast<Opcode>(static_cast<uint8_t>(extended) & 0x1f) : extended;
}

// Its inverse.
constexpr wire::Opcode extended_opcode(wire::Opcode of_irn) {
  return static_cast<wire::Opcode>(static_cast<uint8_t>(of_irn) |
                                   static_cast<uint8_t>(wire::Opcode::kMpSendFirst));
}

static_assert(irn_opcode(wire::Opcode::kMpSendOnlyInvalidate) ==
              wire::Opcode::kRcSendOnlyInvalidate);
static_assert(irn_opcode(wire::Opcode::kMpReadResponseOnly) == wire::Opcode::kRcReadResponseOnly);
static_assert(irn_opcode(wire::Opcode::kMpAck) == wire::Opcode::kMpAck);
static_assert(irn_opcode(wire::Opcode::kMpAckMap) == wire::Opcode::kMpAckMap);
static_assert(irn_opcode(wire::Opcode::kMpResponseError) == wire::Opcode::kMpResponseError);
static_assert(extended_opcode(wire::Opcode::kRcFetchAdd) == wire::Opcode::kMpFetchAdd);

}  // namespace mprdma::transport
