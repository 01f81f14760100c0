// The property that every input has to satisfy, shared by the fuzzer and its smoke test: a frame
// ends in a drop reason, or in a packet that lies inside the frame and survives another trip; and
// a reader that remembers headers says the same of it, whatever it has read before.
#pragma once

#include <span>
#include <vector>

#include "base/check.hpp"
#include "tests/support/wire.hpp"
#include "wire/frame.hpp"
#include "wire/frame_reader.hpp"

namespace mprdma::test {

// A reader on the way through a sequence of frames.
class FrameSequence {
 public:
  void next(std::span<const unsigned char> frame) {
    for (const bool check_icrc : {true, false}) {
      wire::DecodedFrame expected;
      const wire::DropReason reason = wire::decode_frame(frame, expected, check_icrc);
      CHECK(reader_.decode(frame, out_, check_icrc) == reason);
      if (reason != wire::DropReason::kNone) continue;
      CHECK(out_.packet == expected.packet);
      CHECK(out_.address == expected.address);
      CHECK(out_.payload_offset == expected.payload_offset);
    }
  }

 private:
  wire::FrameReader reader_;
  wire::DecodedFrame out_;
};

// As the first frame of all, and after one whose headers it may share.
inline void check_frame_reader(std::span<const unsigned char> frame) {
  static const std::vector<unsigned char> known = make_frame(ipv4_address(), wire::Packet());
  FrameSequence sequence;
  sequence.next(frame);
  sequence.next(known);
  sequence.next(frame);
  sequence.next(known);
}

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
