// Queue pair number -> object, for every received packet.
//
// The low 14 bits of a number are its slot (which is also its doorbell bit), the high 10 bits the
// slot's generation. A destroyed number rests: its slot goes to the end of a first-in first-out
// list of free slots, and the generation moves on when the slot is used again, so the same number
// returns after 1024 uses of a slot at the earliest (fewer where a block of numbers is all that
// this process has), and a late packet of the old queue pair matches none. First slot and
// generations are pseudo-random, so that a restarted process does not answer for its predecessor.
// 0, 1 (management) and 0xffffff (multicast) are never given.
//
// Called by the holder of the worker's lock.
#pragma once

#include <cstdint>
#include <memory>

#include "base/prng.hpp"
#include "base/qpn.hpp"
#include "dataplane/qpn.hpp"

namespace mprdma::dataplane {

struct QpContext;

class QpTable {
 public:
  // Requires: block.valid().
  explicit QpTable(Prng prng, const QpBlock& block = {});

  [[nodiscard]] const QpBlock& block() const { return block_; }
  [[nodiscard]] bool owns(Qpn qpn) const { return block_.owns(qpn); }
  // Takes new numbers from another block from now on; numbers in use stay valid.
  void move_to(const QpBlock& block) { block_ = block; }

  // Allocates a number that has rested; 0 if all are in use. The caller sets its object.
  Qpn allocate();
  void set(Qpn qpn, QpContext* qp);
  void release(Qpn qpn);

  [[nodiscard]] QpContext* find(Qpn qpn) const {
    const Entry& entry = entries_[slot_of(qpn)];
    return entry.qpn == qpn ? entry.qp : nullptr;
  }
  [[nodiscard]] QpContext* at_slot(uint32_t slot) const { return entries_[slot].qp; }
  [[nodiscard]] uint32_t in_use() const { return in_use_; }

  template <class F>
  void for_each(F&& visit) const {
    if (in_use_ == 0) return;
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      if (entries_[slot].qp != nullptr) visit(*entries_[slot].qp);
    }
  }

 private:
  struct Entry {
    QpContext* qp = nullptr;
    Qpn qpn{};  // the current number, or the last one
    uint32_t next_free = 0;
  };

  QpBlock block_;
  std::unique_ptr<Entry[]> entries_;
  uint32_t free_head_ = 0;
  uint32_t free_tail_ = 0;
  uint32_t in_use_ = 0;
};

}  // namespace mprdma::dataplane
