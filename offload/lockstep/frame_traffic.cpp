#include "offload/lockstep/frame_traffic.hpp"

#include <algorithm>

#include "base/byte_order.hpp"
#include "wire/icrc.hpp"
#include "wire/ip_address.hpp"
#include "wire/ipv4.hpp"

namespace mprdma::offload {

namespace {

using wire::Ethernet;
using wire::Ipv4Header;
using wire::Ipv6;
using wire::Udp;

constexpr size_t kIp = Ethernet::kBytes;
constexpr uint32_t kBeat = 64;

bool is_ipv6(const std::vector<uint8_t>& frame) {
  return frame.size() > kIp && frame[12] == 0x86 && frame[13] == 0xdd;
}
size_t udp_at(const std::vector<uint8_t>& frame) {
  return kIp + (is_ipv6(frame) ? Ipv6::kBytes : Ipv4Header::kBytes);
}
size_t bth_at(const std::vector<uint8_t>& frame) {
  return udp_at(frame) + Udp::kBytes;
}

void repair_checksum(std::vector<uint8_t>& frame) {
  if (is_ipv6(frame) || frame.size() < kIp + Ipv4Header::kBytes) return;
  unsigned char* const ip = frame.data() + kIp;
  store_be16(ip + Ipv4Header::kChecksumOffset, 0);
  store_be16(ip + Ipv4Header::kChecksumOffset, Ipv4Header::checksum(ip));
}

// Where IP says that the packet ends.
size_t end_of(const std::vector<uint8_t>& frame) {
  return is_ipv6(frame) ? kIp + Ipv6::kBytes + load_be16(frame.data() + kIp + 4)
                        : kIp + load_be16(frame.data() + kIp + 2);
}

void repair_icrc(std::vector<uint8_t>& frame) {
  if (frame.size() < bth_at(frame) + wire::Bth::kBytes + wire::kIcrcBytes) return;
  const size_t end = end_of(frame);
  if (end > frame.size() || end < bth_at(frame) + wire::Bth::kBytes + wire::kIcrcBytes) return;
  const size_t covered = end - wire::kIcrcBytes;
  std::vector<uint8_t> copy(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(covered));
  const uint32_t icrc = wire::icrc_of_frame(copy.data(), covered, is_ipv6(frame), {});
  wire::store_icrc(frame.data() + covered, icrc);
}

// The identification for which the sum of the IPv4 header, as far as it has 16 bits, is all ones.
uint16_t about_a_carry(wire::FrameAddress address, const wire::Packet& packet) {
  address.ip_identification = 0;
  unsigned char room[wire::kMaxFrameHeaderBytes];
  unsigned char* const end = room + sizeof(room);
  unsigned char* const ip = end - wire::encode_frame(address, packet, end) + kIp;
  store_be16(ip + Ipv4Header::kChecksumOffset, 0);
  return static_cast<uint16_t>(~Ipv4Header::sum(ip));
}

}  // namespace

std::vector<uint8_t> frame_of(const wire::FrameAddress& address, const wire::Packet& packet,
                              const std::vector<uint8_t>& payload) {
  std::vector<uint8_t> room(wire::kMaxFrameHeaderBytes + payload.size() +
                            wire::kMaxFrameTrailerBytes);
  unsigned char* const start = room.data() + wire::kMaxFrameHeaderBytes;
  const size_t header_bytes = wire::encode_frame(address, packet, start);
  std::copy(payload.begin(), payload.end(), start);
  unsigned char* const frame = start - header_bytes;
  const size_t bytes = wire::finish_frame(frame, header_bytes, payload.size(), true);
  return {frame, frame + bytes};
}

FrameTraffic::FrameTraffic(uint64_t seed) : prng_(seed) {
  for (uint32_t i = 0; i < 256; ++i) {
    if (wire::opcode_info(static_cast<uint8_t>(i)).valid) {
      opcodes_.push_back(static_cast<wire::Opcode>(i));
    }
  }
}

uint32_t FrameTraffic::payload_bytes() {
  switch (below(8)) {
    case 0:
      return 0;
    case 1:
    case 2:
      return below(9);
    case 3:
      return below(4097);
    case 4:
      return prng_.chance(1, 8) ? below(static_cast<uint32_t>(wire::kMaxSegment) + 1) : 1024;
    default:
      return kBeat * below(5) + below(kBeat);
  }
}

wire::Packet FrameTraffic::packet() {
  wire::Packet p;
  p.opcode = opcodes_[below(static_cast<uint32_t>(opcodes_.size()))];
  if (prng_.chance(1, 8)) {
    p.opcode = prng_.chance(1, 2) ? wire::Opcode::kMpAck : wire::Opcode::kMpAckMap;
  }
  const wire::OpcodeInfo& info = p.info();
  p.solicited_event = prng_.chance(1, 2);
  p.ack_req = prng_.chance(1, 2);
  p.fecn = prng_.chance(1, 2);
  p.becn = prng_.chance(1, 2);
  p.mig_req = prng_.chance(1, 2);
  p.ce = prng_.chance(1, 4);
  p.irn = prng_.chance(1, 2);
  p.p_key = static_cast<uint16_t>(bits(16));
  p.vp = static_cast<uint16_t>(bits(16));
  p.psn = Psn(bits(24));
  p.dest_qpn = Qpn(bits(24));
  p.payload_len = info.has_payload ? payload_bytes() : 0;
  if (info.has_mp_data) {
    p.mp_data = {.flags = static_cast<uint8_t>(bits(4)),
                 .timestamp = bits(32),
                 .message_number = bits(24),
                 .offset = bits(32)};
  }
  if (info.has_mp_ack) {
    p.mp_ack.flags = static_cast<uint8_t>(bits(7));
    p.mp_ack.nack =
        static_cast<wire::NackCode>(below(static_cast<uint32_t>(wire::NackCode::kCount)));
    p.mp_ack.detail = static_cast<uint8_t>(bits(8));
    p.mp_ack.run = static_cast<uint8_t>(bits(8));
    p.mp_ack.echoed_timestamp = bits(32);
    p.mp_ack.sack = Psn(bits(24));
    p.mp_ack.msn = bits(24) & kPsnMask;
    p.mp_ack.delay_us = static_cast<uint8_t>(bits(8));
  }
  if (info.has_mp_ack_map) p.mp_ack_map.received = prng_.next_u64();
  if (info.has_xrceth) p.xrc_srqn = bits(24);
  if (info.has_deth) p.deth = {.q_key = bits(32), .src_qpn = Qpn(bits(24))};
  if (info.has_reth || info.has_atomic_eth) {
    p.reth = {.va = prng_.next_u64(), .rkey = Key(bits(32)), .dma_len = bits(32)};
  }
  if (info.has_atomic_eth) {
    p.reth.dma_len = wire::kAtomicBytes;
    p.atomic_swap_add = prng_.next_u64();
    p.atomic_compare = prng_.next_u64();
  }
  if (info.has_aeth) {
    p.aeth.syndrome = static_cast<uint8_t>(bits(8));
    p.aeth.msn = bits(24) & kPsnMask;
  }
  if (info.has_atomic_ack_eth) p.atomic_original = prng_.next_u64();
  if (info.has_immdt) p.immdt = bits(32);
  if (info.has_ieth) p.ieth_rkey = Key(bits(32));
  return p;
}

wire::FrameAddress FrameTraffic::address(const wire::Packet& packet) {
  wire::FrameAddress a;
  for (uint8_t& byte : a.dst_mac) byte = static_cast<uint8_t>(bits(8));
  for (uint8_t& byte : a.src_mac) byte = static_cast<uint8_t>(bits(8));
  a.is_ipv6 = prng_.chance(1, 2);
  if (a.is_ipv6) {
    for (uint8_t& byte : a.src_ip) byte = static_cast<uint8_t>(bits(8));
    for (uint8_t& byte : a.dst_ip) byte = static_cast<uint8_t>(bits(8));
  } else {
    a.src_ip = wire::map_ipv4(Ipv4(bits(32)));
    a.dst_ip = wire::map_ipv4(Ipv4(bits(32)));
    a.ip_identification = static_cast<uint16_t>(bits(16));
  }
  a.dscp = static_cast<uint8_t>(bits(6));
  a.ecn = static_cast<wire::Ecn>(bits(2));
  a.ttl = static_cast<uint8_t>(bits(8));
  if (!a.is_ipv6 && prng_.chance(1, 16)) a.ip_identification = about_a_carry(a, packet);
  return a;
}

std::vector<uint8_t> FrameTraffic::payload(uint32_t bytes) {
  std::vector<uint8_t> out(bytes);
  for (uint8_t& byte : out) byte = static_cast<uint8_t>(bits(8));
  return out;
}

std::vector<uint8_t> FrameTraffic::frame() {
  const wire::Packet p = packet();
  std::vector<uint8_t> out = frame_of(address(p), p, payload(p.payload_len));
  // Ethernet pads short frames; what follows the packet counts for nothing.
  if (prng_.chance(1, 4)) out.resize(out.size() + below(150), static_cast<uint8_t>(bits(8)));
  if (prng_.chance(1, 2)) damage(out);
  return out;
}

void FrameTraffic::damage(std::vector<uint8_t>& frame) {
  const uint32_t what = below(16);
  if (what == 0) {
    frame.resize(1 + below(static_cast<uint32_t>(frame.size())));
    return;
  }
  if (what == 1) {
    frame[below(static_cast<uint32_t>(frame.size()))] ^= static_cast<uint8_t>(1 << below(8));
    return;
  }
  if (what == 2) {
    for (uint8_t& byte : frame) byte = static_cast<uint8_t>(bits(8));
    return;
  }
  if (what < 9) {
    damage_network(frame);
  } else {
    damage_transport(frame);
  }
  if (!prng_.chance(1, 16)) repair_checksum(frame);
  if (prng_.chance(7, 8)) repair_icrc(frame);
}

void FrameTraffic::damage_network(std::vector<uint8_t>& frame) {
  unsigned char* const ip = frame.data() + kIp;
  unsigned char* const udp = frame.data() + udp_at(frame);
  unsigned char* const length = ip + (is_ipv6(frame) ? 4 : 2);
  switch (below(9)) {
    case 0:
      frame[12 + below(2)] ^= static_cast<uint8_t>(1 << below(8));
      break;
    case 1:
      ip[0] ^= static_cast<uint8_t>(1 << below(8));
      break;
    case 2:  // A little more or less, also beyond the frame or within the headers.
      store_be16(length, static_cast<uint16_t>(load_be16(length) + below(17) - 8));
      break;
    case 3:
      store_be16(length, static_cast<uint16_t>(prng_.chance(1, 2) ? below(80) : bits(16)));
      if (prng_.chance(1, 2)) store_be16(udp + Udp::kLengthOffset, load_be16(length));
      break;
    case 4:  // A fragment.
      if (is_ipv6(frame)) {
        ip[6] = wire::kIpv6NextHeaderFragment;
      } else {
        ip[6 + below(2)] ^= static_cast<uint8_t>(1 << below(8));
      }
      break;
    case 5:
      ip[is_ipv6(frame) ? 6 : 9] ^= static_cast<uint8_t>(1 << below(8));
      break;
    case 6:
      udp[2 + below(2)] ^= static_cast<uint8_t>(1 << below(8));
      break;
    case 7:
      udp[4 + below(2)] ^= static_cast<uint8_t>(1 << below(8));
      break;
    default: {  // Both lengths shrink, as where the packet ends within its headers.
      const auto left = static_cast<uint16_t>(below(100));
      store_be16(udp + Udp::kLengthOffset, left);
      store_be16(length, static_cast<uint16_t>(left + (is_ipv6(frame) ? 0 : Ipv4Header::kBytes)));
      break;
    }
  }
}

void FrameTraffic::damage_transport(std::vector<uint8_t>& frame) {
  unsigned char* const bth = frame.data() + bth_at(frame);
  switch (below(6)) {
    case 0:
      bth[0] = static_cast<uint8_t>(bits(8));
      break;
    case 1:
      bth[0] = static_cast<uint8_t>(opcodes_[below(static_cast<uint32_t>(opcodes_.size()))]);
      break;
    case 2:
      bth[1] ^= static_cast<uint8_t>(1 << below(8));
      break;
    case 3:  // Reserved bits.
      bth[prng_.chance(1, 2) ? 4 : 8] = static_cast<uint8_t>(bits(8));
      break;
    case 4:
      bth[12] ^= static_cast<uint8_t>(1 << below(8));
      break;
    default:
      bth[14] = static_cast<uint8_t>(prng_.chance(1, 2) ? bits(8) : below(12));
      break;
  }
}

}  // namespace mprdma::offload
