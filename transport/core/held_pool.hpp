// The budget for frames that wait for their turn (design 3.2): one pool for all queue pairs of a
// port. A packet that finds no entry is dropped, and its sender told so; the head of line never
// needs one. A budget of one works. Entries above the high-water mark are never touched.
//
// A stream's share is what is free (the dynamic threshold of switch buffers, Choudhury and Hahne
// 1998, with alpha = 1): a lone stream may take half of the budget, n of them leave 1 / (n + 1) to
// others. Behind a receiver that is not ready, where frames may wait without end, it is a sixteenth
// of what is free.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "base/check.hpp"
#include "transport/core/types.hpp"

namespace mprdma::transport {

struct HeldPacket {
  wire::Packet packet;
  FrameHandle frame = 0;
  uint32_t next_free = 0;
};

class HeldPool {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kNotReadyShare = 16;  // one part in so many of what is free

  explicit HeldPool(uint32_t budget)
      : budget_(budget),
        limit_(budget),
        long_limit_(budget),
        entries_(std::make_unique_for_overwrite<Entry[]>(budget)) {}

  // An entry's index, or kNone when the stream, which has `own` entries, has its share.
  // `ready`: its receiver is ready.
  uint32_t allocate(const wire::Packet& packet, FrameHandle frame, uint32_t own, bool ready) {
    const bool is_long = packet.payload_len > wire::kMaxPathMtu;
    if (in_use_ >= limit_ || (is_long && long_in_use_ >= long_limit_)) return kNone;
    const uint32_t free = limit_ - in_use_;
    if (own >= (ready ? free : free / kNotReadyShare)) return kNone;
    uint32_t index = free_;
    if (index != kNone) {
      free_ = entries_[index].held.next_free;
    } else {
      index = high_water_++;  // no entry below the mark is free
    }
    std::construct_at(&entries_[index].held, HeldPacket{packet, frame, kNone});
    ++in_use_;
    long_in_use_ += is_long ? 1 : 0;
    return index;
  }
  void give_back(uint32_t index) {
    CHECK(index < high_water_ && in_use_ > 0);
    if (entries_[index].held.packet.payload_len > wire::kMaxPathMtu) --long_in_use_;
    entries_[index].held.next_free = free_;
    free_ = index;
    --in_use_;
  }
  const HeldPacket& operator[](uint32_t index) const { return entries_[index].held; }
  // A port may lend fewer frames than the budget; frames that are held already stay.
  void set_limit(uint32_t limit) { limit_ = limit < budget_ ? limit : budget_; }
  // The same for packets that are longer than any path MTU, of which a port has fewer frames.
  void set_long_limit(uint32_t limit) { long_limit_ = limit < budget_ ? limit : budget_; }
  [[nodiscard]] uint32_t in_use() const { return in_use_; }
  [[nodiscard]] uint32_t budget() const { return budget_; }

 private:
  static_assert(std::is_trivially_destructible_v<HeldPacket>);
  // A union, so that construction does not initialise, and so touch, the entries.
  union Entry {
    Entry() {}
    HeldPacket held;
  };

  uint32_t budget_;
  uint32_t limit_;
  uint32_t long_limit_;
  uint32_t in_use_ = 0;
  uint32_t long_in_use_ = 0;
  uint32_t high_water_ = 0;  // high-water mark: entries that have ever been allocated
  uint32_t free_ = kNone;
  std::unique_ptr<Entry[]> entries_;
};

}  // namespace mprdma::transport
