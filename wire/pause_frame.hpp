// The MAC Control frames that pause the sender of a link: PFC, which pauses priorities (IEEE
// 802.1Qbb, IEEE 802.3 annex 31D), and the pause of the whole link (IEEE 802.3 annex 31B).
//
//   byte  0..5   destination: 01:80:c2:00:00:01, which no bridge forwards
//         6..11  source
//         12..13 0x8808, the type of MAC Control
//         14..15 operation: 0x0101 PFC, 0x0001 pause of the link
//   PFC
//         16     0; ignored on receipt
//         17     a bit for each priority, of priority 0 the lowest: the frame speaks of it
//         18..33 for each priority from 0 on: how long it pauses, 16 bits; 0: it goes on
//   pause of the link
//         16..17 how long
//         .. 59  0
//
// A time is in quanta of 512 bit times of the link. A frame replaces what was said before of the
// priorities that it speaks of. A pause to the address of one station, which annex 31B allows, is
// refused: nobody sends it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/byte_order.hpp"
#include "base/units.hpp"
#include "wire/ethernet.hpp"

namespace mprdma::wire {

enum class PauseDrop : uint8_t {
  kNone,
  kTruncated,         // ends before the last time
  kNotControl,        // another type than MAC Control
  kWrongDestination,  // not for the group of MAC Control
  kUnknownOperation,  // MAC Control, but neither PFC nor a pause
  kCount
};

struct PauseFrame {
  static constexpr MacAddress kGroup = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x01};
  static constexpr uint16_t kEtherType = 0x8808;
  static constexpr uint16_t kOperationPause = 0x0001;
  static constexpr uint16_t kOperationPfc = 0x0101;
  static constexpr unsigned kPriorities = 8;
  static constexpr uint16_t kQuantaMax = 0xffff;
  static constexpr uint64_t kQuantumBits = 512;

  bool whole_link = false;  // a pause of the link: all bits and times are the same
  uint8_t priorities = 0;   // bit p: the frame speaks of priority p
  std::array<uint16_t, kPriorities> quanta{};

  constexpr bool operator==(const PauseFrame&) const = default;

  // Makes this frame say what a later one says besides, and of the same priorities instead.
  constexpr void add(const PauseFrame& later) {
    for (unsigned p = 0; p < kPriorities; ++p) {
      if ((later.priorities >> p & 1) != 0) quanta[p] = later.quanta[p];
    }
    priorities |= later.priorities;
    whole_link = later.whole_link;
  }
  // A frame that says the same of all these priorities.
  static constexpr PauseFrame pfc(uint8_t priorities, uint16_t quanta) {
    PauseFrame out{.priorities = priorities};
    for (unsigned p = 0; p < kPriorities; ++p) {
      out.quanta[p] = (priorities >> p & 1) != 0 ? quanta : uint16_t{0};
    }
    return out;
  }
  static constexpr PauseFrame of_link(uint16_t quanta) {
    PauseFrame out{.whole_link = true, .priorities = 0xff};
    out.quanta.fill(quanta);
    return out;
  }

  // The frame speaks of one of these priorities.
  [[nodiscard]] constexpr bool concerns(uint8_t some) const { return (priorities & some) != 0; }
  // The longest time that it says of these priorities.
  [[nodiscard]] constexpr uint16_t quanta_of(uint8_t some) const {
    uint16_t most = 0;
    for (unsigned p = 0; p < kPriorities; ++p) {
      if ((priorities & some) >> p & 1) most = quanta[p] > most ? quanta[p] : most;
    }
    return most;
  }

  // True if the frame, of `length` bytes, is of MAC Control.
  static bool is_on(const unsigned char* frame, size_t length) {
    return length >= Ethernet::kBytes && load_be16(frame + kTypeAt) == kEtherType;
  }

  // Reads a whole frame, of which nobody else may write the first kMinFrameBytes bytes meanwhile.
  static PauseDrop parse(std::span<const unsigned char> frame, PauseFrame& out) {
    if (frame.size() < kPauseTimeAt + 2) return PauseDrop::kTruncated;
    if (!is_on(frame.data(), frame.size())) return PauseDrop::kNotControl;
    const uint16_t operation = load_be16(frame.data() + kOperationAt);
    if (operation != kOperationPfc && operation != kOperationPause) {
      return PauseDrop::kUnknownOperation;
    }
    MacAddress to;
    std::memcpy(to.data(), frame.data(), to.size());
    if (to != kGroup) return PauseDrop::kWrongDestination;
    if (operation == kOperationPause) {
      out = of_link(load_be16(frame.data() + kPauseTimeAt));
      return PauseDrop::kNone;
    }
    if (frame.size() < kTimesAt + 2 * kPriorities) return PauseDrop::kTruncated;
    out = {.priorities = frame[kVectorAt + 1]};
    for (unsigned p = 0; p < kPriorities; ++p) {
      // The time of a priority of which the frame does not speak has no meaning.
      if (out.concerns(static_cast<uint8_t>(1U << p))) {
        out.quanta[p] = load_be16(frame.data() + kTimesAt + size_t{2} * p);
      }
    }
    return PauseDrop::kNone;
  }

  // Writes a whole frame. Requires room for kMinFrameBytes bytes at `out`; returns its length.
  size_t store(const MacAddress& source, unsigned char* out) const {
    std::memset(out, 0, kMinFrameBytes);
    Ethernet{.dst = kGroup, .src = source, .ether_type = kEtherType}.store(out);
    store_be16(out + kOperationAt, whole_link ? kOperationPause : kOperationPfc);
    if (whole_link) {
      store_be16(out + kPauseTimeAt, quanta[0]);
      return kMinFrameBytes;
    }
    out[kVectorAt + 1] = priorities;
    for (unsigned p = 0; p < kPriorities; ++p) {
      store_be16(out + kTimesAt + size_t{2} * p, quanta[p]);
    }
    return kMinFrameBytes;
  }

 private:
  static constexpr size_t kTypeAt = 12;
  static constexpr size_t kOperationAt = 14;
  static constexpr size_t kVectorAt = 16;
  static constexpr size_t kPauseTimeAt = 16;
  static constexpr size_t kTimesAt = 18;
};

// How long so many quanta last on a link of this rate, which is above 0; rounded up.
constexpr Duration pause_time(uint16_t quanta, uint64_t bits_per_second) {
  const uint64_t bits = quanta * PauseFrame::kQuantumBits;
  // Below 2^25 bits times 10^9 fit 64 bits.
  return Duration::ns(
      static_cast<int64_t>((bits * 1'000'000'000 + bits_per_second - 1) / bits_per_second));
}

// The priority of a packet with this DSCP, as switches and network cards have it by default.
constexpr uint8_t priority_of(uint8_t dscp) {
  return dscp >> 3;
}

std::string_view to_string(const PauseFrame& pause, std::span<char> out);

}  // namespace mprdma::wire
