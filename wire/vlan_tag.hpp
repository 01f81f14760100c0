// The tag of a virtual LAN (IEEE 802.1Q, 9.6), between the source address and the type:
//
//   bytes 12..13  0x8100, the type of a tag
//         14..15  bits 15..13 PCP, the priority; bit 12 DEI, 0; bits 11..0 VID, the VLAN
//
// VID 0 is no VLAN: the tag has only a priority. 4095 is reserved.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/byte_order.hpp"
#include "wire/ethernet.hpp"
#include "wire/pause_frame.hpp"

namespace mprdma::wire {

struct VlanTag {
  static constexpr uint32_t kBytes = 4;
  static constexpr uint16_t kEtherType = 0x8100;
  static constexpr uint16_t kVidMax = 4094;
  static constexpr uint8_t kPcpMax = 7;

  uint16_t vid = 0;
  uint8_t pcp = 0;

  // True if the frame, of `length` bytes, has a tag.
  static bool is_on(const unsigned char* frame, uint32_t length) {
    return length >= Ethernet::kBytes + kBytes && load_be16(frame + kTypeOffset) == kEtherType;
  }
  // The VLAN of a frame with a tag.
  static uint16_t vid_of(const unsigned char* frame) {
    return load_be16(frame + kTypeOffset + 2) & 0x0fff;
  }
  // True if a port of the VLAN `vid` takes the frame. VID 0 is none, with a tag or without (802.1Q,
  // 6.9). Frames of MAC Control speak of the link, and have no tag.
  static bool admits(uint16_t vid, const unsigned char* frame, uint32_t length) {
    if (is_on(frame, length)) return vid_of(frame) == vid;
    return vid == 0 || PauseFrame::is_on(frame, length);
  }
  // Puts the tag in: the frame begins kBytes before `frame` then.
  void push(unsigned char* frame) const {
    unsigned char* const begin = frame - kBytes;
    std::memmove(begin, frame, kTypeOffset);
    store_be16(begin + kTypeOffset, kEtherType);
    store_be16(begin + kTypeOffset + 2, static_cast<uint16_t>(pcp << 13 | vid));
  }
  // Takes the tag out: the frame begins kBytes behind `frame` then.
  static void pop(unsigned char* frame) { std::memmove(frame + kBytes, frame, kTypeOffset); }

 private:
  static constexpr uint32_t kTypeOffset = 12;
};

}  // namespace mprdma::wire
