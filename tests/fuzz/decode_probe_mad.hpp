// The property that every input has to satisfy, shared by the fuzzer and its smoke test: a path
// probe ends in a drop reason, or in a value that survives another trip.
#pragma once

#include <array>
#include <span>

#include "base/check.hpp"
#include "wire/probe_mad.hpp"

namespace mprdma::test {

inline wire::MadDrop check_decode_probe_mad(std::span<const unsigned char> bytes) {
  if (bytes.size() < wire::kMadBytes) return wire::MadDrop::kBadLength;
  wire::ProbeMad mad;
  const wire::MadDrop reason =
      wire::decode_probe_mad(bytes.first<wire::kMadBytes>(), bytes.size(), mad);
  if (reason != wire::MadDrop::kNone) return reason;
  CHECK(wire::is_probe_mad(bytes.first<wire::kMadBytes>()));
  CHECK(mad.bytes == bytes.size() && mad.answer_bytes <= bytes.size());
  std::array<unsigned char, wire::kProbeBytesMax> again;
  wire::encode_probe_mad(mad, again.data());
  wire::ProbeMad second;
  const std::span<const unsigned char, wire::kMadBytes> head(again.data(), wire::kMadBytes);
  CHECK(wire::decode_probe_mad(head, mad.bytes, second) == wire::MadDrop::kNone);
  CHECK(second == mad);
  return reason;
}

}  // namespace mprdma::test
