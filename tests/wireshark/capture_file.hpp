// A classic pcap file of whole Ethernet frames, and what tshark shall say of each of them: a line
// of `field=value` pairs on standard output.
#pragma once

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace mprdma {

// What is expected of one frame.
class Expected {
 public:
  void add(const char* field, uint64_t value) {
    std::printf("%s%s=%" PRIu64, first_ ? "" : "\t", field, value);
    first_ = false;
  }
  void end() {
    std::puts("");
    first_ = true;
  }

 private:
  bool first_ = true;
};

inline void write_le32(std::FILE* file, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8)
    std::fputc(static_cast<int>(value >> shift & 0xff), file);
}

// Classic pcap, Ethernet, whole frames.
inline void write_pcap_header(std::FILE* file) {
  for (const uint32_t word : {0xa1b2c3d4U, 0x00040002U, 0U, 0U, 65535U, 1U}) write_le32(file, word);
}

inline void write_pcap_frame(std::FILE* file, uint32_t number,
                             const std::vector<unsigned char>& frame) {
  const auto length = static_cast<uint32_t>(frame.size());
  for (const uint32_t word : {number, 0U, length, length}) write_le32(file, word);
  std::fwrite(frame.data(), 1, frame.size(), file);
}

}  // namespace mprdma
