// Classifies a frame by a copy of its first bytes: the daemon decides by the copy and sends the
// copy on, because the sender may still write to the frame.
//
// Pure. The bytes may hold anything.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/ipv4.hpp"
#include "wire/ethernet.hpp"
#include "wire/frame.hpp"
#include "wire/ip_address.hpp"

namespace mprdma::dataplane::mprdmad {

// The first bytes of a frame: all headers of any RoCEv2 packet.
struct HeaderCopy {
  static constexpr uint32_t kBytes = 128;
  static_assert(wire::kMaxFrameHeaderBytes <= kBytes);

  alignas(64) std::array<unsigned char, kBytes> bytes;
  uint32_t copied = 0;
  uint32_t length = 0;  // of the whole frame

  void take(const unsigned char* frame, uint32_t frame_bytes) {
    length = frame_bytes;
    copied = frame_bytes < kBytes ? frame_bytes : kBytes;
    // A constant length where it can be.
    if (copied == kBytes) {
      std::memcpy(bytes.data(), frame, kBytes);
    } else {
      std::memcpy(bytes.data(), frame, copied);
    }
  }
};

enum class FrameKind : uint8_t {
  kRoce,       // UDP to port 4791, room for a BTH and an ICRC
  kArp,        // by its EtherType
  kEcho,       // echo request of ICMP or ICMPv6
  kNeighbour,  // solicitation or advertisement of neighbour discovery
  kOther,      // another protocol
  kMalformed,  // lengths or the checksum of the IP header are wrong, or a fragment
};

struct FrameClass {
  FrameKind kind = FrameKind::kMalformed;
  bool group = false;  // Ethernet destination
  bool is_ipv6 = false;
  // IP, of kRoce, kEcho and kNeighbour:
  Ipv4 src_ipv4{};
  Ipv4 dst_ipv4{};
  uint16_t transport_offset = 0;  // of the BTH, or the ICMP header
  uint32_t transport_bytes = 0;   // behind that offset; of kRoce without the ICRC

  static constexpr uint32_t kIpOffset = wire::Ethernet::kBytes;
};

FrameClass classify(const HeaderCopy& copy);

// True for UDP to the RoCEv2 port from one of these addresses, also with wrong lengths, with IP
// options, or as the first of several fragments. Requires an Ethernet header.
bool is_roce_from(const HeaderCopy& copy, Ipv4 ipv4, const wire::IpAddress& ipv6);

// IPv6 addresses of a frame for which is_ipv6 is set.
wire::IpAddress source_ipv6(const HeaderCopy& copy);
wire::IpAddress destination_ipv6(const HeaderCopy& copy);

}  // namespace mprdma::dataplane::mprdmad
