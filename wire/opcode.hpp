// The BTH opcodes and what each one implies: transport, place in its message, extension headers.
//
// The top three bits of an opcode name the transport service, the low five the operation
// (InfiniBand Architecture Specification, volume 1, section 9.2.1, table 38). The extended mode
// `mp` has opcodes of its own in the manufacturer-specific range 0xc0..0xff: the service bits 110
// and, in the low five, the operation code of the corresponding RC opcode; so a standard peer drops
// them and a reader of a capture recognises them.
//
// opcode_info() is a table lookup and total: any byte gives an entry, unknown ones are not `valid`.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace mprdma::wire {

enum class Opcode : uint8_t {
  // Reliable connection.
  kRcSendFirst = 0x00,
  kRcSendMiddle = 0x01,
  kRcSendLast = 0x02,
  kRcSendLastImm = 0x03,
  kRcSendOnly = 0x04,
  kRcSendOnlyImm = 0x05,
  kRcWriteFirst = 0x06,
  kRcWriteMiddle = 0x07,
  kRcWriteLast = 0x08,
  kRcWriteLastImm = 0x09,
  kRcWriteOnly = 0x0a,
  kRcWriteOnlyImm = 0x0b,
  kRcReadRequest = 0x0c,
  kRcReadResponseFirst = 0x0d,
  kRcReadResponseMiddle = 0x0e,
  kRcReadResponseLast = 0x0f,
  kRcReadResponseOnly = 0x10,
  kRcAck = 0x11,
  kRcAtomicAck = 0x12,
  kRcCompareSwap = 0x13,
  kRcFetchAdd = 0x14,
  kRcSendLastInvalidate = 0x16,
  kRcSendOnlyInvalidate = 0x17,
  // Unreliable connection.
  kUcSendFirst = 0x20,
  kUcSendMiddle = 0x21,
  kUcSendLast = 0x22,
  kUcSendLastImm = 0x23,
  kUcSendOnly = 0x24,
  kUcSendOnlyImm = 0x25,
  kUcWriteFirst = 0x26,
  kUcWriteMiddle = 0x27,
  kUcWriteLast = 0x28,
  kUcWriteLastImm = 0x29,
  kUcWriteOnly = 0x2a,
  kUcWriteOnlyImm = 0x2b,
  // 0x40..0x5f: reliable datagram, which nobody implements; dropped as unknown.
  // Unreliable datagram.
  kUdSendOnly = 0x64,
  kUdSendOnlyImm = 0x65,
  // RoCEv2 congestion notification packet (annex A17).
  kCnp = 0x81,
  // Extended reliable connection (annex A14).
  kXrcSendFirst = 0xa0,
  kXrcSendMiddle = 0xa1,
  kXrcSendLast = 0xa2,
  kXrcSendLastImm = 0xa3,
  kXrcSendOnly = 0xa4,
  kXrcSendOnlyImm = 0xa5,
  kXrcWriteFirst = 0xa6,
  kXrcWriteMiddle = 0xa7,
  kXrcWriteLast = 0xa8,
  kXrcWriteLastImm = 0xa9,
  kXrcWriteOnly = 0xaa,
  kXrcWriteOnlyImm = 0xab,
  kXrcReadRequest = 0xac,
  kXrcReadResponseFirst = 0xad,
  kXrcReadResponseMiddle = 0xae,
  kXrcReadResponseLast = 0xaf,
  kXrcReadResponseOnly = 0xb0,
  kXrcAck = 0xb1,
  kXrcAtomicAck = 0xb2,
  kXrcCompareSwap = 0xb3,
  kXrcFetchAdd = 0xb4,
  kXrcSendLastInvalidate = 0xb6,
  kXrcSendOnlyInvalidate = 0xb7,
  // mp, ours.
  kMpSendFirst = 0xc0,
  kMpSendMiddle = 0xc1,
  kMpSendLast = 0xc2,
  kMpSendLastImm = 0xc3,
  kMpSendOnly = 0xc4,
  kMpSendOnlyImm = 0xc5,
  kMpWriteFirst = 0xc6,
  kMpWriteMiddle = 0xc7,
  kMpWriteLast = 0xc8,
  kMpWriteLastImm = 0xc9,
  kMpWriteOnly = 0xca,
  kMpWriteOnlyImm = 0xcb,
  kMpReadRequest = 0xcc,
  kMpReadResponseFirst = 0xcd,
  kMpReadResponseMiddle = 0xce,
  kMpReadResponseLast = 0xcf,
  kMpReadResponseOnly = 0xd0,
  kMpAck = 0xd1,
  kMpAtomicAck = 0xd2,
  kMpCompareSwap = 0xd3,
  kMpFetchAdd = 0xd4,
  kMpSendLastInvalidate = 0xd6,
  kMpSendOnlyInvalidate = 0xd7,
  kMpResponseError = 0xd8,  // a READ or atomic that failed midway, in the response stream
  kMpAckMap = 0xd9,         // kMpAck with a map of what else has come
};

enum class TransportService : uint8_t { kNone, kRc, kUc, kUd, kXrc, kCnp, kMp };

// Which flow of packets an opcode belongs to. In mp, requests and responses have a PSN space each
// and both are acknowledged; in the standard's transports responses acknowledge by themselves.
enum class PacketStream : uint8_t { kNone, kRequest, kResponse, kAck };

enum class Operation : uint8_t {
  kNone,
  kSend,
  kWrite,
  kReadRequest,
  kReadResponse,
  kAck,
  kAtomicAck,
  kCompareSwap,
  kFetchAdd,
  kResponseError,
  kCnp,
};

// Aligned so that a table of them is indexed with a shift.
struct alignas(32) OpcodeInfo {
  bool valid = false;
  TransportService transport = TransportService::kNone;
  PacketStream stream = PacketStream::kNone;
  Operation operation = Operation::kNone;
  // Place in the message; exactly one holds for every valid opcode.
  bool first = false;
  bool middle = false;
  bool last = false;
  bool only = false;
  bool has_payload = false;
  // Extension headers, in the order in which they follow the BTH.
  bool has_mp_data = false;
  bool has_mp_ack = false;
  bool has_mp_ack_map = false;
  bool has_xrceth = false;
  bool has_deth = false;
  bool has_reth = false;
  bool has_atomic_eth = false;
  bool has_aeth = false;
  bool has_atomic_ack_eth = false;
  bool has_immdt = false;
  bool has_ieth = false;
  // Headers besides the mp extensions and the RETH.
  bool has_others = false;
  // The packet has a bare form (bare_packet.hpp).
  bool fits_bare = false;
  uint8_t header_bytes = 0;  // BTH and extension headers (CNP: and its 16 reserved bytes)

  constexpr bool starts_message() const { return first || only; }
  constexpr bool ends_message() const { return last || only; }
};

namespace internal {

inline constexpr uint8_t kServiceRc = 0x00;
inline constexpr uint8_t kServiceUc = 0x20;
inline constexpr uint8_t kServiceUd = 0x60;
inline constexpr uint8_t kServiceXrc = 0xa0;
inline constexpr uint8_t kServiceMp = 0xc0;

constexpr void set_place(OpcodeInfo& info, uint8_t code, uint8_t first_code) {
  // SEND and WRITE share a layout: first, middle, last, last+imm, only, only+imm.
  const uint8_t place = code - first_code;
  info.first = place == 0;
  info.middle = place == 1;
  info.last = place == 2 || place == 3;
  info.only = place == 4 || place == 5;
  info.has_immdt = place == 3 || place == 5;
  info.has_payload = true;
  info.stream = PacketStream::kRequest;
}

// The low five bits, as RC has them.
constexpr OpcodeInfo rc_operation(uint8_t code) {
  OpcodeInfo info;
  info.valid = true;
  info.only = true;
  if (code <= 0x05) {
    set_place(info, code, 0x00);
    info.operation = Operation::kSend;
  } else if (code <= 0x0b) {
    set_place(info, code, 0x06);
    info.operation = Operation::kWrite;
    info.has_reth = info.starts_message();
  } else if (code == 0x0c) {
    info.stream = PacketStream::kRequest;
    info.operation = Operation::kReadRequest;
    info.has_reth = true;
  } else if (code <= 0x10) {
    info.stream = PacketStream::kResponse;
    info.operation = Operation::kReadResponse;
    info.first = code == 0x0d;
    info.middle = code == 0x0e;
    info.last = code == 0x0f;
    info.only = code == 0x10;
    info.has_payload = true;
    info.has_aeth = !info.middle;
  } else if (code == 0x11) {
    info.stream = PacketStream::kAck;
    info.operation = Operation::kAck;
    info.has_aeth = true;
  } else if (code == 0x12) {
    info.stream = PacketStream::kResponse;
    info.operation = Operation::kAtomicAck;
    info.has_aeth = true;
    info.has_atomic_ack_eth = true;
  } else if (code == 0x13 || code == 0x14) {
    info.stream = PacketStream::kRequest;
    info.operation = code == 0x13 ? Operation::kCompareSwap : Operation::kFetchAdd;
    info.has_atomic_eth = true;
  } else if (code == 0x16 || code == 0x17) {
    info.stream = PacketStream::kRequest;
    info.operation = Operation::kSend;
    info.last = code == 0x16;
    info.only = code == 0x17;
    info.has_payload = true;
    info.has_ieth = true;
  } else {
    return OpcodeInfo{};
  }
  return info;
}

constexpr OpcodeInfo mp_operation(uint8_t code) {
  OpcodeInfo info = rc_operation(code);
  if (code == 0x18) {
    info.valid = true;
    info.only = true;
    info.stream = PacketStream::kResponse;
    info.operation = Operation::kResponseError;
    info.has_aeth = true;
  } else if (code == 0x19) {
    info.valid = true;
    info.only = true;
    info.stream = PacketStream::kAck;
    info.operation = Operation::kAck;
    info.has_mp_ack_map = true;
  } else if (info.operation == Operation::kWrite) {
    info.has_reth = true;  // in every packet, so that whichever arrives first can be validated
  } else {
    info.has_aeth = false;  // the mp acknowledgement extension stands in for it
  }
  if (!info.valid) return info;
  info.has_mp_ack = info.stream == PacketStream::kAck;
  info.has_mp_data = !info.has_mp_ack;
  return info;
}

constexpr uint8_t header_bytes_of(const OpcodeInfo& info) {
  int bytes = 12;  // BTH
  if (info.has_mp_data) bytes += 16;
  if (info.has_mp_ack) bytes += 16;
  if (info.has_mp_ack_map) bytes += 8;
  if (info.has_xrceth) bytes += 4;
  if (info.has_deth) bytes += 8;
  if (info.has_reth) bytes += 16;
  if (info.has_atomic_eth) bytes += 28;
  if (info.has_aeth) bytes += 4;
  if (info.has_atomic_ack_eth) bytes += 8;
  if (info.has_immdt) bytes += 4;
  if (info.has_ieth) bytes += 4;
  if (info.operation == Operation::kCnp) bytes += 16;
  return static_cast<uint8_t>(bytes);
}

constexpr OpcodeInfo make_opcode_info(uint8_t opcode) {
  const uint8_t service = opcode & 0xe0;
  const uint8_t code = opcode & 0x1f;
  OpcodeInfo info;
  if (service == kServiceRc) {
    info = rc_operation(code);
    info.transport = TransportService::kRc;
  } else if (service == kServiceUc && code <= 0x0b) {
    info = rc_operation(code);
    info.transport = TransportService::kUc;
  } else if (service == kServiceUd && (code == 0x04 || code == 0x05)) {
    info = rc_operation(code);
    info.transport = TransportService::kUd;
    info.has_deth = true;
  } else if (service == kServiceXrc) {
    info = rc_operation(code);
    info.transport = TransportService::kXrc;
    info.has_xrceth = info.stream == PacketStream::kRequest;
  } else if (service == kServiceMp) {
    info = mp_operation(code);
    info.transport = TransportService::kMp;
  } else if (opcode == static_cast<uint8_t>(Opcode::kCnp)) {
    info.valid = true;
    info.transport = TransportService::kCnp;
    info.operation = Operation::kCnp;
    info.only = true;
  }
  if (!info.valid) return OpcodeInfo{};
  info.has_others = info.has_xrceth || info.has_deth || info.has_atomic_eth || info.has_aeth ||
                    info.has_atomic_ack_eth || info.has_immdt || info.has_ieth ||
                    info.has_mp_ack_map || info.operation == Operation::kCnp;
  // No packet of XRC goes bare, not even an answer, which has no XRCETH.
  info.fits_bare = info.transport != TransportService::kXrc && !info.has_deth &&
                   !info.has_atomic_eth && !info.has_atomic_ack_eth && !info.has_mp_ack_map &&
                   info.operation != Operation::kCnp && info.operation != Operation::kResponseError;
  info.header_bytes = header_bytes_of(info);
  return info;
}

constexpr std::array<OpcodeInfo, 256> make_opcode_table() {
  std::array<OpcodeInfo, 256> table{};
  for (unsigned i = 0; i < table.size(); ++i) table[i] = make_opcode_info(static_cast<uint8_t>(i));
  return table;
}

inline constexpr std::array<OpcodeInfo, 256> kOpcodeTable = make_opcode_table();

}  // namespace internal

constexpr const OpcodeInfo& opcode_info(uint8_t opcode) {
  return internal::kOpcodeTable[opcode];
}
constexpr const OpcodeInfo& opcode_info(Opcode opcode) {
  return opcode_info(static_cast<uint8_t>(opcode));
}

// The longest run of BTH and extension headers under any opcode.
constexpr uint8_t max_transport_header_bytes() {
  uint8_t longest = 0;
  for (const OpcodeInfo& info : internal::kOpcodeTable) {
    if (info.header_bytes > longest) longest = info.header_bytes;
  }
  return longest;
}
inline constexpr uint8_t kMaxTransportHeaderBytes = max_transport_header_bytes();

// "MP_WRITE_FIRST", or "UNKNOWN".
std::string_view opcode_name(Opcode opcode);

}  // namespace mprdma::wire
