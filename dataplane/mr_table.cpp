#include "dataplane/mr_table.hpp"

#include "base/check.hpp"

namespace mprdma::dataplane {

using transport::MemoryRegion;
using transport::MemoryTable;

MrTable::MrTable(uint32_t capacity, Prng prng)
    : table_(capacity), slots_(capacity), free_tail_(capacity - 1) {
  CHECK(capacity > 2);
  for (uint32_t slot = 1; slot < capacity; ++slot) {
    slots_[slot].next_free = slot + 1;
    slots_[slot].key_byte = static_cast<uint8_t>(prng.next_u64());
  }
}

uint32_t MrTable::add(MemoryRegion region) {
  if (free_head_ == free_tail_) return 0;  // the list keeps one, so that it is never empty
  const uint32_t index = free_head_;
  Slot& slot = slots_[index];
  free_head_ = slot.next_free;
  region.key = MemoryTable::make_key(index, ++slot.key_byte);
  slot.key = region.key;
  slot.pd = region.pd;
  table_.set(region);
  ++in_use_;
  return region.key;
}

bool MrTable::remove(uint32_t key) {
  const uint32_t index = MemoryTable::slot_of(key);
  if (key == 0 || index >= slots_.size() || slots_[index].key != key) return false;
  table_.remove(key);
  slots_[index].key = 0;
  slots_[free_tail_].next_free = index;
  free_tail_ = index;
  --in_use_;
  return true;
}

const MemoryRegion* MrTable::find(uint32_t key) const {
  const uint32_t index = MemoryTable::slot_of(key);
  if (key == 0 || index >= slots_.size() || slots_[index].key != key) return nullptr;
  return table_.find(key, slots_[index].pd);
}

}  // namespace mprdma::dataplane
