// The memory regions and windows of the process: hands out keys and owns the table that the
// transport looks them up in. The key byte of a slot changes with each use, and freed slots wait
// their turn, so a key that was deregistered opens nothing for a long time.
//
// Called by the holder of the worker's lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "base/key.hpp"
#include "base/prng.hpp"
#include "transport/core/memory_table.hpp"

namespace mprdma::dataplane {

class MrTable {
 public:
  // At most `capacity` - 2 regions and windows.
  MrTable(uint32_t capacity, Prng prng);

  // The key (lkey and rkey alike) of a new region, null region or window; 0 if the table is full.
  // `region.key` is ignored. `on_demand`: its memory may be unmapped when it is used.
  Key add(transport::MemoryRegion region, bool on_demand = false);
  // Replaces the region of `region.key`. Requires: no windows are bound to it.
  void change(const transport::MemoryRegion& region, bool on_demand);
  // False: no such key. No windows are bound to it.
  bool remove(Key key);
  // The window in this slot, whatever key it was bound with. False: there is none.
  bool remove_window(uint32_t slot);
  // The region of a key whatever its protection domain; nullptr if there is none.
  [[nodiscard]] const transport::MemoryRegion* find(Key key) const;

  // True if the memory was not checked at registration. Called for each packet.
  [[nodiscard]] bool is_on_demand(uint64_t addr, uint64_t length) const {
    if (on_demand_.empty()) return false;
    const auto behind =
        std::lower_bound(on_demand_.begin(), on_demand_.end(), addr + length,
                         [](const OnDemand& range, uint64_t end) { return range.addr < end; });
    return behind != on_demand_.begin() && std::prev(behind)->reach > addr;
  }

  [[nodiscard]] transport::MemoryTable& memory() { return table_; }
  [[nodiscard]] uint32_t in_use() const { return in_use_; }

 private:
  struct Slot {
    uint32_t next_free = 0;
    Key key{};  // 0: free
    uint32_t pd = 0;
    uint8_t key_byte = 0;
  };

  struct OnDemand {
    Key key{};
    uint64_t addr = 0;
    uint64_t length = 0;
    uint64_t reach = 0;  // furthest end of this range and of all before it
  };

  void add_on_demand(const transport::MemoryRegion& region);
  void remove_on_demand(Key key);
  void free_slot(uint32_t index, Key key);

  transport::MemoryTable table_;
  std::vector<Slot> slots_;
  std::vector<OnDemand> on_demand_;  // in the address space of the process, by address
  uint32_t free_head_ = 1;
  uint32_t free_tail_;
  uint32_t in_use_ = 0;
};

}  // namespace mprdma::dataplane
