// Constants that both peers must share. What each side may choose for itself is in
// transport/core/params.hpp. Page: docs/wire-format.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/qpn.hpp"

namespace mprdma::wire {

// Version of the mp extensions (mp_data_ext.hpp, mp_ack_ext.hpp), sent in each of them.
inline constexpr uint8_t kMpVersion = 1;

// IANA: RoCEv2 (InfiniBand Architecture Specification, annex A17).
inline constexpr uint16_t kRoceUdpPort = 4791;

// A virtual path is a UDP source port out of the dynamic range (RFC 6335); ECMP maps it to a path.
inline constexpr uint16_t kVirtualPathMin = 49152;
inline constexpr uint16_t kVirtualPathMax = 65535;
inline constexpr uint32_t kVirtualPathCount = kVirtualPathMax - kVirtualPathMin + 1;

// Default partition key: full member of the default partition.
inline constexpr uint16_t kDefaultPKey = 0xffff;

// Queue pair numbers have 24 bits. QP 1 takes management datagrams; all ones is multicast.
inline constexpr uint32_t kQpnMask = 0xffffff;
inline constexpr Qpn kGeneralServicesQpn{1};
inline constexpr Qpn kMulticastQpn{0xffffff};
inline constexpr uint32_t kGeneralServicesQKey = 0x80010000;

// Message numbers (mp data extension) and message sequence numbers (AETH) have 24 bits.
inline constexpr uint32_t kMessageNumberMask = 0xffffff;

// Payload and pad together are a multiple of this.
inline constexpr size_t kPayloadAlign = 4;
inline constexpr size_t kIcrcBytes = 4;

// Largest path MTU (payload of one packet) of the standard.
inline constexpr size_t kMaxPathMtu = 4096;
// Longest segment: payload of a packet between two engines that share memory.
inline constexpr size_t kMaxSegment = 16384;

// Explicit congestion notification, the low two bits of TOS or traffic class (RFC 3168).
enum class Ecn : uint8_t { kNotEct = 0, kEct1 = 1, kEct0 = 2, kCe = 3 };

inline constexpr uint8_t kDefaultTtl = 64;

}  // namespace mprdma::wire
