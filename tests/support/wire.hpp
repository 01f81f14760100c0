// What tests of wire formats share: buffers full of junk, packets with a value in every field,
// whole frames, and readable failure messages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <span>
#include <vector>

#include "base/ipv4.hpp"
#include "base/prng.hpp"
#include "tests/support/print.hpp"
#include "wire/frame.hpp"
#include "wire/print.hpp"

namespace mprdma::wire {

inline void PrintTo(const Packet& packet, std::ostream* out) {
  std::array<char, kTextBytes> text;
  *out << to_string(packet, text);
}

inline void PrintTo(DropReason reason, std::ostream* out) {
  *out << drop_reason_name(reason);
}

inline void PrintTo(Opcode opcode, std::ostream* out) {
  *out << opcode_name(opcode);
}

}  // namespace mprdma::wire

namespace mprdma::test {

// Every opcode that opcode_info() knows.
inline std::vector<wire::Opcode> valid_opcodes() {
  std::vector<wire::Opcode> opcodes;
  for (unsigned i = 0; i < 256; ++i) {
    const auto opcode = static_cast<wire::Opcode>(i);
    if (wire::opcode_info(opcode).valid) opcodes.push_back(opcode);
  }
  return opcodes;
}

// What Header::store writes into a buffer of junk, so that a byte it forgets shows; the junk around
// it has to survive.
template <typename Header>
std::vector<unsigned char> stored(const Header& header) {
  constexpr unsigned char kJunk = 0xa5;
  constexpr size_t kMargin = 8;
  std::array<unsigned char, Header::kBytes + 2 * kMargin> buffer;
  buffer.fill(kJunk);
  header.store(buffer.data() + kMargin);
  for (size_t i = 0; i < kMargin; ++i) {
    if (buffer[i] != kJunk || buffer[kMargin + Header::kBytes + i] != kJunk) return {};
  }
  return {buffer.begin() + kMargin, buffer.end() - kMargin};
}

// A packet with drawn values in every field that the opcode carries, and in no other, so that it
// equals itself after a trip over the wire.
inline wire::Packet random_packet(wire::Opcode opcode, Prng& prng, uint32_t payload_len_max) {
  const wire::OpcodeInfo& info = wire::opcode_info(opcode);
  const auto draw24 = [&prng] { return static_cast<uint32_t>(prng.next_u64() & 0xffffff); };
  const auto draw32 = [&prng] { return static_cast<uint32_t>(prng.next_u64()); };
  const auto draw8 = [&prng](uint64_t mask) {
    return static_cast<uint8_t>(prng.next_u64() & mask);
  };

  wire::Packet packet;
  packet.opcode = opcode;
  packet.solicited_event = prng.chance(1, 2);
  packet.ack_req = prng.chance(1, 2);
  packet.irn = info.transport == wire::TransportService::kRc && prng.chance(1, 2);
  packet.fecn = prng.chance(1, 2);
  packet.becn = prng.chance(1, 2);
  packet.mig_req = prng.chance(1, 2);
  packet.ce = prng.chance(1, 2);
  packet.p_key = static_cast<uint16_t>(prng.next_u64());
  packet.vp = static_cast<uint16_t>(prng.next_u64());
  packet.psn = Psn(draw24());
  packet.dest_qpn = Qpn(draw24());
  if (info.has_payload) packet.payload_len = static_cast<uint32_t>(prng.range(0, payload_len_max));
  if (info.has_mp_data) {
    packet.mp_data = {.flags = draw8(wire::kMpDataFlagsMask),
                      .timestamp = draw32(),
                      .message_number = draw24(),
                      .offset = draw32()};
  }
  if (info.has_mp_ack) {
    packet.mp_ack = {.flags = draw8(wire::kMpAckFlagsMask),
                     .nack = static_cast<wire::NackCode>(
                         prng.below(static_cast<uint64_t>(wire::NackCode::kCount))),
                     .detail = draw8(0x1f),
                     .run = draw8(0xff),
                     .echoed_timestamp = draw32(),
                     .sack = Psn(draw24()),
                     .msn = draw24(),
                     .delay_us = draw8(0xff)};
  }
  if (info.has_mp_ack_map) packet.mp_ack_map = {.received = prng.next_u64()};
  if (info.has_reth) {
    packet.reth = {.va = prng.next_u64(), .rkey = Key(draw32()), .dma_len = draw32()};
  }
  if (info.has_atomic_eth) {
    packet.reth = {.va = prng.next_u64(), .rkey = Key(draw32()), .dma_len = wire::kAtomicBytes};
    packet.atomic_swap_add = prng.next_u64();
    packet.atomic_compare = prng.next_u64();
  }
  if (info.has_atomic_ack_eth) packet.atomic_original = prng.next_u64();
  if (info.has_aeth) packet.aeth = {.syndrome = draw8(0xff), .msn = draw24()};
  if (info.has_deth) packet.deth = {.q_key = draw32(), .src_qpn = Qpn(draw24())};
  if (info.has_xrceth) packet.xrc_srqn = draw24();
  if (info.has_immdt) packet.immdt = draw32();
  if (info.has_ieth) packet.ieth_rkey = Key(draw32());
  return packet;
}

inline wire::FrameAddress ipv4_address() {
  wire::FrameAddress address;
  address.dst_mac = {0x02, 0, 0, 0, 0, 0x02};
  address.src_mac = {0x02, 0, 0, 0, 0, 0x01};
  address.src_ip = wire::map_ipv4(Ipv4(0x0a010001));
  address.dst_ip = wire::map_ipv4(Ipv4(0x0a010002));
  return address;
}

inline wire::FrameAddress ipv6_address() {
  wire::FrameAddress address = ipv4_address();
  address.is_ipv6 = true;
  address.src_ip = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  address.dst_ip = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  return address;
}

// A whole frame. The payload has to be packet.payload_len bytes long; without one it counts up
// from 0.
inline std::vector<unsigned char> make_frame(const wire::FrameAddress& address,
                                             const wire::Packet& packet, bool with_icrc = true,
                                             std::span<const unsigned char> payload = {}) {
  constexpr unsigned char kJunk = 0xa5;
  std::vector<unsigned char> buffer(
      wire::kMaxFrameHeaderBytes + packet.payload_len + wire::kMaxFrameTrailerBytes, kJunk);
  unsigned char* payload_start = buffer.data() + wire::kMaxFrameHeaderBytes;
  const size_t header_len = wire::encode_frame(address, packet, payload_start);
  for (size_t i = 0; i < packet.payload_len; ++i) {
    payload_start[i] = payload.empty() ? static_cast<unsigned char>(i) : payload[i];
  }
  unsigned char* frame = payload_start - header_len;
  const size_t frame_len = wire::finish_frame(frame, header_len, packet.payload_len, with_icrc);
  return {frame, frame + frame_len};
}

}  // namespace mprdma::test
