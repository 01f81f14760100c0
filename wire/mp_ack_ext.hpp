// mp acknowledgement extension: follows the BTH of an mp ACK; nothing follows it but the ICRC, or a
// map (mp_ack_map.hpp) where the opcode says so.
//
// The BTH's PSN is AACK: the next PSN that the receiver expects on the acknowledged stream. The UDP
// source port is the virtual path of the packet that caused the acknowledgement.
//
//   byte  0      version (high 4 bits) | reserved
//         1      flags
//         2      NACK code
//         3      detail: the RNR timer code (0..31) under kRnr, else 0
//         4..7   timestamp of the packet that caused this, echoed
//         8..10  SACK PSN: the packet that caused this, received if the NACK code is kNone, dropped
//                if it is kWindowOverflow or kSyncTooEarly; under kRnr and the terminal codes the
//                packet at the head of line (= AACK), which was not ready for (and is held, not
//                dropped, if kMpAckHeld says so) or refused
//         11     run: how many packets before SACK this acknowledges in the same way, 0 unless the
//                peers agreed on it (mad.hpp); see below
//         12..14 MSN: messages that took a receive work request so far (response stream: 0)
//         15     delay: how long the receiver kept the acknowledgement after the packet had come,
//                us, rounded down; 255: that long or longer
//
// A run says that the packets SACK - run .. SACK came one after the other, in order, on the path
// that the acknowledgement echoes, without CE, ReTx and NACK: what run + 1 acknowledgements would
// say, of which each but the last names the packet before that of the next one. AACK is SACK + 1.
// Timestamp and delay are those of the last packet.
//
// Reserved bits are sent as 0 and ignored on receipt. All fields are big endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/byte_order.hpp"
#include "base/psn.hpp"
#include "wire/constants.hpp"

namespace mprdma::wire {

inline constexpr uint8_t kMpAckResponseStream = 1 << 0;  // else it acknowledges the request stream
inline constexpr uint8_t kMpAckEce = 1 << 1;             // the packet carried CE
inline constexpr uint8_t kMpAckReTx = 1 << 2;            // the packet was marked ReTx
inline constexpr uint8_t kMpAckOrderedPlacement = 1 << 3;  // the receiver places in order
inline constexpr uint8_t kMpAckSackValid = 1 << 4;         // the SACK PSN field means something
inline constexpr uint8_t kMpAckHeld = 1 << 5;              // RNR: the packet is held, not lost
inline constexpr uint8_t kMpAckDuplicate = 1 << 6;         // the packet had come before
inline constexpr uint8_t kMpAckFlagsMask = 0x7f;

inline constexpr uint8_t kMpAckDelayMax = UINT8_MAX;  // of the delay, us: as long, or longer

enum class NackCode : uint8_t {
  kNone = 0,             // an acknowledgement
  kWindowOverflow = 1,   // PSN beyond the receive window
  kBudgetExhausted = 2,  // the packet came before its turn, and no frame was left for it
  kSyncTooEarly = 3,     // synchronise before its predecessors: send it again later
  kRnr = 4,              // receiver not ready; detail is the timer code
  kSequenceError = 5,    // PSN sequence error
  kInvalidRequest = 6,   // these three end the queue pair, as the standard's NAKs do
  kRemoteAccessError = 7,
  kRemoteOperationalError = 8,
  kCount
};

struct MpAckExt {
  static constexpr size_t kBytes = 16;

  uint8_t flags = 0;
  NackCode nack = NackCode::kNone;
  uint8_t detail = 0;
  uint8_t run = 0;
  uint32_t echoed_timestamp = 0;
  Psn sack{};
  uint32_t msn : 24 = 0;
  uint32_t delay_us : 8 = 0;

  constexpr bool operator==(const MpAckExt&) const = default;

  // What a received extension claims; load() is meaningful for kMpVersion and codes below kCount.
  static uint8_t version(const unsigned char* in) { return in[0] >> 4; }
  static uint8_t nack_code(const unsigned char* in) { return in[2]; }

  // Requires kBytes bytes at `in`.
  static MpAckExt load(const unsigned char* in) {
    return {.flags = static_cast<uint8_t>(in[1] & kMpAckFlagsMask),
            .nack = static_cast<NackCode>(in[2]),
            .detail = in[3],
            .run = in[11],
            .echoed_timestamp = load_be32(in + 4),
            .sack = Psn(load_be24(in + 8)),
            .msn = load_be24(in + 12),
            .delay_us = in[15]};
  }

  // Requires room for kBytes bytes at `out`.
  void store(unsigned char* out) const {
    out[0] = kMpVersion << 4;
    out[1] = flags & kMpAckFlagsMask;
    out[2] = static_cast<uint8_t>(nack);
    out[3] = detail;
    store_be32(out + 4, echoed_timestamp);
    store_be32(out + 8, sack.value() << 8 | run);
    store_be32(out + 12, uint32_t{msn} << 8 | delay_us);
  }
};

std::string_view nack_code_name(NackCode code);
std::string_view to_string(const MpAckExt& ext, std::span<char> out);

}  // namespace mprdma::wire
