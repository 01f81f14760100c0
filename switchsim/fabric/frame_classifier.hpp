// What a switch has to know of a frame: is it for one host or for all, what tells its flow from
// others, may it be marked.
//
// Requires nothing of the bytes, but that nobody else can write them: each frame ends in a class or
// in a drop with its cause. Any IP frame passes, not only RoCE: fragments and what is no UDP make a
// flow of their addresses alone.
#pragma once

#include <cstdint>
#include <span>

#include "wire/constants.hpp"
#include "wire/ethernet.hpp"
#include "wire/ip_address.hpp"

namespace mprdma::switchsim {

enum class FrameKind : uint8_t {
  kBad,      // a counted drop
  kFlow,     // IP to one host: takes a path of the network
  kControl,  // ARP, or to a group: passes beside the paths
};

enum class FrameFault : uint8_t {
  kNone,
  kShort,      // ends before the headers that it says it has
  kEtherType,  // neither IPv4, IPv6 nor ARP
  kHeader,     // an IP header that contradicts itself
};

struct FrameClass {
  FrameKind kind = FrameKind::kBad;
  FrameFault fault = FrameFault::kNone;
  bool is_ipv6 = false;
  bool is_roce = false;  // UDP to port 4791, whole
  wire::Ecn ecn = wire::Ecn::kNotEct;
  uint8_t dscp = 0;
  uint8_t protocol = 0;
  uint16_t src_port = 0;  // 0 where there is none
  uint16_t dst_port = 0;
  wire::MacAddress dst_mac{};
  wire::IpAddress src_ip{};  // of kFlow; IPv4 mapped
  wire::IpAddress dst_ip{};
};

FrameClass classify(std::span<const unsigned char> frame);

// Marks a frame that classify() took for a flow with congestion experienced; the IPv4 checksum
// follows. The ICRC of RoCE does not cover these bits.
void mark_congestion(std::span<unsigned char> frame, bool is_ipv6);

// Computes the ICRC of a frame with is_roce, in place: for a frame that comes from a port which
// leaves it out and goes to one which checks it.
void fill_icrc(std::span<unsigned char> frame, bool is_ipv6);

// Largest frame: headers, 4096 bytes of payload, pad, ICRC; as LocalPort's.
inline constexpr uint32_t kFrameBytesMax = 4352;

// Bytes that a frame takes on the wire: at least 60, and preamble, FCS and gap.
constexpr uint32_t wire_bytes(uint32_t frame_bytes) {
  constexpr uint32_t kAroundBytes = 8 + 4 + 12;
  return (frame_bytes < wire::kMinFrameBytes ? static_cast<uint32_t>(wire::kMinFrameBytes)
                                             : frame_bytes) +
         kAroundBytes;
}

}  // namespace mprdma::switchsim
