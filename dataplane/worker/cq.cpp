#include "dataplane/worker/cq.hpp"

#include <algorithm>
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
      depth_(command.depth) {
  timer.owner = this;
}

bool Cq::find_room(EngineCounters& counters) {
  consumer_seen_ = mprdma_abi_load_acquire(&dbr_->consumer);
  if (producer_ - consumer_seen_ < depth_) return true;
  ++counters.cq_overruns;
  if (!overrun_) raise_event(client_, MPRDMA_ABI_EVENT_CQ_ERR, cookie_);
  overrun_ = true;
  return false;
}

Time Cq::fire(Time now, EngineCounters& counters) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const uint32_t arm = mprdma_abi_load_acquire(&dbr_->arm);
  const uint32_t kind = arm & kArmKindMask;
  const uint32_t serial = arm >> kArmSerialShift;
  const bool wanted =
      kind == MPRDMA_ABI_ARM_NEXT || (kind == MPRDMA_ABI_ARM_SOLICITED && solicited_);
  const bool urgent = kind == MPRDMA_ABI_ARM_SOLICITED || failed_;
  solicited_ = failed_ = false;
  if (!wanted || serial == fired_serial_) {
    waiting_since_ = producer_;
    due_ = Time::never();
    return due_;
  }
  if (urgent || !may_wait(producer_ - waiting_since_)) {
    raise(serial, counters);
  } else {
    if (due_.is_never()) due_ = now + period_;
    due_serial_ = serial;
  }
  return due_;
}

// A queue that fills up before enough entries came does not wait either.
bool Cq::may_wait(uint32_t waiting) const {
  return period_ > Duration::zero() && waiting < std::min(count_, depth_ / 2);
}

void Cq::expire(EngineCounters& counters) {
  due_ = Time::never();
  const uint32_t arm = mprdma_abi_load_acquire(&dbr_->arm);
  const uint32_t serial = arm >> kArmSerialShift;
  // An entry that came after the queue was armed is announced even if somebody polled it meanwhile
  // (IBTA 11.4.2.2): another may be waiting. A consumer that armed again knows the entries that it
  // polled before.
  const bool about_new = serial == due_serial_;
  const bool unread = mprdma_abi_load_acquire(&dbr_->consumer) != producer_;
  const bool armed = (arm & kArmKindMask) == MPRDMA_ABI_ARM_NEXT && serial != fired_serial_;
  if (armed && (about_new || unread)) raise(serial, counters);
}

void Cq::raise(uint32_t serial, EngineCounters& counters) {
  fired_serial_ = serial;
  waiting_since_ = producer_;
  due_ = Time::never();
  ++counters.completion_events;
  raise_event(client_, MPRDMA_ABI_EVENT_COMPLETION, cookie_, serial);
}

// An event that waits already keeps its time.
void Cq::moderate(uint16_t count, uint16_t period_us) {
  count_ = count;
  period_ = Duration::us(period_us);
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
    // The record starts again: its serials are unrelated to those that fired.
    const uint32_t serial = new_arm >> kArmSerialShift;
    fired_serial_ = (new_arm & kArmKindMask) != 0 ? serial - 1 : serial;
  }
  const uint32_t waiting = std::min(producer_ - waiting_since_, unread);
  ring_ = ring;
  dbr_ = dbr;
  depth_ = command.depth;
  producer_ = unread;
  waiting_since_ = unread - waiting;
  consumer_seen_ = 0;
  return 0;
}

}  // namespace mprdma::dataplane
