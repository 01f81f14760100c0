// Base transport header, the first header of every RoCE packet
// (InfiniBand Architecture Specification, volume 1, section 9.2).
//
//   byte  0      opcode
//         1      solicited event (bit 7) | MigReq (6) | pad count (5..4) | TVer (3..0)
//         2..3   partition key
//         4      FECN (bit 7) | BECN (6) | reserved; not covered by the ICRC
//         5..7   destination queue pair
//         8      acknowledge request (bit 7) | reserved, of which the mode irn uses bit 6
//         9..11  PSN
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/byte_order.hpp"
#include "base/psn.hpp"
#include "base/qpn.hpp"
#include "wire/constants.hpp"
#include "wire/opcode.hpp"

namespace mprdma::wire {

struct Bth {
  static constexpr size_t kBytes = 12;
  static constexpr size_t kResv8aOffset = 4;  // the byte that the ICRC leaves out
  // Byte 1.
  static constexpr size_t kFlagsOffset = 1;
  static constexpr uint32_t kSolicitedEvent = 0x80;
  static constexpr uint32_t kMigReq = 0x40;
  static constexpr uint32_t kPadShift = 4;
  static constexpr uint32_t kPadMask = 0x3;
  static constexpr uint32_t kVersionMask = 0xf;
  // Bytes 4..7 and 8..11 as words, beside the queue pair number and the PSN.
  static constexpr uint32_t kFecn = 1u << 31;
  static constexpr uint32_t kBecn = 1u << 30;
  static constexpr uint32_t kCongestion = kFecn | kBecn;
  static constexpr uint32_t kAckReq = 1u << 31;
  static constexpr uint32_t kIrn = 1u << 30;

  Opcode opcode = Opcode::kRcSendFirst;
  bool solicited_event = false;
  bool mig_req = true;
  uint8_t pad_count = 0;          // 0..3
  uint8_t transport_version = 0;  // 0 is the only one there is
  uint16_t p_key = kDefaultPKey;
  bool fecn = false;
  bool becn = false;
  Qpn dest_qpn{};  // 24 bits
  bool ack_req = false;
  bool irn = false;  // RC data in the mode irn, which is acknowledged selectively
  Psn psn{};

  constexpr bool operator==(const Bth&) const = default;

  // Requires kBytes bytes at `in`. The opcode may be one that opcode_info() does not know.
  static Bth load(const unsigned char* in) {
    const uint32_t flags = in[kFlagsOffset];
    const uint32_t qpn_word = load_be32(in + 4);
    const uint32_t psn_word = load_be32(in + 8);
    return {.opcode = static_cast<Opcode>(in[0]),
            .solicited_event = (flags & kSolicitedEvent) != 0,
            .mig_req = (flags & kMigReq) != 0,
            .pad_count = static_cast<uint8_t>(flags >> kPadShift & kPadMask),
            .transport_version = static_cast<uint8_t>(flags & kVersionMask),
            .p_key = load_be16(in + 2),
            .fecn = (qpn_word & kFecn) != 0,
            .becn = (qpn_word & kBecn) != 0,
            .dest_qpn = Qpn(qpn_word & kQpnMask),
            .ack_req = (psn_word & kAckReq) != 0,
            .irn = (psn_word & kIrn) != 0,
            .psn = Psn(psn_word)};
  }

  // Requires room for kBytes bytes at `out`.
  void store(unsigned char* out) const {
    const uint32_t flags = (solicited_event ? kSolicitedEvent : 0) | (mig_req ? kMigReq : 0) |
                           (pad_count & kPadMask) << kPadShift | (transport_version & kVersionMask);
    store_be32(out, uint32_t{static_cast<uint8_t>(opcode)} << 24 | flags << 16 | p_key);
    store_be32(out + 4, (fecn ? kFecn : 0) | (becn ? kBecn : 0) | (dest_qpn.value() & kQpnMask));
    store_be32(out + 8, (ack_req ? kAckReq : 0) | (irn ? kIrn : 0) | psn.value());
  }
};

std::string_view to_string(const Bth& bth, std::span<char> out);

}  // namespace mprdma::wire
