// Management datagrams (InfiniBand Architecture Specification, volume 1, 13.4.3): the payload of a
// UD packet between two queue pairs 1, always 256 bytes. Here: the common header, and the one class
// that is ours, with which two peers agree on the mode of a pair of queue pairs (design 3.4).
//
//   byte  0      base version, 1
//         1      management class
//         2      class version
//         3      response (bit 7) | method (6..0)
//         4..5   status
//         6..7   class specific, 0 here
//         8..15  transaction id: chosen by who asks, the same in the answer
//         16..17 attribute id
//         18..19 reserved
//         20..23 attribute modifier
//
// Vendor class of the second range (0x30..0x4f; 16.5):
//         24..35 RMPP header, all 0: no segmentation
//         36     reserved
//         37..39 OUI
//         40..   the attribute
//
// Attribute PairInfo: what the sender knows and wants of one pair of queue pairs. Get asks with the
// asker's own, GetResp answers with the answerer's.
//         40     wire version of the mp extensions
//         41     phase (bits 7..6) | reserved | ordered placement (bit 0)
//         42     mode that is pinned for the pair, 0: none
//         43     mode that the pair has now, 0: undecided
//         44..47 abilities: bit 1 << mode for each mode that the sender speaks
//         48..49 L, slots of the receive window: the sender's own, or what is agreed
//         50..51 longest payload that the sender takes and can send on the way to the receiver, if
//                that is longer than a path MTU, in units of 256 bytes; else 0
//         52     bit 0: the sender understands acknowledgements of runs (mp_ack_ext.hpp); reserved
//         53..55 sender's queue pair
//         56     reserved
//         57..59 receiver's queue pair
//         60..255 reserved
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/byte_order.hpp"
#include "base/qpn.hpp"
#include "wire/constants.hpp"

namespace mprdma::wire {

inline constexpr size_t kMadBytes = 256;

inline constexpr uint8_t kMadBaseVersion = 1;
inline constexpr uint8_t kMadMethodGet = 0x01;
inline constexpr uint8_t kMadResponse = 0x80;  // of the method's byte
inline constexpr uint8_t kMadMethodGetResp = kMadMethodGet | kMadResponse;

// Status code (13.4.7): the class, method or attribute is not supported.
inline constexpr uint16_t kMadStatusUnsupportedAttribute = 0x000c;

// Ours. The OUI has the locally administered bit, as the Ethernet addresses that we derive.
inline constexpr uint8_t kPairClass = 0x4d;
inline constexpr uint8_t kPairClassVersion = 1;
inline constexpr uint32_t kPairOui = 0x024d52;
inline constexpr uint16_t kPairAttribute = 0x0010;

struct MadHeader {
  static constexpr size_t kBytes = 24;

  uint8_t base_version = kMadBaseVersion;
  uint8_t management_class = 0;
  uint8_t class_version = 0;
  uint8_t method = 0;
  uint16_t status = 0;
  uint64_t transaction = 0;
  uint16_t attribute = 0;
  uint32_t modifier = 0;

  constexpr bool operator==(const MadHeader&) const = default;
  constexpr bool is_response() const { return (method & kMadResponse) != 0; }

  // Requires kBytes bytes at `in`.
  static MadHeader load(const unsigned char* in) {
    return {.base_version = in[0],
            .management_class = in[1],
            .class_version = in[2],
            .method = in[3],
            .status = load_be16(in + 4),
            .transaction = load_be64(in + 8),
            .attribute = load_be16(in + 16),
            .modifier = load_be32(in + 20)};
  }

  // Requires room for kBytes bytes at `out`.
  void store(unsigned char* out) const {
    out[0] = base_version;
    out[1] = management_class;
    out[2] = class_version;
    out[3] = method;
    store_be16(out + 4, status);
    store_be16(out + 6, 0);
    store_be64(out + 8, transaction);
    store_be16(out + 16, attribute);
    store_be16(out + 18, 0);
    store_be32(out + 20, modifier);
  }
};

// The modes of the wire: what two peers have to agree on. Values as in the queue ABI.
enum class PairMode : uint8_t {
  kNone = 0,
  kMp = 1,
  kMpPaper = 2,
  kMpSingle = 3,
  kIrn = 4,
  kRoce = 5,
  kCount
};

// How sure the sender is of `mode`.
enum class PairPhase : uint8_t {
  kUndecided = 0,
  kTentative = 1,  // decided, but no packet of the peer has come in that mode yet
  kFixed = 2,      // a packet has come, or the mode is pinned: it will not change
  kCount
};

struct PairInfo {
  static constexpr size_t kOffset = 40;
  static constexpr size_t kBytes = 20;

  uint8_t wire_version = kMpVersion;
  PairPhase phase = PairPhase::kUndecided;
  bool ordered = false;
  PairMode pinned = PairMode::kNone;
  PairMode mode = PairMode::kNone;
  uint32_t abilities = 0;
  uint16_t window_slots = 0;
  uint32_t segment = 0;  // bytes, a multiple of 256; 0: the path MTU
  bool takes_runs = false;
  Qpn sender_qpn{};
  Qpn receiver_qpn{};

  constexpr bool operator==(const PairInfo&) const = default;
  constexpr bool able(PairMode what) const {
    return (abilities >> static_cast<unsigned>(what) & 1) != 0;
  }
};

// A datagram of our class.
struct PairMad {
  bool response = false;
  uint16_t status = 0;
  uint64_t transaction = 0;
  PairInfo info;

  constexpr bool operator==(const PairMad&) const = default;
};

enum class MadDrop : uint8_t {
  kNone,
  kBadLength,     // a management datagram has 256 bytes
  kBadVersion,    // base version other than 1
  kForeignClass,  // not our class, class version or OUI
  kBadMethod,     // neither Get nor GetResp, or another attribute
  kBadField,      // a mode, a phase or a window that does not exist; a question with a status
  kCount
};

// Writes all 256 bytes.
void encode_pair_mad(const PairMad& mad, std::span<unsigned char, kMadBytes> out);

// Requires nothing of the bytes, which nobody else may write meanwhile. A response with an error
// status has no fields that mean something: its `info` is empty.
MadDrop decode_pair_mad(std::span<const unsigned char> in, PairMad& out);

std::string_view to_string(PairMode mode);
std::string_view to_string(const MadHeader& header, std::span<char> out);
std::string_view to_string(const PairMad& mad, std::span<char> out);

}  // namespace mprdma::wire
