// mp acknowledgement map: follows the mp acknowledgement extension of an MP_ACK_MAP. It says of the
// packets before SACK which of them the receiver has, so that none is sent again only because its
// acknowledgement was lost.
//
//   byte  0..7   bit 63 (the first on the wire): SACK - 1; bit 62: SACK - 2; .. bit 0: SACK - 64.
//                1: the packet is here, or lies before AACK
//
// A receiver makes it for a packet that asks for it (kMpDataTakesMaps) and lies behind AACK; the
// SACK field is valid, the NACK code kNone and the run 0. Elsewhere a sender ignores the map. Big
// endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/byte_order.hpp"

namespace mprdma::wire {

struct MpAckMap {
  static constexpr size_t kBytes = 8;
  static constexpr uint32_t kPackets = 64;  // that a map tells of

  uint64_t received = 0;

  constexpr bool operator==(const MpAckMap&) const = default;

  // Requires kBytes bytes at `in`.
  static MpAckMap load(const unsigned char* in) { return {.received = load_be64(in)}; }

  // Requires room for kBytes bytes at `out`.
  void store(unsigned char* out) const { store_be64(out, received); }
};

std::string_view to_string(const MpAckMap& map, std::span<char> out);

}  // namespace mprdma::wire
