// mp data extension: follows the BTH in every packet of the request and the response stream.
//
//   byte  0      version (high 4 bits) | reserved
//         1      flags
//         2..3   reserved
//         4..7   timestamp: the sender's own clock in ns, modulo 2^32; the receiver echoes it
//                without reading it
//         8..10  message number
//         11     reserved
//         12..15 offset of this packet's payload in its message, in bytes
//
// Reserved bits are sent as 0 and ignored on receipt. All fields are big endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/byte_order.hpp"
#include "wire/constants.hpp"

namespace mprdma::wire {

inline constexpr uint8_t kMpDataReTx = 1 << 0;       // sent before: exempt from path judgement
inline constexpr uint8_t kMpDataSync = 1 << 1;       // update memory only after everything before
inline constexpr uint8_t kMpDataTailProbe = 1 << 2;  // a probe for lost acknowledgements
inline constexpr uint8_t kMpDataTakesMaps = 1 << 3;  // its acknowledgement may have a map
inline constexpr uint8_t kMpDataFlagsMask =
    kMpDataReTx | kMpDataSync | kMpDataTailProbe | kMpDataTakesMaps;

struct MpDataExt {
  static constexpr size_t kBytes = 16;

  uint8_t flags = 0;
  uint32_t timestamp = 0;
  // 24 bits. Request stream: counts messages that consume a receive WQE (SEND, WRITE with
  // immediate). Response stream: counts the READ and atomic requests of the queue pair.
  uint32_t message_number = 0;
  uint32_t offset = 0;

  constexpr bool operator==(const MpDataExt&) const = default;

  // The version that a received extension claims; load() is meaningful for kMpVersion only.
  static uint8_t version(const unsigned char* in) { return in[0] >> 4; }

  // Requires kBytes bytes at `in`.
  static MpDataExt load(const unsigned char* in) {
    return {.flags = static_cast<uint8_t>(in[1] & kMpDataFlagsMask),
            .timestamp = load_be32(in + 4),
            .message_number = load_be24(in + 8),
            .offset = load_be32(in + 12)};
  }

  // Requires room for kBytes bytes at `out`.
  void store(unsigned char* out) const {
    out[0] = kMpVersion << 4;
    out[1] = flags & kMpDataFlagsMask;
    store_be16(out + 2, 0);
    store_be32(out + 4, timestamp);
    store_be32(out + 8, message_number << 8);
    store_be32(out + 12, offset);
  }
};

std::string_view to_string(const MpDataExt& ext, std::span<char> out);

}  // namespace mprdma::wire
