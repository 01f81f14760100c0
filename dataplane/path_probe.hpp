// The answering side of path probes (wire/probe_mad.hpp), for an engine that owns its port and for
// mprdmad: how many are answered, and with what. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/units.hpp"
#include "wire/frame.hpp"
#include "wire/probe_mad.hpp"

namespace mprdma::dataplane {

// A token bucket, by the time at which it would be full again.
class RateLimit {
 public:
  constexpr RateLimit(Duration interval, int64_t burst) : interval_(interval), burst_(burst) {}

  // One every `interval` in the long run, `burst` of them at once.
  bool take(Time now) {
    const Time full = std::max(full_at_, now);
    if (full - now > interval_ * (burst_ - 1)) return false;
    full_at_ = full + interval_;
    return true;
  }

 private:
  Duration interval_;
  int64_t burst_;
  Time full_at_;
};

// Whoever asks: 1000 answers in a second, 33 Mb/s of the longest.
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

// Back the way that the question came: no neighbour has to be asked for. False: it has a source
// that nobody is to be answered at.
inline bool address_of_probe_answer(const wire::FrameAddress& from, wire::FrameAddress* out) {
  const bool group =
      from.is_ipv6 ? from.src_ip[0] == 0xff : from.src_ip[12] >= 0xe0 || from.src_ip[12] == 0;
  if (group || (from.src_mac[0] & 1) != 0 || from.src_ip == from.dst_ip) return false;
  *out = from;
  std::swap(out->src_mac, out->dst_mac);
  std::swap(out->src_ip, out->dst_ip);
  out->ecn = wire::Ecn::kEct0;
  out->ttl = wire::kDefaultTtl;
  out->ip_identification = 0;
  return true;
}

// Of a probe, in either direction.
inline wire::Packet probe_packet(uint16_t source_port, uint16_t bytes, Psn psn) {
  wire::Packet packet;
  packet.opcode = wire::Opcode::kUdSendOnly;
  packet.vp = source_port;
  packet.psn = psn;
  packet.dest_qpn = wire::kGeneralServicesQpn;
  packet.payload_len = bytes;
  packet.deth = {.q_key = wire::kGeneralServicesQKey, .src_qpn = wire::kGeneralServicesQpn};
  return packet;
}

}  // namespace mprdma::dataplane
