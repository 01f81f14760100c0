// decode_frame() for a wire whose frames come from a few addresses: remembers the outer headers
// (Ethernet, IPv4, UDP) that passed all checks, so that the next frame with the same ones is
// compared and not decoded. The result is that of decode_frame(), for every sequence of bytes.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "wire/frame.hpp"

namespace mprdma::wire {

class FrameReader {
 public:
  // As decode_frame(frame, out, check_icrc). Requires the same `out` in all calls, and that nobody
  // else writes to it: its address may be left from the frame before.
  DropReason decode(std::span<const unsigned char> frame, DecodedFrame& out, bool check_icrc);

 private:
  // Headers remembered at once; a power of two.
  static constexpr size_t kEntries = 8;
  // Words of eight bytes: from the destination's Ethernet address to the UDP length.
  static constexpr size_t kWords = 5;

  struct Entry {
    std::array<uint64_t, kWords> words{};  // without the bytes that differ by packet
    uint32_t sum = 0;  // over the 16-bit words of the IPv4 header, without the bytes that differ
    FrameAddress address;
    bool valid = false;
  };

  static size_t entry_of(const unsigned char* headers);
  void remember(const unsigned char* headers, const FrameAddress& address);
  bool recall(const unsigned char* headers, size_t frame_bytes, DecodedFrame& out);

  std::array<Entry, kEntries> entries_;
  const Entry* last_ = nullptr;  // the one whose address `out` holds
};

}  // namespace mprdma::wire
