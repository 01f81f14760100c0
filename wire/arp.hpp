// ARP for IPv4 over Ethernet (RFC 826).
//
//   byte  0..1   hardware type: 1, Ethernet
//         2..3   protocol type: 0x0800, IPv4
//         4      hardware address length: 6
//         5      protocol address length: 4
//         6..7   operation: 1 request, 2 reply
//         8..13  sender hardware address
//         14..17 sender protocol address
//         18..23 target hardware address
//         24..27 target protocol address
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/byte_order.hpp"
#include "base/ipv4.hpp"
#include "wire/drop_reason.hpp"
#include "wire/ethernet.hpp"

namespace mprdma::wire {

enum class ArpOperation : uint16_t { kRequest = 1, kReply = 2 };

struct Arp {
  static constexpr size_t kBytes = 28;

  ArpOperation operation = ArpOperation::kRequest;
  MacAddress sender_mac{};
  Ipv4 sender_ip{};
  MacAddress target_mac{};
  Ipv4 target_ip{};

  constexpr bool operator==(const Arp&) const = default;

  // Reads what follows the Ethernet header; bytes behind the packet are Ethernet padding.
  static DropReason parse(std::span<const unsigned char> in, Arp& out) {
    if (in.size() < kBytes) return DropReason::kTruncatedArp;
    const uint16_t operation = load_be16(in.data() + 6);
    const bool known = load_be16(in.data()) == 1 && load_be16(in.data() + 2) == kEtherTypeIpv4 &&
                       in[4] == 6 && in[5] == 4 && (operation == 1 || operation == 2);
    if (!known) return DropReason::kBadArp;
    out.operation = static_cast<ArpOperation>(operation);
    std::memcpy(out.sender_mac.data(), in.data() + 8, 6);
    out.sender_ip = Ipv4(load_be32(in.data() + 14));
    std::memcpy(out.target_mac.data(), in.data() + 18, 6);
    out.target_ip = Ipv4(load_be32(in.data() + 24));
    return DropReason::kNone;
  }

  // Requires room for kBytes bytes at `out`.
  void store(unsigned char* out) const {
    store_be16(out, 1);
    store_be16(out + 2, kEtherTypeIpv4);
    out[4] = 6;
    out[5] = 4;
    store_be16(out + 6, static_cast<uint16_t>(operation));
    std::memcpy(out + 8, sender_mac.data(), 6);
    store_be32(out + 14, sender_ip.value());
    std::memcpy(out + 18, target_mac.data(), 6);
    store_be32(out + 24, target_ip.value());
  }
};

// A whole ARP frame, zero-padded to the Ethernet minimum. Requires room for kMinFrameBytes bytes at
// `out`; returns the frame's length.
inline size_t encode_arp_frame(const MacAddress& dst, const MacAddress& src, const Arp& arp,
                               unsigned char* out) {
  std::memset(out, 0, kMinFrameBytes);
  Ethernet{.dst = dst, .src = src, .ether_type = kEtherTypeArp}.store(out);
  arp.store(out + Ethernet::kBytes);
  return kMinFrameBytes;
}

std::string_view to_string(const Arp& arp, std::span<char> out);

}  // namespace mprdma::wire
