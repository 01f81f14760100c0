// The property that every input has to satisfy, shared by the fuzzer and its smoke test: a
// management datagram ends in a drop reason, or in a value that survives another trip.
#pragma once

#include <array>
#include <span>

#include "base/check.hpp"
#include "wire/mad.hpp"
#include "wire/print.hpp"

namespace mprdma::test {

inline wire::MadDrop check_decode_mad(std::span<const unsigned char> bytes) {
  wire::PairMad mad;
  const wire::MadDrop reason = wire::decode_pair_mad(bytes, mad);
  if (reason != wire::MadDrop::kNone) return reason;
  CHECK(bytes.size() == wire::kMadBytes);
  std::array<char, wire::kTextBytes> text;
  CHECK(!to_string(mad, text).empty());
  if (mad.info.wire_version != wire::kMpVersion) return reason;
  std::array<unsigned char, wire::kMadBytes> again;
  wire::encode_pair_mad(mad, again);
  wire::PairMad second;
  CHECK(wire::decode_pair_mad(again, second) == wire::MadDrop::kNone);
  CHECK(second == mad);
  return reason;
}

}  // namespace mprdma::test
