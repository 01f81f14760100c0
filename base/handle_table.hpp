// Handle -> object, for objects that work requests or packets name by number (shared receive
// queues, address handles): found in constant time, whatever number is asked for.
//
// A handle is a slot and, above it, the slot's generation. A freed slot goes to the end of the
// line and comes back with its next generation, so a stale handle finds nobody for a long time.
// Handles fit into 24 bits (an SRQ number does, IBTA 9.2) and are never 0.
//
// Called by the holder of the worker's lock.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.hpp"

namespace mprdma {

template <class T, uint32_t kSlotBits = 14>
class HandleTable {
 public:
  static constexpr uint32_t kCapacityMax = (1u << kSlotBits) - 1;

  explicit HandleTable(uint32_t capacity = kCapacityMax) : capacity_(capacity) {
    CHECK(capacity <= kCapacityMax);
  }

  // Adds an object and returns its handle. 0: the table is full, and `object` is destroyed.
  uint32_t add(std::unique_ptr<T> object) {
    if (in_use_ == capacity_) return 0;
    // Fresh slots while few rest, so that none comes back at once.
    if (free_.size() < kResting && slots_.size() <= capacity_) {
      if (slots_.empty()) slots_.emplace_back();  // slot 0 is never given
      slots_.push_back({nullptr, static_cast<uint32_t>(slots_.size())});
      free_.push_back(static_cast<uint32_t>(slots_.size() - 1));
    }
    Slot& slot = slots_[free_.front()];
    free_.pop_front();
    slot.object = std::move(object);
    ++in_use_;
    return slot.handle;
  }

  [[nodiscard]] T* find(uint32_t handle) const {
    const uint32_t index = handle & kSlotMask;
    if (index >= slots_.size() || slots_[index].handle != handle) return nullptr;
    return slots_[index].object.get();
  }

  // Removes an object from the table; nullptr: the handle has none.
  std::unique_ptr<T> remove(uint32_t handle) {
    if (find(handle) == nullptr) return nullptr;
    Slot& slot = slots_[handle & kSlotMask];
    slot.handle = (slot.handle + (1u << kSlotBits)) & kHandleMask;
    free_.push_back(handle & kSlotMask);
    --in_use_;
    return std::move(slot.object);
  }

  // Visits each object with its handle; the visit must not change the table.
  template <class F>
  void for_each(F&& visit) const {
    for (const Slot& slot : slots_) {
      if (slot.object != nullptr) visit(slot.handle, *slot.object);
    }
  }

  [[nodiscard]] uint32_t in_use() const { return in_use_; }

 private:
  static constexpr uint32_t kResting = 256;
  static constexpr uint32_t kHandleMask = 0xffffff;
  static constexpr uint32_t kSlotMask = (1u << kSlotBits) - 1;
  static_assert(kSlotBits < 24);

  struct Slot {
    std::unique_ptr<T> object;
    uint32_t handle = 0;
  };

  uint32_t capacity_;
  uint32_t in_use_ = 0;
  std::vector<Slot> slots_;
  std::deque<uint32_t> free_;
};

}  // namespace mprdma
