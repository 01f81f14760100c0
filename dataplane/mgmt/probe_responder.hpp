// The answering side of path probes (wire/probe_mad.hpp): the rate limit, and the contents and the
// address of answers. Pure; called by qp1.hpp.
#pragma once

#include <cstdint>

#include "base/token_bucket.hpp"
#include "base/units.hpp"
#include "dataplane/mgmt/management_frame.hpp"
#include "wire/frame.hpp"
#include "wire/probe_mad.hpp"

namespace mprdma::dataplane {

// Limit for all peers together: 1000 answers a second, 33 Mb/s of the longest.
inline constexpr Duration kProbeInterval = Duration::ms(1);
inline constexpr int64_t kProbeBurst = 128;

// Requires a question that was decoded from this frame.
inline wire::ProbeMad answer_to_probe(const wire::ProbeMad& question,
                                      const wire::DecodedFrame& decoded) {
  return {.response = true,
          .transaction = question.transaction,
          .sequence = question.sequence,
          .bytes = question.answer_bytes,
          .answer_bytes = question.answer_bytes,
          .hop_limit = wire::kDefaultTtl,
          .seen = {.bytes = static_cast<uint16_t>(decoded.packet.payload_len),
                   .source_port = decoded.packet.vp,
                   .hop_limit = decoded.address.ttl,
                   .ecn = decoded.address.ecn}};
}

// False: the source is no address to answer.
inline bool address_of_probe_answer(const wire::FrameAddress& from, wire::FrameAddress* out) {
  // No host has an address of 240.0.0.0/4, which is reserved, or of 0.0.0.0/8 (RFC 1122, 3.2.1.3).
  const bool nobodys = !from.is_ipv6 && (from.src_ip[12] >= 0xf0 || from.src_ip[12] == 0);
  if (nobodys || wire::is_multicast(from.src_ip) || wire::is_multicast(from.src_mac) ||
      from.src_ip == from.dst_ip) {
    return false;
  }
  *out = way_back(from, wire::Ecn::kEct0);
  return true;
}

}  // namespace mprdma::dataplane
