// The offload context: what multi-path adds to the state of a plain RoCE connection, when hardware
// keeps it, for one sending and one receiving half at L = 64 (paper, table 1: 66 bytes). Whoever
// moves connections into a SmartNIC writes and reads it; software keeps the same facts in
// stream_sender.hpp and stream_receiver.hpp, wider and unpacked.
//
// Not in it, because a RoCE connection has it already: snd_una, snd_nxt, rcv_nxt, the message
// number, the retransmission timer with its back-off. Not in it, because hardware sends when the
// acknowledgement comes: the FIFO of unused credits. Not in it, because it is optional: what
// losses by time (send_times.hpp) and recycled paths (path_recycled.hpp) need; and (40 bytes at
// L = 64) what Params::own_ack_credit needs: two bits for each of 128 packets below snd_una, two
// PSNs, two counts; and (16 bytes) the map `told` that Params::ack_map needs.
//
// Maps count from snd_una (rcv_nxt): bit i is PSN snd_una + i. Times have 24 bits in units of 64 ns
// and come round after 1.07 s; before that a sweep of the device marks them as old. Bytes are
// little endian, in the order of the list; itemised in docs/algorithms.md, held against it by a
// test.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace mprdma::transport {

// X(name, type, bytes, what it is)
#define MPRDMA_OFFLOAD_CONTEXT(X)                                                              \
  X(window_raw, uint32_t, 4, "congestion window, packets in Q16.16")                           \
  X(owed_raw, uint32_t, 3,                                                                     \
    "taken by path window reduction and owed, packets in Q8.16 [deviation]")                   \
  X(sacked, uint64_t, 8, "map: the receiver has it [deviation]")                               \
  X(lost, uint64_t, 8, "map: known lost, not yet sent again [deviation]")                      \
  X(penalised, uint64_t, 8, "map: has cost window already [deviation]")                        \
  X(resent, uint64_t, 8, "map: sent again in this round, not judged again yet [deviation]")    \
  X(ooh_offset, uint8_t, 1, "`snd_ooh`, packets above `snd_una`, 0 to 64")                     \
  X(flags, uint8_t, 1, "path probe due; RTT known; window-limited; either time below is old")  \
  X(srtt_ns, uint32_t, 3, "smoothed round-trip time, at most 16.7 ms")                         \
  X(round_start, uint32_t, 3, "when this round trip began, for probing and `resent`")          \
  X(last_backlog, uint32_t, 3, "when the application last had packets that wait, for restart") \
  X(received_low, uint64_t, 8, "receiver's slots, two bits each, 0 to 31")                     \
  X(received_high, uint64_t, 8, "receiver's slots, two bits each, 32 to 63")

inline constexpr size_t kOffloadContextBytesMax = 66;

struct OffloadContext {
#define MPRDMA_FIELD(name, type, bytes, what) type name = 0;
  MPRDMA_OFFLOAD_CONTEXT(MPRDMA_FIELD)
#undef MPRDMA_FIELD

  enum Flags : uint8_t {
    kPathProbeDue = 1 << 0,
    kRttKnown = 1 << 1,
    kWindowLimited = 1 << 2,
    kRoundOld = 1 << 3,
    kBacklogOld = 1 << 4,
  };

#define MPRDMA_FIELD(name, type, bytes, what) +(bytes)
  static constexpr size_t kBytes = 0 MPRDMA_OFFLOAD_CONTEXT(MPRDMA_FIELD);
#undef MPRDMA_FIELD
  static_assert(kBytes <= kOffloadContextBytesMax);

  constexpr bool operator==(const OffloadContext&) const = default;

  // Values that do not fit their field are cut: the caller saturates them.
  constexpr std::array<uint8_t, kBytes> pack() const {
    std::array<uint8_t, kBytes> out{};
    size_t at = 0;
    const auto put = [&](uint64_t value, size_t bytes) {
      for (size_t i = 0; i < bytes; ++i) out[at++] = static_cast<uint8_t>(value >> (8 * i));
    };
#define MPRDMA_FIELD(name, type, bytes, what) put(name, bytes);
    MPRDMA_OFFLOAD_CONTEXT(MPRDMA_FIELD)
#undef MPRDMA_FIELD
    return out;
  }

  static constexpr OffloadContext unpack(std::span<const uint8_t, kBytes> in) {
    OffloadContext context;
    size_t at = 0;
    const auto get = [&](size_t bytes) {
      uint64_t value = 0;
      for (size_t i = 0; i < bytes; ++i) value |= uint64_t{in[at++]} << (8 * i);
      return value;
    };
#define MPRDMA_FIELD(name, type, bytes, what) context.name = static_cast<type>(get(bytes));
    MPRDMA_OFFLOAD_CONTEXT(MPRDMA_FIELD)
#undef MPRDMA_FIELD
    return context;
  }
};

}  // namespace mprdma::transport
