// ACK extended transport header and its syndrome
// (InfiniBand Architecture Specification, volume 1, sections 9.3.5 and 9.7.5.2.1, tables 43 to 46).
//
//   byte  0      syndrome: 0 | kind (bits 6..5) | value (4..0)
//         1..3   message sequence number
//
//   kind  00  ACK; value: credit count code, 31 = no credits are accounted
//         01  RNR NAK; value: timer code (rnr_timer.hpp)
//         11  NAK; value: a NakCode
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/byte_order.hpp"

namespace mprdma::wire {

enum class AethKind : uint8_t { kAck = 0, kRnrNak = 1, kReserved = 2, kNak = 3 };

enum class NakCode : uint8_t {
  kPsnSequenceError = 0,
  kInvalidRequest = 1,
  kRemoteAccessError = 2,
  kRemoteOperationalError = 3,
  kInvalidRdRequest = 4,
};

constexpr AethKind aeth_kind(uint8_t syndrome) {
  // Bit 7 is reserved and must be 0; a syndrome that sets it means nothing we know.
  return (syndrome & 0x80) != 0 ? AethKind::kReserved : static_cast<AethKind>(syndrome >> 5);
}
constexpr uint8_t aeth_value(uint8_t syndrome) {
  return syndrome & 0x1f;
}

constexpr uint8_t make_syndrome(AethKind kind, uint8_t value) {
  return static_cast<uint8_t>(static_cast<uint8_t>(kind) << 5 | (value & 0x1f));
}
constexpr uint8_t rnr_nak_syndrome(uint8_t timer_code) {
  return make_syndrome(AethKind::kRnrNak, timer_code);
}
constexpr uint8_t nak_syndrome(NakCode code) {
  return make_syndrome(AethKind::kNak, static_cast<uint8_t>(code));
}

// An acknowledgement that accounts no end-to-end credits: the only one we send.
inline constexpr uint8_t kAckSyndrome = make_syndrome(AethKind::kAck, 31);

struct Aeth {
  static constexpr size_t kBytes = 4;

  uint8_t syndrome = 0;
  uint32_t msn : 24 = 0;

  constexpr bool operator==(const Aeth&) const = default;

  constexpr AethKind kind() const { return aeth_kind(syndrome); }
  constexpr uint8_t value() const { return aeth_value(syndrome); }

  // Requires kBytes bytes at `in`.
  static Aeth load(const unsigned char* in) {
    return {.syndrome = in[0], .msn = load_be24(in + 1)};
  }

  // Requires room for kBytes bytes at `out`.
  void store(unsigned char* out) const {
    out[0] = syndrome;
    store_be24(out + 1, msn);
  }
};

std::string_view to_string(const Aeth& aeth, std::span<char> out);

}  // namespace mprdma::wire
