// Why a received frame was refused before any queue pair saw it. Each reason is a counter in the
// host and a name in its telemetry; a frame that decodes has kNone. Further reasons are counters
// named drop_*: an unknown queue pair in dataplane/worker/engine_counters.hpp; a wrong mode, a PSN
// out of the window and others in transport/core/counters.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mprdma::wire {

enum class DropReason : uint8_t {
  kNone,
  kTruncatedEthernet,    // shorter than an Ethernet header
  kUnknownEtherType,     // neither IPv4 nor IPv6 (ARP goes elsewhere before decoding)
  kTruncatedIp,          // ends inside the IP header
  kBadIpVersion,         // version field contradicts the EtherType
  kBadIpHeaderLength,    // IPv4 header length other than 20: RoCEv2 carries no options
  kBadIpChecksum,        // IPv4 header checksum
  kBadIpTotalLength,     // IP length beyond the frame, or below its own header
  kIpFragment,           // RoCEv2 packets are never fragmented
  kNotUdp,               // IP protocol (IPv6: next header) other than UDP
  kTruncatedUdp,         // IP payload shorter than a UDP header
  kBadUdpLength,         // UDP length differs from the IP payload
  kWrongUdpPort,         // destination port other than 4791
  kTruncatedBth,         // shorter than a BTH and the ICRC
  kBadTransportVersion,  // BTH TVer other than 0
  kUnknownOpcode,        // no such BTH opcode
  kTruncatedExtension,   // ends inside the opcode's extension headers
  kBadPad,               // pad count exceeds what follows the headers
  kBadLength,            // payload and pad are no multiple of four bytes
  kUnexpectedPayload,    // payload under an opcode that has none
  kBadExtensionVersion,  // mp extension of a version we do not speak
  kUnknownNackCode,      // mp acknowledgement with a NACK code of no meaning
  kBadIcrc,              // invariant CRC
  kTruncatedArp,         // shorter than an ARP packet
  kBadArp,               // ARP for other than IPv4 over Ethernet, or from a group
  kCount
};

inline constexpr std::array<std::string_view, static_cast<size_t>(DropReason::kCount)>
    kDropReasonNames = {
        "none",
        "truncated_ethernet",
        "unknown_ether_type",
        "truncated_ip",
        "bad_ip_version",
        "bad_ip_header_length",
        "bad_ip_checksum",
        "bad_ip_total_length",
        "ip_fragment",
        "not_udp",
        "truncated_udp",
        "bad_udp_length",
        "wrong_udp_port",
        "truncated_bth",
        "bad_transport_version",
        "unknown_opcode",
        "truncated_extension",
        "bad_pad",
        "bad_length",
        "unexpected_payload",
        "bad_extension_version",
        "unknown_nack_code",
        "bad_icrc",
        "truncated_arp",
        "bad_arp",
};
static_assert(!kDropReasonNames.back().empty(), "every reason has a name");

constexpr std::string_view drop_reason_name(DropReason reason) {
  const auto index = static_cast<size_t>(reason);
  return index < kDropReasonNames.size() ? kDropReasonNames[index] : "?";
}

}  // namespace mprdma::wire
