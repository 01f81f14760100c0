// A RoCE packet as every host of the transport sees it: all header fields, decoded, without
// payload.
//
// Transport, dataplane and simulator pass this struct by reference; the payload lies elsewhere (in
// a frame, in registered memory, or nowhere in the simulator). Which fields mean something follows
// from opcode_info(opcode); the others hold their defaults after decoding, and encoding ignores
// them. Pad is not a field: it follows from payload_len (pad_bytes).
//
// encode_transport and decode_transport translate between this and the bytes from the BTH up to the
// payload; frame.hpp adds Ethernet, IP, UDP and ICRC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/key.hpp"
#include "base/psn.hpp"
#include "base/qpn.hpp"
#include "wire/aeth.hpp"
#include "wire/atomic_eth.hpp"
#include "wire/constants.hpp"
#include "wire/deth.hpp"
#include "wire/drop_reason.hpp"
#include "wire/mp_ack_ext.hpp"
#include "wire/mp_ack_map.hpp"
#include "wire/mp_data_ext.hpp"
#include "wire/opcode.hpp"
#include "wire/reth.hpp"

namespace mprdma::wire {

struct Packet {
  // BTH.
  Opcode opcode = Opcode::kMpSendOnly;
  bool solicited_event = false;
  bool ack_req = false;
  bool fecn = false;
  bool becn = false;
  bool mig_req = true;
  // IP: congestion experienced. Encoding honours it too (switch models, tests).
  bool ce = false;
  bool ipv4 : 1 = false;  // IP: version 4, else 6; set by decoding, ignored by encoding
  bool irn : 1 = false;   // BTH of the RC opcodes: a packet of the mode irn

  uint16_t p_key = kDefaultPKey;
  uint16_t vp = kVirtualPathMin;  // virtual path: the UDP source port
  Psn psn{};                      // of an mp ACK: AACK
  Qpn dest_qpn{};
  uint32_t payload_len = 0;  // bytes, without pad

  MpDataExt mp_data{};    // mp requests and responses
  MpAckExt mp_ack{};      // mp ACK
  MpAckMap mp_ack_map{};  // mp ACK with a map

  // The remote memory of WRITE, READ request and atomics alike, so that one check validates all.
  // For an atomic it comes from the AtomicETH and dma_len is kAtomicBytes.
  Reth reth{};
  uint64_t atomic_swap_add = 0;  // AtomicETH
  uint64_t atomic_compare = 0;   // AtomicETH
  uint64_t atomic_original = 0;  // AtomicAckETH
  Aeth aeth{};                   // standard responses and ACK, mp response error
  Deth deth{};                   // UD
  uint32_t immdt = 0;            // opaque: network order in memory, as in the verbs
  Key ieth_rkey{};               // SEND with invalidate
  uint32_t xrc_srqn = 0;         // XRC requests

  constexpr bool operator==(const Packet&) const = default;

  constexpr const OpcodeInfo& info() const { return opcode_info(opcode); }
};

static_assert(sizeof(Packet) <= 128, "two cache lines");
static_assert(std::is_trivially_copyable_v<Packet>);

// All defaults. To be copied where every instruction counts: for `packet = Packet{}` compilers
// clear a temporary first.
extern const Packet kBlankPacket;

// Zero bytes between payload and ICRC.
constexpr uint32_t pad_bytes(uint32_t payload_len) {
  return -payload_len % kPayloadAlign;
}

// BTH and extension headers of this packet, in bytes; 0 for an unknown opcode.
constexpr size_t header_bytes(const Packet& packet) {
  return packet.info().header_bytes;
}

// Writes BTH and extension headers at `out` (room for header_bytes()) and returns their length.
// Requires a known opcode.
size_t encode_transport(const Packet& packet, unsigned char* out);

// Reads BTH and extension headers. `headers` is a private copy of at least the first
// min(transport_len, kMaxTransportHeaderBytes) bytes of the UDP payload; `transport_len` is the
// length of the UDP payload without the ICRC, that is headers, payload and pad. Fills everything
// but `ce`, `ipv4` and `vp`, which belong to IP and UDP. On a drop `out` holds nothing of use.
DropReason decode_transport(std::span<const unsigned char> headers, size_t transport_len,
                            Packet& out);

// Reads a UDP payload (without ICRC) that needs no private copy, because nobody else writes it.
inline DropReason decode_transport(std::span<const unsigned char> udp_payload, Packet& out) {
  return decode_transport(udp_payload, udp_payload.size(), out);
}

}  // namespace mprdma::wire
