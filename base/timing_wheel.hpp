// Timers whose cost grows with those that are set, not with those that exist.
//
// A hierarchical wheel (Varghese and Lauck, SOSP 1987, scheme 7): five levels of 64 slots, each
// level 64 times coarser than the one below, the finest 4.096 us. Each level keeps a bitmap of its
// slots that are not empty, so the next deadline is found without a walk. A timer fires at the end
// of its tick, so never early and at most 4.1 us late; a timer beyond the last level (73 minutes)
// waits in the last slot of that level and is put in again.
//
// Nodes are embedded in their owner and never allocated. One thread.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/check.hpp"
#include "base/units.hpp"

namespace mprdma {

struct TimerNode {
  TimerNode* next = nullptr;
  TimerNode* prev = nullptr;
  void* owner = nullptr;
  uint64_t tick = 0;  // fires when the wheel reaches it
  uint8_t level = 0;
  uint8_t slot = 0;
  bool scheduled = false;
};

class TimingWheel {
 public:
  static constexpr int kTickShift = 12;  // 4.096 us
  static constexpr int kSlotBits = 6;
  static constexpr int kSlots = 1 << kSlotBits;
  static constexpr int kLevels = 5;

  explicit TimingWheel(Time start) : now_(floor_tick(start)) {}

  [[nodiscard]] bool empty() const { return count_ == 0; }

  // Sets or moves a timer. A deadline in the past fires at the next tick, so that a timer which is
  // always due cannot hold advance() for ever.
  void schedule(TimerNode& node, Time deadline) {
    if (node.scheduled) cancel(node);
    if (deadline.is_never()) return;
    const uint64_t tick = ceil_tick(deadline);
    node.tick = tick > now_ ? tick : now_ + 1;
    insert(node);
    ++count_;
  }

  void cancel(TimerNode& node) {
    if (!node.scheduled) return;
    unlink(node);
    --count_;
  }

  // Sets the timer if it is not set, or moves it if the deadline is earlier. For an owner that
  // looks at its real deadline when the timer fires: most deadlines only move on.
  void schedule_no_later(TimerNode& node, Time deadline) {
    if (deadline.is_never() || (node.scheduled && node.tick <= ceil_tick(deadline))) return;
    schedule(node, deadline);
  }

  // The time before which no timer fires; it may be early for a timer in a coarse slot.
  [[nodiscard]] Time next_deadline() const {
    int level = 0;
    uint64_t tick = 0;
    return next_slot(&level, &tick) ? tick_time(tick) : Time::never();
  }

  // Fires `expired(node)` for each timer that is due, in the order of ticks. The callback may
  // schedule and cancel timers, this one too.
  template <class F>
  void advance(Time time, F&& expired) {
    const uint64_t target = floor_tick(time);
    if (target >= soonest_) [[unlikely]]
      drain_until(target, expired);
    if (target > now_) now_ = target;
  }

 private:
  struct Level {
    uint64_t occupied = 0;
    std::array<TimerNode*, kSlots> head{};
  };

  static uint64_t floor_tick(Time t) {
    return t.ns() <= 0 ? 0 : static_cast<uint64_t>(t.ns()) >> kTickShift;
  }
  static uint64_t ceil_tick(Time t) {
    return t.ns() <= 0 ? 0 : ((static_cast<uint64_t>(t.ns()) - 1) >> kTickShift) + 1;
  }
  static Time tick_time(uint64_t tick) {
    return Time::from_ns(static_cast<int64_t>(tick << kTickShift));
  }
  static int slot_of(int level, uint64_t tick) {
    return static_cast<int>(tick >> (level * kSlotBits)) & (kSlots - 1);
  }

  void insert(TimerNode& node) {
    constexpr uint64_t kSpan = uint64_t{1} << (kLevels * kSlotBits);
    // The last slot that the wheel still reaches: a far timer waits there for its next round.
    constexpr uint64_t kReach = kSpan - kSpan / kSlots;
    const uint64_t place = node.tick - now_ < kReach ? node.tick : now_ + kReach - 1;
    // The level of the highest bit group in which now and then differ.
    const uint64_t differ = place ^ now_;
    int level = differ == 0 ? 0 : (63 - std::countl_zero(differ)) / kSlotBits;
    if (level >= kLevels) level = kLevels - 1;
    link(node, level, slot_of(level, place));
    const uint64_t begins = place >> (level * kSlotBits) << (level * kSlotBits);
    if (begins < soonest_) soonest_ = begins;
  }

  void link(TimerNode& node, int level, int slot) {
    Level& l = levels_[static_cast<size_t>(level)];
    TimerNode*& head = l.head[static_cast<size_t>(slot)];
    node.level = static_cast<uint8_t>(level);
    node.slot = static_cast<uint8_t>(slot);
    node.scheduled = true;
    node.prev = nullptr;
    node.next = head;
    if (head != nullptr) head->prev = &node;
    head = &node;
    l.occupied |= uint64_t{1} << slot;
  }

  void unlink(TimerNode& node) {
    Level& l = levels_[node.level];
    if (node.prev != nullptr) {
      node.prev->next = node.next;
    } else {
      CHECK(l.head[node.slot] == &node);
      l.head[node.slot] = node.next;
      if (node.next == nullptr) l.occupied &= ~(uint64_t{1} << node.slot);
    }
    if (node.next != nullptr) node.next->prev = node.prev;
    node.next = node.prev = nullptr;
    node.scheduled = false;
  }

  template <class F>
  void drain_until(uint64_t target, F& expired) {
    int level = 0;
    uint64_t tick = 0;
    while (next_slot(&level, &tick) && tick <= target) {
      now_ = tick;
      drain(level, slot_of(level, tick), expired);
    }
    soonest_ = next_slot(&level, &tick) ? tick : kNoTick;
  }

  // The occupied slot that comes first, and the tick at which it begins.
  bool next_slot(int* level_out, uint64_t* tick_out) const {
    for (int level = 0; level < kLevels; ++level) {
      const uint64_t occupied = levels_[static_cast<size_t>(level)].occupied;
      if (occupied == 0) continue;
      const int here = slot_of(level, now_);
      const int ahead = std::countr_zero(std::rotr(occupied, here));
      const int slot = (here + ahead) & (kSlots - 1);
      const int shift = level * kSlotBits;
      uint64_t start = (now_ >> (shift + kSlotBits)) << (shift + kSlotBits);
      start += static_cast<uint64_t>(slot) << shift;
      // A slot behind us belongs to the next round of this level (the last level only).
      if (slot < here) start += uint64_t{1} << (shift + kSlotBits);
      *level_out = level;
      *tick_out = start > now_ ? start : now_;
      return true;
    }
    return false;
  }

  template <class F>
  void drain(int level, int slot, F& expired) {
    Level& l = levels_[static_cast<size_t>(level)];
    // The chain is sorted out before anything fires, so that a callback may cancel any timer.
    TimerNode* pending = l.head[static_cast<size_t>(slot)];
    l.head[static_cast<size_t>(slot)] = nullptr;
    l.occupied &= ~(uint64_t{1} << slot);
    while (pending != nullptr) {
      TimerNode* node = pending;
      pending = node->next;
      node->next = node->prev = nullptr;
      node->scheduled = false;
      if (node->tick <= now_) {
        due_push(*node);
      } else {
        insert(*node);
      }
    }
    fire(expired);
  }

  // Due nodes stand in a list of their own, linked like a slot of a level that does not exist in
  // the wheel, so that cancel() finds them as well.
  void due_push(TimerNode& node) {
    TimerNode*& head = levels_[kDueLevel].head[0];
    node.level = kDueLevel;
    node.slot = 0;
    node.scheduled = true;
    node.prev = nullptr;
    node.next = head;
    if (head != nullptr) head->prev = &node;
    head = &node;
  }

  template <class F>
  void fire(F& expired) {
    while (TimerNode* node = levels_[kDueLevel].head[0]) {
      unlink(*node);
      --count_;
      expired(*node);
    }
  }

  static constexpr uint8_t kDueLevel = kLevels;
  static constexpr uint64_t kNoTick = UINT64_MAX;

  uint64_t now_;
  uint64_t soonest_ = kNoTick;  // no slot that is occupied begins before
  uint64_t count_ = 0;
  std::array<Level, kLevels + 1> levels_{};
};

}  // namespace mprdma
