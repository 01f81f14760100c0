#include "wire/opcode.hpp"

namespace mprdma::wire {

namespace {

struct NamedOpcode {
  Opcode opcode;
  std::string_view name;
};

constexpr NamedOpcode kNamedOpcodes[] = {
    {Opcode::kRcSendFirst, "RC_SEND_FIRST"},
    {Opcode::kRcSendMiddle, "RC_SEND_MIDDLE"},
    {Opcode::kRcSendLast, "RC_SEND_LAST"},
    {Opcode::kRcSendLastImm, "RC_SEND_LAST_IMM"},
    {Opcode::kRcSendOnly, "RC_SEND_ONLY"},
    {Opcode::kRcSendOnlyImm, "RC_SEND_ONLY_IMM"},
    {Opcode::kRcWriteFirst, "RC_WRITE_FIRST"},
    {Opcode::kRcWriteMiddle, "RC_WRITE_MIDDLE"},
    {Opcode::kRcWriteLast, "RC_WRITE_LAST"},
    {Opcode::kRcWriteLastImm, "RC_WRITE_LAST_IMM"},
    {Opcode::kRcWriteOnly, "RC_WRITE_ONLY"},
    {Opcode::kRcWriteOnlyImm, "RC_WRITE_ONLY_IMM"},
    {Opcode::kRcReadRequest, "RC_READ_REQUEST"},
    {Opcode::kRcReadResponseFirst, "RC_READ_RESPONSE_FIRST"},
    {Opcode::kRcReadResponseMiddle, "RC_READ_RESPONSE_MIDDLE"},
    {Opcode::kRcReadResponseLast, "RC_READ_RESPONSE_LAST"},
    {Opcode::kRcReadResponseOnly, "RC_READ_RESPONSE_ONLY"},
    {Opcode::kRcAck, "RC_ACK"},
    {Opcode::kRcAtomicAck, "RC_ATOMIC_ACK"},
    {Opcode::kRcCompareSwap, "RC_COMPARE_SWAP"},
    {Opcode::kRcFetchAdd, "RC_FETCH_ADD"},
    {Opcode::kRcSendLastInvalidate, "RC_SEND_LAST_INVALIDATE"},
    {Opcode::kRcSendOnlyInvalidate, "RC_SEND_ONLY_INVALIDATE"},
    {Opcode::kUcSendFirst, "UC_SEND_FIRST"},
    {Opcode::kUcSendMiddle, "UC_SEND_MIDDLE"},
    {Opcode::kUcSendLast, "UC_SEND_LAST"},
    {Opcode::kUcSendLastImm, "UC_SEND_LAST_IMM"},
    {Opcode::kUcSendOnly, "UC_SEND_ONLY"},
    {Opcode::kUcSendOnlyImm, "UC_SEND_ONLY_IMM"},
    {Opcode::kUcWriteFirst, "UC_WRITE_FIRST"},
    {Opcode::kUcWriteMiddle, "UC_WRITE_MIDDLE"},
    {Opcode::kUcWriteLast, "UC_WRITE_LAST"},
    {Opcode::kUcWriteLastImm, "UC_WRITE_LAST_IMM"},
    {Opcode::kUcWriteOnly, "UC_WRITE_ONLY"},
    {Opcode::kUcWriteOnlyImm, "UC_WRITE_ONLY_IMM"},
    {Opcode::kUdSendOnly, "UD_SEND_ONLY"},
    {Opcode::kUdSendOnlyImm, "UD_SEND_ONLY_IMM"},
    {Opcode::kCnp, "CNP"},
    {Opcode::kXrcSendFirst, "XRC_SEND_FIRST"},
    {Opcode::kXrcSendMiddle, "XRC_SEND_MIDDLE"},
    {Opcode::kXrcSendLast, "XRC_SEND_LAST"},
    {Opcode::kXrcSendLastImm, "XRC_SEND_LAST_IMM"},
    {Opcode::kXrcSendOnly, "XRC_SEND_ONLY"},
    {Opcode::kXrcSendOnlyImm, "XRC_SEND_ONLY_IMM"},
    {Opcode::kXrcWriteFirst, "XRC_WRITE_FIRST"},
    {Opcode::kXrcWriteMiddle, "XRC_WRITE_MIDDLE"},
    {Opcode::kXrcWriteLast, "XRC_WRITE_LAST"},
    {Opcode::kXrcWriteLastImm, "XRC_WRITE_LAST_IMM"},
    {Opcode::kXrcWriteOnly, "XRC_WRITE_ONLY"},
    {Opcode::kXrcWriteOnlyImm, "XRC_WRITE_ONLY_IMM"},
    {Opcode::kXrcReadRequest, "XRC_READ_REQUEST"},
    {Opcode::kXrcReadResponseFirst, "XRC_READ_RESPONSE_FIRST"},
    {Opcode::kXrcReadResponseMiddle, "XRC_READ_RESPONSE_MIDDLE"},
    {Opcode::kXrcReadResponseLast, "XRC_READ_RESPONSE_LAST"},
    {Opcode::kXrcReadResponseOnly, "XRC_READ_RESPONSE_ONLY"},
    {Opcode::kXrcAck, "XRC_ACK"},
    {Opcode::kXrcAtomicAck, "XRC_ATOMIC_ACK"},
    {Opcode::kXrcCompareSwap, "XRC_COMPARE_SWAP"},
    {Opcode::kXrcFetchAdd, "XRC_FETCH_ADD"},
    {Opcode::kXrcSendLastInvalidate, "XRC_SEND_LAST_INVALIDATE"},
    {Opcode::kXrcSendOnlyInvalidate, "XRC_SEND_ONLY_INVALIDATE"},
    {Opcode::kMpSendFirst, "MP_SEND_FIRST"},
    {Opcode::kMpSendMiddle, "MP_SEND_MIDDLE"},
    {Opcode::kMpSendLast, "MP_SEND_LAST"},
    {Opcode::kMpSendLastImm, "MP_SEND_LAST_IMM"},
    {Opcode::kMpSendOnly, "MP_SEND_ONLY"},
    {Opcode::kMpSendOnlyImm, "MP_SEND_ONLY_IMM"},
    {Opcode::kMpWriteFirst, "MP_WRITE_FIRST"},
    {Opcode::kMpWriteMiddle, "MP_WRITE_MIDDLE"},
    {Opcode::kMpWriteLast, "MP_WRITE_LAST"},
    {Opcode::kMpWriteLastImm, "MP_WRITE_LAST_IMM"},
    {Opcode::kMpWriteOnly, "MP_WRITE_ONLY"},
    {Opcode::kMpWriteOnlyImm, "MP_WRITE_ONLY_IMM"},
    {Opcode::kMpReadRequest, "MP_READ_REQUEST"},
    {Opcode::kMpReadResponseFirst, "MP_READ_RESPONSE_FIRST"},
    {Opcode::kMpReadResponseMiddle, "MP_READ_RESPONSE_MIDDLE"},
    {Opcode::kMpReadResponseLast, "MP_READ_RESPONSE_LAST"},
    {Opcode::kMpReadResponseOnly, "MP_READ_RESPONSE_ONLY"},
    {Opcode::kMpAck, "MP_ACK"},
    {Opcode::kMpAtomicAck, "MP_ATOMIC_ACK"},
    {Opcode::kMpCompareSwap, "MP_COMPARE_SWAP"},
    {Opcode::kMpFetchAdd, "MP_FETCH_ADD"},
    {Opcode::kMpSendLastInvalidate, "MP_SEND_LAST_INVALIDATE"},
    {Opcode::kMpSendOnlyInvalidate, "MP_SEND_ONLY_INVALIDATE"},
    {Opcode::kMpResponseError, "MP_RESPONSE_ERROR"},
    {Opcode::kMpAckMap, "MP_ACK_MAP"},
};

constexpr std::array<std::string_view, 256> make_names() {
  std::array<std::string_view, 256> names{};
  for (std::string_view& name : names) name = "UNKNOWN";
  for (const NamedOpcode& entry : kNamedOpcodes) {
    names[static_cast<uint8_t>(entry.opcode)] = entry.name;
  }
  return names;
}

constexpr std::array<std::string_view, 256> kNames = make_names();

constexpr bool every_valid_opcode_has_a_name() {
  for (unsigned i = 0; i < kNames.size(); ++i) {
    const bool named = kNames[i] != "UNKNOWN";
    if (named != opcode_info(static_cast<uint8_t>(i)).valid) return false;
  }
  return true;
}
static_assert(every_valid_opcode_has_a_name());

}  // namespace

std::string_view opcode_name(Opcode opcode) {
  return kNames[static_cast<uint8_t>(opcode)];
}

}  // namespace mprdma::wire
