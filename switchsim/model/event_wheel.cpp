#include "switchsim/model/event_wheel.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace mprdma::switchsim {
namespace {

constexpr uint32_t kArity = 4;
constexpr uint32_t kEnd = UINT32_MAX;  // end of a bucket's list
constexpr ptrdiff_t kFew = 16;         // up to this many events are sorted by insertion
constexpr int64_t kReach = 1024;       // slots that look_ahead() searches

}  // namespace

EventWheel::EventWheel(uint32_t events, SimSpan horizon, uint32_t buckets)
    : events_(events),
      nodes_(std::make_unique_for_overwrite<Node[]>(events)),
      current_(std::make_unique_for_overwrite<Entry[]>(events)),
      far_(std::make_unique_for_overwrite<Entry[]>(events)) {
  const uint32_t size = std::bit_ceil(std::max(buckets, uint32_t{64}));
  mask_ = size - 1;
  while ((int64_t{size} << shift_) < horizon.count_ps()) ++shift_;
  heads_.assign(size, kEnd);
  bits_.assign(size / 64, 0);
}

int64_t EventWheel::next_slot(int64_t last) const {
  const int64_t start = slot_ + 1;
  if (last < start) return kNoSlot;
  const auto words = static_cast<int64_t>(bits_.size());
  const int64_t seen_max = std::min(words, (last - start) / 64 + 1);
  const int64_t first = start & mask_;
  int64_t word = first / 64;
  uint64_t bits = bits_[word] & (~uint64_t{0} << (first % 64));
  for (int64_t seen = 0; seen <= seen_max; ++seen) {
    if (bits != 0) {
      const int64_t bucket = word * 64 + std::countr_zero(bits);
      const int64_t slot = start + ((bucket - start) & mask_);
      return slot <= last ? slot : kNoSlot;
    }
    word = word + 1 == words ? 0 : word + 1;
    bits = bits_[word];
  }
  return kNoSlot;
}

bool EventWheel::refill(SimTime limit) {
  if (count_ == 0) return false;
  const int64_t slot = count_ == far_count_ ? kNoSlot : next_slot();
  if (far_count_ != 0 && (far_[0].time_ps >> shift_) < slot) {
    if (far_[0].time_ps > limit.ps()) return false;
    slot_ = std::max(slot_, far_[0].time_ps >> shift_);  // this bucket and all before it are empty
    return true;
  }
  if (slot > (limit.ps() >> shift_)) return false;
  current_begin_ = current_end_ = 0;
  append_sorted(detach_bucket(slot));
  return true;
}

// The search ends near the present: an event that is inserted before slot_ costs a sorted
// insertion.
void EventWheel::look_ahead() {
  if (count_ == far_count_ + current_count()) return;
  const int64_t last = (floor_ps_ >> shift_) + kReach;
  std::array<EventId, kKnownAhead> lists;
  uint32_t taken = 0;
  for (int64_t slot = next_slot(last); slot != kNoSlot; slot = next_slot(last)) {
    lists[taken] = detach_bucket(slot);
    // The buckets are fetched together; one by one, each would be waited for.
    __builtin_prefetch(&nodes_[lists[taken]], 1);
    if (++taken == kKnownAhead) break;
  }
  if (taken == 0) return;
  std::copy(&current_[current_begin_], &current_[current_end_], &current_[0]);
  current_end_ -= std::exchange(current_begin_, 0);
  for (uint32_t i = 0; i < taken; ++i) append_sorted(lists[i]);
}

EventId EventWheel::detach_bucket(int64_t slot) {
  slot_ = slot;
  const auto bucket = static_cast<uint32_t>(slot & mask_);
  bits_[bucket / 64] &= ~(uint64_t{1} << (bucket % 64));
  return std::exchange(heads_[bucket], kEnd);
}

// Appends the list, sorted, behind the current events.
void EventWheel::append_sorted(EventId list) {
  Entry* const begin = &current_[current_end_];
  Entry* end = begin;
  for (EventId id = list; id != kEnd; id = nodes_[id].link) {
    nodes_[id].where = Where::kCurrent;
    *end++ = entry(id);
  }
  current_end_ += static_cast<uint32_t>(end - begin);
  if (end - begin < 2) return;
  // The list begins with the event that was inserted last. Reversed, most events are in order.
  std::reverse(begin, end);
  if (end - begin > kFew) return std::sort(begin, end);
  for (Entry* next = begin + 1; next != end; ++next) {
    const Entry added = *next;
    Entry* at = next;
    for (; at != begin && added < at[-1]; --at) *at = at[-1];
    *at = added;
  }
}

void EventWheel::insert_current(EventId id) {
  nodes_[id].where = Where::kCurrent;
  const Entry added = entry(id);
  Entry* const begin = &current_[current_begin_];
  Entry* const end = &current_[current_end_];
  Entry* const at = std::upper_bound(begin, end, added);
  // Moves the shorter part, if there is room before it.
  if (current_end_ == events_ || (current_begin_ != 0 && at - begin < end - at)) {
    std::copy(begin, at, begin - 1);
    --current_begin_;
    at[-1] = added;
  } else {
    std::copy_backward(at, end, end + 1);
    ++current_end_;
    *at = added;
  }
}

void EventWheel::advance(SimTime now) {
  floor_ps_ = std::max(floor_ps_, now.ps());
  const int64_t slot = now.ps() >> shift_;
  if (current_count() != 0 || slot <= slot_) return;
  DCHECK(next_slot() >= slot);
  current_begin_ = current_end_ = 0;
  append_sorted(detach_bucket(slot));
}

SimTime EventWheel::next() const {
  int64_t first = far_count_ != 0 ? far_[0].time_ps : SimTime::never().ps();
  if (current_count() != 0) {
    first = std::min(first, current_[current_begin_].time_ps);
  } else if (count_ != far_count_) {
    const auto bucket = static_cast<uint32_t>(next_slot() & mask_);
    for (EventId id = heads_[bucket]; id != kEnd; id = nodes_[id].link) {
      first = std::min(first, nodes_[id].time_ps);
    }
  }
  return SimTime::from_ps(first);
}

void EventWheel::cancel(EventId id) {
  Node& node = nodes_[id];
  CHECK(node.where != Where::kNowhere);
  --count_;
  if (node.where == Where::kFar) {
    remove_far(node.link);
  } else if (node.where == Where::kCurrent) {
    Entry* const end = &current_[current_end_];
    Entry* const at = std::lower_bound(&current_[current_begin_], end, entry(id));
    CHECK(at != end && at->id == id);
    std::copy(at + 1, end, at);
    --current_end_;
  } else {
    const auto bucket = static_cast<uint32_t>((node.time_ps >> shift_) & mask_);
    EventId* link = &heads_[bucket];
    while (*link != id) link = &nodes_[*link].link;
    *link = node.link;
    if (heads_[bucket] == kEnd) bits_[bucket / 64] &= ~(uint64_t{1} << (bucket % 64));
  }
  node.where = Where::kNowhere;
}

void EventWheel::place_far(uint32_t position, const Entry& moved) {
  far_[position] = moved;
  nodes_[moved.id].link = position;
}

void EventWheel::sift_up(uint32_t position, Entry moved) {
  while (position > 0) {
    const uint32_t parent = (position - 1) / kArity;
    if (!(moved < far_[parent])) break;
    place_far(position, far_[parent]);
    position = parent;
  }
  place_far(position, moved);
}

void EventWheel::sift_down(uint32_t position, Entry moved) {
  for (;;) {
    const uint32_t first = position * kArity + 1;
    if (first >= far_count_) break;
    const uint32_t end = std::min(first + kArity, far_count_);
    uint32_t least = first;
    for (uint32_t child = first + 1; child < end; ++child) {
      if (far_[child] < far_[least]) least = child;
    }
    if (!(far_[least] < moved)) break;
    place_far(position, far_[least]);
    position = least;
  }
  place_far(position, moved);
}

void EventWheel::insert_far(EventId id) {
  nodes_[id].where = Where::kFar;
  sift_up(far_count_++, entry(id));
}

void EventWheel::remove_far(uint32_t position) {
  const Entry last = far_[--far_count_];
  if (position == far_count_) return;
  if (position > 0 && last < far_[(position - 1) / kArity]) {
    sift_up(position, last);
  } else {
    sift_down(position, last);
  }
}

bool EventWheel::pop_far(SimTime limit, EventId& id, SimTime& time) {
  const Entry first = far_[0];
  if (first.time_ps > limit.ps()) return false;
  remove_far(0);
  --count_;
  id = first.id;
  time = SimTime::from_ps(first.time_ps);
  floor_ps_ = first.time_ps;
  nodes_[id].where = Where::kNowhere;
  return true;
}

}  // namespace mprdma::switchsim
