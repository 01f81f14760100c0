// Invariant CRC of RoCEv2 (InfiniBand Architecture Specification, volume 1, section 7.8.1 and annex
// A17.3.3): CRC-32 of IEEE 802.3 over
//   eight bytes of ones (they stand for the local routing header that RoCE does not have),
//   the packet from its IP header to the last pad byte, with every field that may change on the way
//   read as ones: IPv4 TOS, TTL, header checksum; IPv6 traffic class, flow label, hop limit; the
//   UDP checksum; BTH byte 4,
// stored little-endian behind the packet.
//
//   uint32_t crc = icrc_init();
//   crc = icrc_update(crc, masked_headers);
//   crc = icrc_update(crc, payload_and_pad);
//   store_icrc(end, icrc_final(crc));
//
// The running value is the plain reflected register. A processor with carry-less multiplication
// uses it for all but the shortest pieces (icrc_clmul.hpp); tables, which the compiler builds, do
// the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mprdma::wire {

// The register after the eight bytes of ones.
constexpr uint32_t icrc_init() {
  return 0xdebb20e3;
}

// Advances the register by `bytes`, which may be empty.
uint32_t icrc_update(uint32_t crc, std::span<const unsigned char> bytes);

// The value that goes on the wire, see store_icrc.
constexpr uint32_t icrc_final(uint32_t crc) {
  return ~crc;
}

// Sets to ones what the ICRC leaves out, in a private copy of the headers. Requires at
// `network_header` an IP header of that version, UDP header and BTH.
void icrc_mask(unsigned char* network_header, bool is_ipv6);

// The ICRC of a frame. `headers` is a private copy of everything up to the payload, Ethernet header
// first, which is masked here; `body` is what follows (payload and pad).
uint32_t icrc_of_frame(unsigned char* headers, size_t header_len, bool is_ipv6,
                       std::span<const unsigned char> body);

constexpr void store_icrc(unsigned char* out, uint32_t icrc) {
  for (int i = 0; i < 4; ++i) out[i] = static_cast<unsigned char>(icrc >> 8 * i);
}

constexpr uint32_t load_icrc(const unsigned char* in) {
  return uint32_t{in[0]} | uint32_t{in[1]} << 8 | uint32_t{in[2]} << 16 | uint32_t{in[3]} << 24;
}

}  // namespace mprdma::wire
