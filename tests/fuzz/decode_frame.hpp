// The property that every input has to satisfy, shared by the fuzzer and its smoke test: a frame
// ends in a drop reason, or in a packet that lies inside the frame and survives another trip.
#pragma once

#include <span>

#include "base/check.hpp"
#include "tests/support/wire.hpp"
#include "wire/frame.hpp"

namespace mprdma::test {

inline wire::DropReason check_decode_frame(std::span<const unsigned char> frame) {
  wire::DecodedFrame with_icrc;
  wire::DecodedFrame without_icrc;
  const wire::DropReason strict = wire::decode_frame(frame, with_icrc, true);
  const wire::DropReason reason = wire::decode_frame(frame, without_icrc, false);
  // The ICRC is the last thing looked at.
  CHECK(strict == reason ||
        (strict == wire::DropReason::kBadIcrc && reason == wire::DropReason::kNone));
  if (reason != wire::DropReason::kNone) return reason;

  const wire::Packet& packet = without_icrc.packet;
  CHECK(packet.info().valid);
  CHECK(without_icrc.payload_offset <= frame.size());
  CHECK(packet.payload_len + wire::kIcrcBytes <= frame.size() - without_icrc.payload_offset);
  const auto payload = wire::payload_of(frame, without_icrc);
  const auto again = make_frame(without_icrc.address, packet, true, payload);
  CHECK(again.size() <= frame.size());
  wire::DecodedFrame second;
  CHECK(wire::decode_frame(again, second, true) == wire::DropReason::kNone);
  CHECK(second.packet == packet);
  CHECK(second.address == without_icrc.address);
  return strict;
}

}  // namespace mprdma::test
