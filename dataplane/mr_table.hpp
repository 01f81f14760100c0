// The memory regions of the process: hands out keys and owns the table that the transport looks
// them up in. The key byte of a slot changes with each use, and freed slots wait their turn, so a
// key that was deregistered opens nothing for a long time.
//
// Called by the holder of the worker's lock.
#pragma once

#include <cstdint>
#include <vector>

#include "base/prng.hpp"
#include "transport/memory_table.hpp"

namespace mprdma::dataplane {

class MrTable {
 public:
  // At most `capacity` - 1 regions.
  MrTable(uint32_t capacity, Prng prng);

  // The new region's key (lkey and rkey alike); 0 if the table is full. `region.key` is ignored.
  uint32_t add(transport::MemoryRegion region);
  // False: no such key.
  bool remove(uint32_t key);
  // The region of a key whatever its protection domain; nullptr if there is none.
  [[nodiscard]] const transport::MemoryRegion* find(uint32_t key) const;

  [[nodiscard]] const transport::MemoryTable& memory() const { return table_; }
  [[nodiscard]] uint32_t in_use() const { return in_use_; }

 private:
  struct Slot {
    uint32_t next_free = 0;
    uint32_t key = 0;  // 0: free
    uint32_t pd = 0;
    uint8_t key_byte = 0;
  };

  transport::MemoryTable table_;
  std::vector<Slot> slots_;
  uint32_t free_head_ = 1;
  uint32_t free_tail_;
  uint32_t in_use_ = 0;
};

}  // namespace mprdma::dataplane
