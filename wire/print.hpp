// Text for people: traces, test failures, `mprdma` tools. Each header has its own to_string,
// declared beside it; here are the ones for a whole packet and the writer that all of them share.
//
// to_string writes into the caller's buffer, never beyond it, never allocates, and returns the part
// that it wrote; what does not fit is cut off. kTextBytes is enough for everything here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "wire/frame.hpp"
#include "wire/packet.hpp"

namespace mprdma::wire {

inline constexpr size_t kTextBytes = 512;

// Appends text to a fixed buffer and drops what does not fit.
class TextWriter {
 public:
  explicit TextWriter(std::span<char> out) : out_(out) {}

  TextWriter& text(std::string_view text);
  TextWriter& dec(uint64_t value);
  // "0x" and at least `digits` digits.
  TextWriter& hex(uint64_t value, int digits = 1);
  // Two digits per byte, with no prefix.
  TextWriter& hex_bytes(std::span<const uint8_t> bytes, char separator);
  // The word if `set`, after a space.
  TextWriter& flag(bool set, std::string_view word);
  // Appends what to_string writes for this value.
  template <typename Value>
  TextWriter& value(const Value& value) {
    used_ += to_string(value, out_.subspan(used_)).size();
    return *this;
  }

  std::string_view view() const { return {out_.data(), used_}; }

 private:
  std::span<char> out_;
  size_t used_ = 0;
};

// One line: "MP_WRITE_ONLY psn=17 dest=0x000102 vp=50000 len=64 ..".
std::string_view to_string(const Packet& packet, std::span<char> out);

// One line with addresses before the packet.
std::string_view to_string(const DecodedFrame& frame, std::span<char> out);

}  // namespace mprdma::wire
