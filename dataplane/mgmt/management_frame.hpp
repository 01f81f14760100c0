// What all frames of management datagrams have in common: they go from queue pair 1 to queue pair
// 1, unreliably (IBTA 13.5; 9.8.3).
#pragma once

#include <cstdint>
#include <utility>

#include "base/prng.hpp"
#include "wire/frame.hpp"

namespace mprdma::dataplane {

// A datagram with `bytes` of payload. `source_port`: UDP, the virtual path.
inline wire::Packet management_packet(uint16_t source_port, uint16_t bytes, Psn psn) {
  wire::Packet packet;
  packet.opcode = wire::Opcode::kUdSendOnly;
  packet.vp = source_port;
  packet.psn = psn;
  packet.dest_qpn = wire::kGeneralServicesQpn;
  packet.payload_len = bytes;
  packet.deth = {.q_key = wire::kGeneralServicesQKey, .src_qpn = wire::kGeneralServicesQpn};
  return packet;
}

// The default partition, which is the only one; the top bit only marks a full member (IBTA 10.9.3).
inline bool in_default_partition(uint16_t p_key) {
  return (p_key & 0x7fff) == (wire::kDefaultPKey & 0x7fff);
}

// A random virtual path. Each datagram takes one of its own, so that a broken path does not swallow
// them all.
inline uint16_t any_path(Prng& prng) {
  return static_cast<uint16_t>(prng.range(wire::kVirtualPathMin, wire::kVirtualPathMax));
}

// The address of an answer: the question's headers turned round, so that no neighbour has to be
// resolved.
inline wire::FrameAddress way_back(const wire::FrameAddress& from, wire::Ecn ecn) {
  wire::FrameAddress back = from;
  std::swap(back.src_mac, back.dst_mac);
  std::swap(back.src_ip, back.dst_ip);
  back.ecn = ecn;
  back.ttl = wire::kDefaultTtl;
  back.ip_identification = 0;
  return back;
}

}  // namespace mprdma::dataplane
