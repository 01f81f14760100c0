#include "dataplane/cq.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>

namespace mprdma::dataplane {

namespace {

template <class T>
T* at(uint64_t address) {
  return reinterpret_cast<T*>(address);
}

constexpr uint32_t kArmKindMask = 3;
constexpr uint32_t kArmSerialShift = 2;

}  // namespace

Cq::Cq(const mprdma_abi_create_cq& command, const mprdma_abi_client* client)
    : ring_(at<mprdma_abi_cqe>(command.ring)),
      dbr_(at<mprdma_abi_cq_dbr>(command.dbr)),
      client_(client),
      cookie_(command.cookie),
      depth_(command.depth) {}

bool Cq::push(mprdma_abi_cqe& entry, bool urgent, EngineCounters& counters) {
  if (producer_ - consumer_seen_ >= depth_) {
    consumer_seen_ = mprdma_abi_load_acquire(&dbr_->consumer);
  }
  if (producer_ - consumer_seen_ >= depth_) {
    ++counters.cq_overruns;
    if (!overrun_) raise_event(client_, MPRDMA_ABI_EVENT_CQ_ERR, cookie_);
    overrun_ = true;
    return false;
  }
  mprdma_abi_cqe* slot = &ring_[producer_ & (depth_ - 1)];
  std::memcpy(slot, &entry, offsetof(mprdma_abi_cqe, sequence));
  mprdma_abi_store_release(&slot->sequence, ++producer_);
  urgent_ |= urgent;
  ++counters.completions;
  return true;
}

void Cq::fire(EngineCounters& counters) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const uint32_t arm = mprdma_abi_load_acquire(&dbr_->arm);
  const uint32_t kind = arm & kArmKindMask;
  const uint32_t serial = arm >> kArmSerialShift;
  const bool wanted = kind == MPRDMA_ABI_ARM_NEXT || (kind == MPRDMA_ABI_ARM_SOLICITED && urgent_);
  urgent_ = false;
  if (!wanted || serial == fired_serial_) return;
  fired_serial_ = serial;
  ++counters.completion_events;
  raise_event(client_, MPRDMA_ABI_EVENT_COMPLETION, cookie_);
}

int Cq::resize(const mprdma_abi_resize_cq& command) {
  const uint32_t consumer = mprdma_abi_load_acquire(&dbr_->consumer);
  const uint32_t unread = producer_ - consumer;
  if (unread > command.depth) return EINVAL;
  auto* ring = at<mprdma_abi_cqe>(command.ring);
  for (uint32_t i = 0; i < unread; ++i) {
    std::memcpy(&ring[i], &ring_[(consumer + i) & (depth_ - 1)],
                offsetof(mprdma_abi_cqe, sequence));
    mprdma_abi_store_release(&ring[i].sequence, i + 1);
  }
  auto* dbr = at<mprdma_abi_cq_dbr>(command.dbr);
  const uint32_t old_arm = mprdma_abi_load_acquire(&dbr_->arm);
  const uint32_t new_arm = mprdma_abi_load_acquire(&dbr->arm);
  if (new_arm != old_arm) {
    // A record that starts anew: its serials say nothing about those that fired.
    const uint32_t serial = new_arm >> kArmSerialShift;
    fired_serial_ = (new_arm & kArmKindMask) != 0 ? serial - 1 : serial;
  }
  ring_ = ring;
  dbr_ = dbr;
  depth_ = command.depth;
  producer_ = unread;
  consumer_seen_ = 0;
  return 0;
}

}  // namespace mprdma::dataplane
