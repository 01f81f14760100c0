// The property that every input has to satisfy, shared by the fuzzer and its smoke test: a datagram
// of communication management ends in a drop reason, or in a value that survives another trip.
#pragma once

#include <array>
#include <span>

#include "base/check.hpp"
#include "wire/cm_mad.hpp"
#include "wire/print.hpp"

namespace mprdma::test {

// rdma_cm's header stands in the private data of a REQ.
inline void check_ip_header(const wire::CmReq& req) {
  constexpr size_t kBytes = wire::CmIpHeader::kBytes;
  const std::span<const unsigned char, kBytes> in(req.private_data.data.data(), kBytes);
  wire::CmIpHeader header;
  if (!wire::decode_cm_ip_header(in, header)) return;
  std::array<unsigned char, kBytes> again;
  wire::encode_cm_ip_header(header, again);
  wire::CmIpHeader second;
  CHECK(wire::decode_cm_ip_header(again, second));
  CHECK(second == header);
}

inline wire::MadDrop check_decode_cm_mad(std::span<const unsigned char> bytes) {
  wire::CmMad mad;
  const wire::MadDrop reason = wire::decode_cm_mad(bytes, mad);
  if (reason != wire::MadDrop::kNone) return reason;
  CHECK(bytes.size() == wire::kMadBytes);
  std::array<char, wire::kTextBytes> text;
  CHECK(!to_string(mad, text).empty());
  if (const auto* req = std::get_if<wire::CmReq>(&mad.body)) check_ip_header(*req);
  std::array<unsigned char, wire::kMadBytes> again;
  wire::encode_cm_mad(mad, again);
  wire::CmMad second;
  CHECK(wire::decode_cm_mad(again, second) == wire::MadDrop::kNone);
  CHECK(second == mad);
  return reason;
}

}  // namespace mprdma::test
