// Base transport header, the first header of every RoCE packet
// (InfiniBand Architecture Specification, volume 1, section 9.2).
//
//   byte  0      opcode
//         1      solicited event (bit 7) | MigReq (6) | pad count (5..4) | TVer (3..0)
//         2..3   partition key
//         4      FECN (bit 7) | BECN (6) | reserved; not covered by the ICRC
//         5..7   destination queue pair
//         8      acknowledge request (bit 7) | reserved
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
  Psn psn{};

  constexpr bool operator==(const Bth&) const = default;

  // Requires kBytes bytes at `in`. The opcode may be one that opcode_info() does not know.
  static Bth load(const unsigned char* in) {
    return {.opcode = static_cast<Opcode>(in[0]),
            .solicited_event = (in[1] & 0x80) != 0,
            .mig_req = (in[1] & 0x40) != 0,
            .pad_count = static_cast<uint8_t>(in[1] >> 4 & 0x3),
            .transport_version = static_cast<uint8_t>(in[1] & 0xf),
            .p_key = load_be16(in + 2),
            .fecn = (in[4] & 0x80) != 0,
            .becn = (in[4] & 0x40) != 0,
            .dest_qpn = Qpn(load_be24(in + 5)),
            .ack_req = (in[8] & 0x80) != 0,
            .psn = Psn(load_be24(in + 9))};
  }

  // Requires room for kBytes bytes at `out`.
  void store(unsigned char* out) const {
    out[0] = static_cast<uint8_t>(opcode);
    out[1] = static_cast<uint8_t>((solicited_event ? 0x80 : 0) | (mig_req ? 0x40 : 0) |
                                  (pad_count & 0x3) << 4 | (transport_version & 0xf));
    store_be16(out + 2, p_key);
    out[4] = static_cast<uint8_t>((fecn ? 0x80 : 0) | (becn ? 0x40 : 0));
    store_be24(out + 5, dest_qpn.value());
    out[8] = ack_req ? 0x80 : 0;
    store_be24(out + 9, psn.value());
  }
};

std::string_view to_string(const Bth& bth, std::span<char> out);

}  // namespace mprdma::wire
