// Messages of communication management (InfiniBand Architecture Specification, volume 1, 12.6 and
// 12.11): management datagrams of class 0x07, class version 2, method Send, between two queue
// pairs 1. Bit by bit in docs/wire-format.md; what rdma_cm adds (Annex A11: service id, and the
// header in front of the private data) is here, too.
//
// Each message is a value type; encode writes all 256 bytes, decode requires nothing of them.
// Fields of InfiniBand's own network (LIDs, service level, subnet local, packet rate) are written
// as Linux writes them for RoCEv2 and ignored when read; alternate paths do not exist. Values are
// as the wire has them: what is wider than its field is cut off.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "base/qpn.hpp"
#include "wire/ip_address.hpp"
#include "wire/mad.hpp"

namespace mprdma::wire {

inline constexpr uint8_t kCmClass = 0x07;
inline constexpr uint8_t kCmClassVersion = 2;
inline constexpr uint8_t kMadMethodSend = 0x03;

enum class CmAttribute : uint16_t {
  kReq = 0x0010,
  kMra = 0x0011,
  kRej = 0x0012,
  kRep = 0x0013,
  kRtu = 0x0014,
  kDreq = 0x0015,
  kDrep = 0x0016,
  kSidrReq = 0x0017,
  kSidrRep = 0x0018,
};

// Reasons of a REJ (12.6.7.2) that we send or tell apart; others are passed on as numbers.
enum class CmRejectReason : uint16_t {
  kNoQp = 1,
  kNoResources = 3,
  kTimeout = 4,
  kUnsupported = 5,
  kInvalidCommId = 6,
  kInvalidServiceId = 8,
  kInvalidTransport = 9,
  kStale = 10,
  kInvalidGid = 12,
  kInvalidMtu = 26,
  kConsumer = 28,
};

// Transport service of a REQ (12.6.5): RC 0, UC 1; 3 with the extended type 1 is XRC. kCount: what
// was read is another one (reliable datagrams), which is to be refused as kInvalidTransport.
enum class CmService : uint8_t { kRc = 0, kUc = 1, kXrc = 3, kCount };

struct CmPrivate {  // its tail is zero
  static constexpr size_t kBytesMax = 224;
  // Written: what is used of the message's room. Read: all of it, messages do not say more.
  uint8_t bytes = 0;
  std::array<unsigned char, kBytesMax> data{};

  bool operator==(const CmPrivate&) const = default;
};

struct CmReq {
  static constexpr size_t kPrivateBytes = 92;
  uint32_t local_comm_id = 0;
  uint64_t service_id = 0;
  uint64_t ca_guid = 0;
  Qpn qpn{};
  uint32_t starting_psn = 0;
  CmService service = CmService::kRc;
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t remote_cm_response_timeout = 20;  // 4.096 us * 2^n, here and below
  uint8_t local_cm_response_timeout = 20;
  uint8_t max_cm_retries = 15;
  bool flow_control = false;
  uint8_t retry_count = 7;
  uint8_t rnr_retry_count = 7;
  bool srq = false;
  uint16_t p_key = 0xffff;
  uint8_t path_mtu = 5;  // enum ibv_mtu
  IpAddress local_gid{};
  IpAddress remote_gid{};
  uint32_t flow_label = 0;  // 20 bits
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 64;
  uint8_t ack_timeout = 0;  // as the timeouts above
  uint32_t ece_vendor = 0;  // 24 bits, as Linux has it, in bytes that the standard reserves
  CmPrivate private_data{};

  bool operator==(const CmReq&) const = default;
};

struct CmMra {
  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  uint8_t message = 0;  // MRAed: 0 REQ, 1 REP
  uint8_t service_timeout = 0;

  bool operator==(const CmMra&) const = default;
};

struct CmRej {
  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  uint8_t message = 0;  // rejected: 0 REQ, 1 REP, 2 none
  uint16_t reason = 0;
  // Additional information (12.6.7.2): of kTimeout the sender's GUID, by which the peer finds a
  // connection whose id it cannot know; of kInvalidMtu the one that would do.
  uint8_t info_bytes = 0;
  std::array<unsigned char, 72> info{};
  CmPrivate private_data{};  // 148 bytes

  bool operator==(const CmRej&) const = default;
};

struct CmRep {
  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  uint64_t ca_guid = 0;
  Qpn qpn{};
  Qpn ee_context{};  // XRC: the target's queue pair stands here, and qpn is 0
  uint32_t starting_psn = 0;
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t target_ack_delay = 0;
  uint8_t failover_accepted = 0;
  bool flow_control = false;
  uint8_t rnr_retry_count = 7;
  bool srq = false;
  uint32_t ece_vendor = 0;
  CmPrivate private_data{};  // 196 bytes

  bool operator==(const CmRep&) const = default;
};

struct CmRtu {
  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  CmPrivate private_data{};  // 224 bytes

  bool operator==(const CmRtu&) const = default;
};
struct CmDreq {
  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  Qpn remote_qpn{};
  CmPrivate private_data{};  // 220 bytes

  bool operator==(const CmDreq&) const = default;
};
struct CmDrep {
  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  CmPrivate private_data{};  // 224 bytes

  bool operator==(const CmDrep&) const = default;
};
struct CmSidrReq {
  uint32_t request_id = 0;
  uint64_t service_id = 0;
  uint16_t p_key = 0xffff;
  CmPrivate private_data{};  // 216 bytes

  bool operator==(const CmSidrReq&) const = default;
};
struct CmSidrRep {
  uint32_t request_id = 0;
  uint8_t status = 0;  // 12.11.2: 0 valid, 1 no such service, 2 rejected by the provider, 3 no qp
  Qpn qpn{};
  uint64_t service_id = 0;
  uint32_t qkey = 0;
  uint32_t ece_vendor = 0;
  CmPrivate private_data{};  // 136 bytes

  bool operator==(const CmSidrRep&) const = default;
};

using CmBody =
    std::variant<CmReq, CmMra, CmRej, CmRep, CmRtu, CmDreq, CmDrep, CmSidrReq, CmSidrRep>;

struct CmMad {
  uint64_t transaction = 0;
  uint32_t modifier = 0;  // ECE options travel here, as Linux has it
  CmBody body{};

  bool operator==(const CmMad&) const = default;
};

// Writes all 256 bytes.
void encode_cm_mad(const CmMad& mad, std::span<unsigned char, kMadBytes> out);
// Requires nothing of the bytes, which nobody else may write meanwhile. kForeignClass: another
// class or version of it; kBadMethod: not a Send, or an attribute that is not named above (LAP,
// APR).
MadDrop decode_cm_mad(std::span<const unsigned char> in, CmMad& out);
std::string_view to_string(const CmMad& mad, std::span<char> out);

// ---- rdma_cm's own (Annex A11)

constexpr uint64_t cm_service_id(uint16_t port_space, uint16_t port) {
  return uint64_t{port_space} << 16 | port;
}

// In front of the private data of a REQ and a SIDR_REQ.
struct CmIpHeader {
  static constexpr size_t kBytes = 36;
  uint8_t ip_version = 4;
  uint16_t source_port = 0;
  IpAddress source{};
  IpAddress destination{};

  bool operator==(const CmIpHeader&) const = default;
};
void encode_cm_ip_header(const CmIpHeader& header,
                         std::span<unsigned char, CmIpHeader::kBytes> out);
// False: another version of it, or an IP version that does not exist.
bool decode_cm_ip_header(std::span<const unsigned char, CmIpHeader::kBytes> in, CmIpHeader& out);

}  // namespace mprdma::wire
