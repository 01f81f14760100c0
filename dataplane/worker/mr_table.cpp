#include "dataplane/worker/mr_table.hpp"

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

Key MrTable::add(MemoryRegion region, bool on_demand) {
  if (free_head_ == free_tail_) return Key(0);  // the list keeps one, so that it is never empty
  if (on_demand) on_demand_.reserve(on_demand_.size() + 1);
  const uint32_t index = free_head_;
  Slot& slot = slots_[index];
  free_head_ = slot.next_free;
  region.key = MemoryTable::make_key(index, ++slot.key_byte);
  slot.key = region.key;
  slot.pd = region.pd;
  table_.set(region);
  ++in_use_;
  if (on_demand) add_on_demand(region);
  return region.key;
}

void MrTable::change(const MemoryRegion& region, bool on_demand) {
  Slot& slot = slots_[MemoryTable::slot_of(region.key)];
  CHECK(slot.key == region.key);
  if (on_demand) on_demand_.reserve(on_demand_.size() + 1);
  remove_on_demand(region.key);
  if (on_demand) add_on_demand(region);
  slot.pd = region.pd;
  table_.set(region);
}

bool MrTable::remove(Key key) {
  const uint32_t index = MemoryTable::slot_of(key);
  if (key == Key(0) || index >= slots_.size() || slots_[index].key != key) return false;
  free_slot(index, key);
  return true;
}

bool MrTable::remove_window(uint32_t slot) {
  if (slot == 0 || slot >= slots_.size() || slots_[slot].key == Key(0)) return false;
  const Key key = table_.key_at(slot);
  const MemoryRegion* window = table_.find(key, slots_[slot].pd);
  if (window == nullptr || !window->is_window()) return false;
  slots_[slot].key_byte = static_cast<uint8_t>(key.value());
  free_slot(slot, key);
  return true;
}

// Room was made.
void MrTable::add_on_demand(const MemoryRegion& region) {
  table_.ask_presence(true);
  const auto at =
      std::lower_bound(on_demand_.begin(), on_demand_.end(), region.addr,
                       [](const OnDemand& range, uint64_t addr) { return range.addr < addr; });
  uint64_t reach = at == on_demand_.begin() ? 0 : std::prev(at)->reach;
  auto range = on_demand_.insert(at, {region.key, region.addr, region.length});
  for (; range != on_demand_.end(); ++range) {
    reach = std::max(reach, range->addr + range->length);
    range->reach = reach;
  }
}

void MrTable::remove_on_demand(Key key) {
  const size_t before = on_demand_.size();
  std::erase_if(on_demand_, [key](const OnDemand& range) { return range.key == key; });
  if (on_demand_.size() == before) return;
  table_.ask_presence(!on_demand_.empty());
  uint64_t reach = 0;
  for (OnDemand& range : on_demand_) {
    reach = std::max(reach, range.addr + range.length);
    range.reach = reach;
  }
}

void MrTable::free_slot(uint32_t index, Key key) {
  remove_on_demand(key);
  table_.remove(key);
  slots_[index].key = Key(0);
  slots_[free_tail_].next_free = index;
  free_tail_ = index;
  --in_use_;
}

const MemoryRegion* MrTable::find(Key key) const {
  const uint32_t index = MemoryTable::slot_of(key);
  if (key == Key(0) || index >= slots_.size() || slots_[index].key != key) return nullptr;
  return table_.find(key, slots_[index].pd);
}

}  // namespace mprdma::dataplane
