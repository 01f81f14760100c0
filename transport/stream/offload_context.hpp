// The offload context: what multi-path adds to the state of a plain RoCE connection, when hardware
// keeps it, for one sending and one receiving half at L = 64. Whoever moves a connection into a
// SmartNIC and back writes and reads it; StreamSender::to_offload() and from_offload() do for the
// sending half, and a test holds a sender that is taken through the bytes before an event against
// one that is not.
//
// Not in it, because a RoCE connection has it already: RoceSender below, rcv_nxt, the message
// number. Not in it, because hardware sends when the acknowledgement comes: the paths of unused
// credits. Not in it, because offload_params() switches off what needs them: the times, paths and
// maps of losses by time, tail probes, recycled paths, own credits, maps in acknowledgements, and
// the variance of the round trip. Not in it, because hardware sends a refused synchronise operation
// again at once: the order of those, and the delay of new ones.
//
// Maps count from snd_una (rcv_nxt): bit i is PSN snd_una + i. A packet may be outstanding up to
// 128 above snd_una, twice L, because what the receiver's window drops is named there; a SACK lies
// below L. Times have 24 bits in units of 64 ns and come round after 1.07 s; before that a sweep of
// the device marks them as old. Bytes are little endian, in the order of the list; itemised in
// docs/algorithms.md, held against it by a test.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/psn.hpp"
#include "base/units.hpp"
#include "transport/core/params.hpp"

namespace mprdma::transport {

// X(name, type, bytes, what it is)
#define MPRDMA_OFFLOAD_CONTEXT(X)                                                            \
  X(window_raw, uint32_t, 4, "congestion window, packets in Q16.16")                         \
  X(owed_raw, uint32_t, 3,                                                                   \
    "taken by path window reduction and owed, packets in Q8.16 [deviation]")                 \
  X(sacked, uint64_t, 8, "map: the receiver has it [deviation]")                             \
  X(lost, PsnMap, 16, "map: known lost, not yet sent again [deviation]")                     \
  X(penalised, PsnMap, 16, "map: has cost window already [deviation]")                       \
  X(resent, PsnMap, 16, "map: sent again in this epoch, not judged again yet [deviation]")   \
  X(resent_before, PsnMap, 16, "map: the same, in the epoch before [deviation]")             \
  X(ooh_offset, uint8_t, 1, "`snd_ooh`, packets above `snd_una`, 0 to 64")                   \
  X(credits, uint8_t, 1, "packets that may leave at once")                                   \
  X(flags, uint8_t, 1,                                                                       \
    "path probe due; RTT known; a packet, or the head, asks; which times are old")           \
  X(srtt_ns, uint32_t, 3, "smoothed round-trip time, at most 16.7 ms")                       \
  X(round_start, uint32_t, 3, "when this round trip began, for path probing")                \
  X(epoch_start, uint32_t, 3, "when this epoch of `resent` began [deviation]")               \
  X(last_ack, uint32_t, 3, "when the last acknowledgement came, for the burst timer")        \
  X(last_congestion, uint32_t, 3, "the last mark, loss or timeout, for restart [deviation]") \
  X(received_low, uint64_t, 8, "receiver's slots, two bits each, 0 to 31")                   \
  X(received_high, uint64_t, 8, "receiver's slots, two bits each, 32 to 63")

// Packets of 128 PSNs, the lower 64 first.
struct PsnMap {
  std::array<uint64_t, 2> words{};
  constexpr bool operator==(const PsnMap&) const = default;
};

// The paper's table 1.
inline constexpr size_t kPaperContextBytes = 66;

struct OffloadContext {
#define MPRDMA_FIELD(name, type, bytes, what) type name{};
  MPRDMA_OFFLOAD_CONTEXT(MPRDMA_FIELD)
#undef MPRDMA_FIELD

  // Packets above snd_una that may be outstanding.
  static constexpr uint32_t kSpan = 128;
  static constexpr uint32_t kSlots = 64;

  enum Flags : uint8_t {
    kPathProbeDue = 1 << 0,
    kRttKnown = 1 << 1,
    kAsksHead = 1 << 2,
    kRoundOld = 1 << 3,
    kEpochOld = 1 << 4,
    kAckOld = 1 << 5,
    kCongestionOld = 1 << 6,
    kProbes = 1 << 7,  // a packet leaves whatever the window says: the head, or the last try
  };

#define MPRDMA_FIELD(name, type, bytes, what) +(bytes)
  static constexpr size_t kBytes = 0 MPRDMA_OFFLOAD_CONTEXT(MPRDMA_FIELD);
#undef MPRDMA_FIELD

  constexpr bool operator==(const OffloadContext&) const = default;

  // Values that do not fit their field are cut: the caller saturates them.
  constexpr std::array<uint8_t, kBytes> pack() const {
    std::array<uint8_t, kBytes> out{};
    size_t at = 0;
    const auto put_word = [&](uint64_t value, size_t bytes) {
      for (size_t i = 0; i < bytes; ++i) out[at++] = static_cast<uint8_t>(value >> (8 * i));
    };
    const auto put = [&](const auto& value, size_t bytes) {
      if constexpr (std::is_same_v<std::decay_t<decltype(value)>, PsnMap>) {
        for (const uint64_t word : value.words) put_word(word, bytes / value.words.size());
      } else {
        put_word(value, bytes);
      }
    };
#define MPRDMA_FIELD(name, type, bytes, what) put(name, bytes);
    MPRDMA_OFFLOAD_CONTEXT(MPRDMA_FIELD)
#undef MPRDMA_FIELD
    return out;
  }

  static constexpr OffloadContext unpack(std::span<const uint8_t, kBytes> in) {
    OffloadContext context;
    size_t at = 0;
    const auto get_word = [&](size_t bytes) {
      uint64_t value = 0;
      for (size_t i = 0; i < bytes; ++i) value |= uint64_t{in[at++]} << (8 * i);
      return value;
    };
    const auto get = [&](auto& value, size_t bytes) {
      using Value = std::decay_t<decltype(value)>;
      if constexpr (std::is_same_v<Value, PsnMap>) {
        for (uint64_t& word : value.words) word = get_word(bytes / value.words.size());
      } else {
        value = static_cast<Value>(get_word(bytes));
      }
    };
#define MPRDMA_FIELD(name, type, bytes, what) get(context.name, bytes);
    MPRDMA_OFFLOAD_CONTEXT(MPRDMA_FIELD)
#undef MPRDMA_FIELD
    return context;
  }
};

// What a plain RoCE connection has of its sending half, in its own form.
struct RoceSender {
  Psn una;
  Psn nxt;
  Time silent_since;     // the retransmission timer counts from here
  uint32_t backoff = 0;  // timeouts in a row
  Time last_progress;    // for retry exhaustion
};

// The mode `mp` as far as hardware has it: the context and RoceSender are all that its sender
// keeps, without synchronise operations.
constexpr Params offload_params() {
  Params p = Params::mp_figures();
  p.adapt_timeout = false;
  p.loss_by_time = false;
  p.tail_probe = false;
  p.path_policy = PathPolicy::kAckClocked;
  p.own_ack_credit = false;
  p.path_probe_interval = Duration::zero();  // once in so many round trips, without a division
  return p;
}

// True if a stream with these parameters keeps nothing else. The rest of offload_params() may
// differ.
constexpr bool fits_offload(const Params& p) {
  return !p.adapt_timeout && !p.loss_by_time && !p.tail_probe && !p.own_ack_credit && !p.ack_map &&
         !p.window_spacing && p.window_rtt == Duration::zero() &&
         p.path_policy == PathPolicy::kAckClocked && p.recovery == Recovery::kMp &&
         p.window_control == cc::WindowControl::kMp;
}

}  // namespace mprdma::transport
