// Sending: reservations, descriptors, frames that come back.
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "dataplane/port/atomic_counters.hpp"
#include "dataplane/port/lent_payload.hpp"
#include "dataplane/port/local_port.hpp"

namespace mprdma::dataplane {

using local::Descriptor;

namespace {

// Of a packed descriptor: a packet that fits beside it.
bool is_short(uint64_t word) {
  const Descriptor descriptor = Descriptor::unpack(word);
  return descriptor.length <= local::kBesideBytes &&
         descriptor.form() == static_cast<uint32_t>(FrameForm::kBare);
}

}  // namespace

unsigned LocalPort::tx_reserve(TxFrame* frames, unsigned n) {
  n = std::min(n, kBurst);
  reap_if_due(n, free_slots_.size());
  const unsigned reserved = reserve(free_slots_, own_->geometry().stride, frames, n);
  note_starved(&tx_starved_, reserved < n);
  return reserved;
}

unsigned LocalPort::tx_reserve_large(TxFrame* frames, unsigned n) {
  reap_if_due(n, free_large_.size());
  const unsigned reserved = reserve(free_large_, own_->geometry().large_stride, frames, n);
  note_starved(&tx_starved_of_large_, reserved < n);
  return reserved;
}

uint32_t LocalPort::large_payload() const {
  if (!takes_bare() || own_->geometry().large_slots == 0) return 0;
  return own_->geometry().large_stride - kFrameHeadroom - kFrameTailroom;
}

unsigned LocalPort::reserve(local::SlotStack& from, uint32_t stride, TxFrame* frames, unsigned n) {
  const unsigned reserved = std::min<unsigned>(n, static_cast<unsigned>(from.size()));
  const uint32_t capacity = stride - kFrameHeadroom;
  for (unsigned i = 0; i < reserved; ++i) {
    const uint32_t slot = from.pop();
    slot_state_[slot] = SlotState::kReserved;
    unsigned char* payload = own_->frame(slot) + kFrameHeadroom;
    __builtin_prefetch(payload - 64, 1);
    __builtin_prefetch(payload, 1);
    frames[i] = {payload, capacity, 0, 0, slot};
  }
  return reserved;
}

// Looks for returned frames when the reservation needs them, and now and then.
void LocalPort::reap_if_due(size_t wanted, size_t free) {
  const size_t in_use = slot_state_.size() - free_slots_.size() - free_large_.size();
  if (in_use <= reap_above_ && free >= wanted) return;
  reap_returned();
  reap_above_ = slot_state_.size() - free_slots_.size() - free_large_.size() + local::kReapEvery;
}

bool LocalPort::tx_tight() {
  if (free_slots_.size() < local::kFramesForAnswers) reap_returned();
  const bool tight = free_slots_.size() < local::kFramesForAnswers;
  note_starved(&tx_starved_for_data_, tight);
  return tight;
}

void LocalPort::note_starved(bool* of, bool starved) {
  *of = starved;
  if (starved) count(counters_.tx_back_pressure);
}

void LocalPort::tx_commit(const TxFrame* frames, unsigned n) {
  if (!link_up()) {
    tx_abandon(frames, n);
    count(counters_.tx_dropped, n);
    return;
  }
  std::atomic<uint64_t>* ring = own_->tx_ring();
  uint64_t bytes = 0;
  unsigned dropped = 0;
  for (unsigned i = 0; i < n; ++i) {
    const TxFrame& frame = frames[i];
    const auto slot = static_cast<uint16_t>(frame.cookie);
    DCHECK(is_reserved(slot_state_[slot]));
    // Of a burst for a peer that is gone.
    if (frame.form > peer_takes_ || (frame.form == FrameForm::kLent && !takes_lent()))
        [[unlikely]] {
      free_slot(slot);
      ++dropped;
      continue;
    }
    DCHECK(frame.frame_bytes > 0 && frame.header_bytes <= kFrameHeadroom);
    DCHECK(frame.frame_bytes <= frame.header_bytes + frame.capacity);
    slot_state_[slot] = SlotState::kInFlight;
    if (frame.form == FrameForm::kLent) [[unlikely]]
      slot_state_[slot] = SlotState::kLent;
    const uint32_t offset = kFrameHeadroom - frame.header_bytes;
    const Descriptor descriptor{slot, static_cast<uint16_t>(frame.frame_bytes),
                                Descriptor::pack_offset(offset, frame.form),
                                static_cast<uint16_t>(tx_sequence_ + 1)};
    tx_newest_ = descriptor.pack();
    ring[tx_sequence_ & tx_mask_].store(tx_newest_, std::memory_order_relaxed);
    ++tx_sequence_;
    bytes += frame.frame_bytes;
  }
  count(counters_.tx_frames, n - dropped);
  count(counters_.tx_bytes, bytes);
  if (dropped > 0) [[unlikely]]
    count(counters_.tx_dropped, dropped);
}

unsigned char* LocalPort::lent_at(uint32_t slot) const {
  return own_->frame(slot) + kFrameHeadroom - LentPayload::kBytes;
}

void LocalPort::lend(TxFrame* frame, uint64_t address, uint32_t lender) {
  const auto slot = static_cast<uint16_t>(frame->cookie);
  DCHECK(slot_state_[slot] == SlotState::kReserved);
  slot_state_[slot] = SlotState::kReservedLent;
  lender_[slot] = lender;
  LentPayload::store(lent_at(slot), address, ++last_ticket_);
}

template <class Which>
void LocalPort::take_back_if(Which&& which) {
  if (last_ticket_ == 0) return;
  for (uint32_t slot = 0; slot < lender_.size(); ++slot) {
    if (is_lent(slot_state_[slot]) && which(slot)) LentPayload::set_ticket(lent_at(slot), 0);
  }
  // Whatever the application writes into that memory from here on comes after it.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void LocalPort::take_back(uint32_t lender) {
  take_back_if([&](uint32_t slot) { return lender_[slot] == lender; });
}

void LocalPort::take_back_memory(uint64_t address, uint64_t bytes) {
  take_back_if(
      [&](uint32_t slot) { return LentPayload::load(lent_at(slot)).address - address < bytes; });
}

void LocalPort::tx_abandon(const TxFrame* frames, unsigned n) {
  for (unsigned i = n; i-- > 0;) {
    const auto slot = static_cast<uint16_t>(frames[i].cookie);
    DCHECK(is_reserved(slot_state_[slot]));
    free_slot(slot);
  }
}

// Stores the last two frames in the header, if both are short. Returns what to publish.
uint64_t LocalPort::put_beside() {
  const uint64_t before =
      own_->tx_ring()[(tx_sequence_ - 2U) & tx_mask_].load(std::memory_order_relaxed);
  if (!is_short(before) || !is_short(tx_newest_)) return tx_newest_;
  local::RegionHeader& header = own_->header();
  header.before.descriptor.store(before, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  header.before.store(copy_of(before));
  header.newest.store(copy_of(tx_newest_));
  return tx_newest_ | Descriptor::kBeside;
}

local::BesideCopy LocalPort::copy_of(uint64_t word) const {
  const Descriptor descriptor = Descriptor::unpack(word);
  local::BesideCopy copy;
  std::memcpy(copy.data(), own_->frame(descriptor.slot) + descriptor.first_byte(), sizeof copy);
  return copy;
}

void LocalPort::flush() {
  // With frames, returns leave anyway. Alone, a peer that lacks nothing but a few does not wait for
  // them.
  const bool returns = tx_newest_ != tx_announced_ || peer_.borrowed_count > 0 ||
                       rx_waiting() > 0 || returns_waiting_ > returns_kept_;
  publish(returns);
}

// Frames that wait, and what was given back: with them, or alone, if `returns` says so.
void LocalPort::publish(bool returns) {
  const bool frames_wait = tx_newest_ != tx_announced_;
  if (!link_up() || (!frames_wait && !(returns && returns_waiting_ > 0))) return;
  if (frames_wait) {
    const uint64_t announced = std::exchange(tx_announced_, tx_newest_);
    const auto frames =
        static_cast<uint16_t>(tx_sequence_ - Descriptor::unpack(announced).sequence);
    const uint64_t word = frames == 2 && peer_reads_beside_ ? put_beside() : tx_newest_;
    own_->header().newest.descriptor.store(word, std::memory_order_release);
  }
  if (returns_waiting_ > 0) {
    own_->header().returned.store(rx_returned_, std::memory_order_release);
    returns_waiting_ = 0;
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const uint32_t wakeup = peer_.region->header().need_wakeup.load(std::memory_order_relaxed);
  if (wakeup == 0 || wakeup == last_wakeup_) return;
  if (!frames_wait && (wakeup & 1) == 0) return;
  last_wakeup_ = wakeup;
  own_->header().waker_core.store(static_cast<uint32_t>(sched_getcpu() + 1),
                                  std::memory_order_relaxed);
  control_.wake_peer();
  count(counters_.wakeups_sent);
}

// Takes our slots back that the peer is done with.
void LocalPort::reap_returned() {
  if (!link_up()) return;
  const auto cursor =
      static_cast<uint16_t>(peer_.region->header().returned.load(std::memory_order_acquire));
  const auto waiting = static_cast<uint16_t>(cursor - tx_returns_taken_);
  if (waiting > slot_state_.size()) {
    return protocol_violation("the process at the other end returned more than it ever got");
  }
  const std::atomic<uint16_t>* ring = peer_.region->return_ring();
  const size_t mask = own_->geometry().entries() - 1;
  for (uint16_t i = 0; i < waiting; ++i) {
    const uint16_t slot =
        ring[static_cast<uint16_t>(tx_returns_taken_ + i) & mask].load(std::memory_order_relaxed);
    if (slot < slot_state_.size() && in_flight(slot_state_[slot])) {
      free_slot(slot);
    } else {
      count(counters_.rx_malformed);
    }
  }
  tx_returns_taken_ = cursor;
}

}  // namespace mprdma::dataplane
