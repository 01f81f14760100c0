// Bytes that a packet takes of a wire: all headers, payload, pad, ICRC, FCS, preamble and gap, from
// the functions that the engine's frames are made with.
#pragma once

#include <algorithm>
#include <cstdint>

#include "wire/frame.hpp"

namespace mprdma::switchsim {

// IEEE 802.3: preamble and start delimiter, frame check sequence, smallest frame, gap.
inline constexpr uint32_t kPreambleBytes = 8;
inline constexpr uint32_t kFcsBytes = 4;
inline constexpr uint32_t kFrameBytesMin = 64;
inline constexpr uint32_t kGapBytes = 12;

// Over IPv4, as the engine sends; `headers` is BTH and what follows it.
inline uint32_t wire_bytes(uint32_t headers, uint32_t payload) {
  constexpr uint32_t kOuter = wire::Ethernet::kBytes + wire::Ipv4Header::kBytes + wire::Udp::kBytes;
  const uint32_t frame = kOuter + headers + payload + wire::pad_bytes(payload) +
                         static_cast<uint32_t>(wire::kIcrcBytes) + kFcsBytes;
  return kPreambleBytes + std::max(frame, kFrameBytesMin) + kGapBytes;
}

// Requires a known opcode.
inline uint32_t wire_bytes(const wire::Packet& packet) {
  return wire_bytes(static_cast<uint32_t>(wire::header_bytes(packet)), packet.payload_len);
}

}  // namespace mprdma::switchsim
