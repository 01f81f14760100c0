// Which memory a key opens: the memory regions of a process, as the transport looks them up for
// every packet (IBTA 10.6). A flat array indexed by the key's upper 24 bits; the low 8 bits must
// match the entry's key byte, so that a key outlives its region by nothing.
//
// The host adds and removes regions under the worker's lock; lookups are const, bounded and free of
// pointers into the application's memory: an address is only translated, never touched.
#pragma once

#include <cstdint>
#include <memory>

#include "base/check.hpp"

namespace mprdma::transport {

inline constexpr uint32_t kLocalWrite = 1u << 0;
inline constexpr uint32_t kRemoteWrite = 1u << 1;
inline constexpr uint32_t kRemoteRead = 1u << 2;
inline constexpr uint32_t kRemoteAtomic = 1u << 3;
inline constexpr uint32_t kRelaxedOrdering = 1u << 20;  // data may be placed as it arrives

struct MemoryRegion {
  uint64_t iova = 0;    // address by which requests name it
  uint64_t addr = 0;    // address in the host's memory
  uint64_t length = 0;  // bytes
  uint32_t pd = 0;
  uint32_t access = 0;
  uint32_t key = 0;  // 0: free entry
};

class MemoryTable {
 public:
  explicit MemoryTable(uint32_t capacity)
      : capacity_(capacity), entries_(std::make_unique<MemoryRegion[]>(capacity)) {}

  [[nodiscard]] uint32_t capacity() const { return capacity_; }

  // Slot 0 is never used, so that key 0 opens nothing.
  static constexpr uint32_t slot_of(uint32_t key) { return key >> 8; }
  static constexpr uint32_t make_key(uint32_t slot, uint8_t key_byte) {
    return slot << 8 | key_byte;
  }

  void set(const MemoryRegion& region) { put(slot_of(region.key), region); }
  void remove(uint32_t key) { put(slot_of(key), MemoryRegion{}); }

  // Regions that are open for placement on arrival; without any, all placement is in order.
  [[nodiscard]] uint32_t relaxed_regions() const { return relaxed_regions_; }

  // The region of `key` in this protection domain, or nullptr.
  [[nodiscard]] const MemoryRegion* find(uint32_t key, uint32_t pd) const {
    const uint32_t slot = slot_of(key);
    if (slot == 0 || slot >= capacity_) return nullptr;
    const MemoryRegion& region = entries_[slot];
    return region.key == key && region.pd == pd ? &region : nullptr;
  }

  // Translates [iova, iova + length) if `key` opens all of it for every right in `access`;
  // kRelaxedOrdering among them asks for memory that was registered with it.
  // A length of zero needs no valid key (IBTA 9.7.4.1.3) and is for the caller to skip.
  [[nodiscard]] bool translate(uint32_t key, uint32_t pd, uint64_t iova, uint64_t length,
                               uint32_t access, uint64_t* addr) const {
    const MemoryRegion* region = find(key, pd);
    if (region == nullptr || (region->access & access) != access) return false;
    if (iova < region->iova || length > region->length) return false;
    const uint64_t offset = iova - region->iova;
    if (offset > region->length - length) return false;
    *addr = region->addr + offset;
    return true;
  }

 private:
  void put(uint32_t slot, const MemoryRegion& region) {
    CHECK(slot > 0 && slot < capacity_);
    relaxed_regions_ -= (entries_[slot].access & kRelaxedOrdering) != 0 ? 1 : 0;
    relaxed_regions_ += (region.access & kRelaxedOrdering) != 0 ? 1 : 0;
    entries_[slot] = region;
  }

  uint32_t capacity_;
  uint32_t relaxed_regions_ = 0;
  std::unique_ptr<MemoryRegion[]> entries_;
};

}  // namespace mprdma::transport
