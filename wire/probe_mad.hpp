// Path probes: how a host finds out what the network to a peer does with ECN, hop limits, UDP
// source ports and long packets (mprdma doctor --path). A datagram of our own management class
// (mad.hpp) from queue pair 1 to queue pair 1, but of any length from kMadBytes to kMaxPathMtu: it
// is as long as the packets that it speaks for.
//
// Attribute PathProbe. Get asks; GetResp says how the question arrived. All behind the MAD's header
// and its OUI, as in PairInfo:
//         40     version of this attribute, 1
//         41     TTL or hop limit that this datagram was sent with
//         42..43 bytes of this datagram, pad excluded
//         44..47 sequence number: chosen by who asks, the same in the answer
//         48..49 bytes that the answer shall have: kMadBytes at least, never more than the question
//         50..51 reserved
//   of an answer, of the question as it arrived; 0 in a question:
//         52..53 bytes
//         54..55 UDP source port
//         56     TTL or hop limit
//         57     reserved | ECN (bits 1..0)
//         58..   reserved, and padding
//
// An answer is ECT(0), has the question's UDP source port, and goes where the question came from.
// It is never longer than the question, and every host limits how many it gives: with a forged
// source nobody gains anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/constants.hpp"
#include "wire/mad.hpp"

namespace mprdma::wire {

inline constexpr uint16_t kProbeAttribute = 0x0011;
inline constexpr uint8_t kProbeVersion = 1;
inline constexpr size_t kProbeBytesMin = kMadBytes;
inline constexpr size_t kProbeBytesMax = kMaxPathMtu;

// How a datagram arrived.
struct ProbeSeen {
  uint16_t bytes = 0;
  uint16_t source_port = 0;
  uint8_t hop_limit = 0;
  Ecn ecn = Ecn::kNotEct;

  constexpr bool operator==(const ProbeSeen&) const = default;
};

struct ProbeMad {
  bool response = false;
  uint64_t transaction = 0;
  uint32_t sequence = 0;
  uint16_t bytes = kProbeBytesMin;         // of this datagram
  uint16_t answer_bytes = kProbeBytesMin;  // wanted of the answer
  uint8_t hop_limit = kDefaultTtl;         // as sent
  ProbeSeen seen;                          // of a response

  constexpr bool operator==(const ProbeMad&) const = default;
};

// Whose question it is: class and attribute. Says nothing about the rest.
bool is_probe_mad(std::span<const unsigned char, kMadBytes> head);

// Writes all of the datagram's bytes, mad.bytes of them. Requires kProbeBytesMin <= mad.bytes <=
// kProbeBytesMax, and so many bytes at `out`.
void encode_probe_mad(const ProbeMad& mad, unsigned char* out);

// `head` is the beginning of a datagram of `bytes` bytes; what lies behind is padding. Requires
// nothing of the bytes, which nobody else may write meanwhile.
MadDrop decode_probe_mad(std::span<const unsigned char, kMadBytes> head, size_t bytes,
                         ProbeMad& out);

}  // namespace mprdma::wire
