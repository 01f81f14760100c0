// Reads a classic pcap file (little-endian, microsecond stamps) whole into memory: just enough for
// the captures in tests/data.
#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace mprdma::test {

using Bytes = std::vector<unsigned char>;

// The frames of the file in order; empty if it cannot be read, is of another kind, is cut off, or
// holds a frame that was not captured whole.
inline std::vector<Bytes> read_pcap(const std::string& path) {
  constexpr size_t kFileHeaderBytes = 24;
  constexpr size_t kRecordHeaderBytes = 16;
  std::ifstream file(path, std::ios::binary);
  const Bytes all{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto le32 = [&all](size_t at) {
    return uint32_t{all[at]} | uint32_t{all[at + 1]} << 8 | uint32_t{all[at + 2]} << 16 |
           uint32_t{all[at + 3]} << 24;
  };
  if (all.size() < kFileHeaderBytes || le32(0) != 0xa1b2c3d4 || le32(20) != 1) return {};

  std::vector<Bytes> frames;
  for (size_t at = kFileHeaderBytes; at < all.size();) {
    if (all.size() - at < kRecordHeaderBytes) return {};
    const size_t length = le32(at + 8);
    const bool whole = length == le32(at + 12);
    at += kRecordHeaderBytes;
    if (!whole || all.size() - at < length) return {};
    const auto start = all.begin() + static_cast<Bytes::difference_type>(at);
    frames.emplace_back(start, start + static_cast<Bytes::difference_type>(length));
    at += length;
  }
  return frames;
}

}  // namespace mprdma::test
