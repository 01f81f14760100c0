#include "dataplane/worker/qp_table.hpp"

#include "base/check.hpp"
#include "wire/constants.hpp"

namespace mprdma::dataplane {

namespace {

constexpr bool is_reserved(Qpn qpn) {
  return qpn <= wire::kGeneralServicesQpn || qpn == wire::kMulticastQpn;
}

constexpr Qpn next_generation(Qpn qpn, const QpBlock& block) {
  const uint32_t generation = generation_of(qpn) - block.first_generation;
  const uint32_t next = generation + 1 < block.generations ? generation + 1 : 0;
  return make_qpn(block.first_generation + next, slot_of(qpn));
}

}  // namespace

QpTable::QpTable(Prng prng, const QpBlock& block)
    : block_(block), entries_(std::make_unique<Entry[]>(kSlots)) {
  CHECK(block.valid());
  const auto first = static_cast<uint32_t>(prng.below(kSlots));
  const auto generation =
      block.first_generation + static_cast<uint32_t>(prng.below(block.generations));
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    entries_[slot].qpn = make_qpn(generation, slot);
    entries_[slot].next_free = (slot + 1) % kSlots;
  }
  free_head_ = first;
  free_tail_ = (first + kSlots - 1) % kSlots;
}

Qpn QpTable::allocate() {
  if (in_use_ == kSlots - 1) return Qpn(0);  // the list keeps one, so that it is never empty
  Entry& entry = entries_[free_head_];
  free_head_ = entry.next_free;
  do {
    entry.qpn = next_generation(entry.qpn, block_);
  } while (is_reserved(entry.qpn));
  ++in_use_;
  return entry.qpn;
}

void QpTable::set(Qpn qpn, QpContext* qp) {
  CHECK(entries_[slot_of(qpn)].qpn == qpn);
  entries_[slot_of(qpn)].qp = qp;
}

void QpTable::release(Qpn qpn) {
  const uint32_t slot = slot_of(qpn);
  CHECK(entries_[slot].qpn == qpn && in_use_ > 0);
  entries_[slot].qp = nullptr;
  entries_[free_tail_].next_free = slot;
  free_tail_ = slot;
  --in_use_;
}

}  // namespace mprdma::dataplane
