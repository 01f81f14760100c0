#include "switchsim/model/event_wheel.hpp"

#include <algorithm>

namespace mprdma::switchsim {
namespace {

constexpr uint32_t kArity = 4;
constexpr uint32_t kEnd = UINT32_MAX;  // of a bucket's list

}  // namespace

EventWheel::EventWheel(uint32_t events, SimSpan horizon, uint32_t buckets)
    : nodes_(std::make_unique_for_overwrite<Node[]>(events)),
      current_(std::make_unique_for_overwrite<Entry[]>(events)),
      far_(std::make_unique_for_overwrite<Entry[]>(events)) {
  const uint32_t size = std::bit_ceil(std::max(buckets, uint32_t{64}));
  mask_ = size - 1;
  while ((int64_t{size} << shift_) < horizon.count_ps()) ++shift_;
  heads_.assign(size, kEnd);
  bits_.assign(size / 64, 0);
}

int64_t EventWheel::next_slot() const {
  const int64_t start = slot_ + 1;
  const auto words = static_cast<uint32_t>(bits_.size());
  const auto first = static_cast<uint32_t>(start & mask_);
  uint32_t word = first / 64;
  uint64_t bits = bits_[word] & (~uint64_t{0} << (first % 64));
  for (uint32_t seen = 0; seen <= words; ++seen) {
    if (bits != 0) {
      const int64_t bucket = word * 64 + std::countr_zero(bits);
      return start + ((bucket - start) & mask_);
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
    slot_ = std::max(slot_, far_[0].time_ps >> shift_);  // its bucket, and all before, are empty
    return true;
  }
  if (slot > (limit.ps() >> shift_)) return false;
  load(slot);
  return true;
}

void EventWheel::load(int64_t slot) {
  slot_ = slot;
  const auto bucket = static_cast<uint32_t>(slot & mask_);
  uint32_t count = 0;
  for (EventId id = heads_[bucket]; id != kEnd; id = nodes_[id].link) {
    nodes_[id].where = Where::kCurrent;
    // By insertion: most buckets hold a few, and many at the same time come latest first already.
    const Entry added = entry(id);
    uint32_t at = count++;
    if (count <= 16) {
      for (; at > 0 && current_[at - 1] < added; --at) current_[at] = current_[at - 1];
    }
    current_[at] = added;
  }
  if (count > 16) {
    std::sort(current_.get(), current_.get() + count,
              [](const Entry& a, const Entry& b) { return b < a; });
  }
  current_count_ = count;
  heads_[bucket] = kEnd;
  bits_[bucket / 64] &= ~(uint64_t{1} << (bucket % 64));
}

void EventWheel::insert_current(EventId id) {
  nodes_[id].where = Where::kCurrent;
  const Entry added = entry(id);
  uint32_t at = current_count_++;
  for (; at > 0 && current_[at - 1] < added; --at) current_[at] = current_[at - 1];
  current_[at] = added;
}

void EventWheel::advance(SimTime now) {
  floor_ps_ = std::max(floor_ps_, now.ps());
  const int64_t slot = now.ps() >> shift_;
  if (current_count_ != 0 || slot <= slot_) return;
  DCHECK(next_slot() >= slot);
  load(slot);
}

SimTime EventWheel::next() const {
  int64_t first = far_count_ != 0 ? far_[0].time_ps : SimTime::never().ps();
  if (current_count_ != 0) {
    first = std::min(first, current_[current_count_ - 1].time_ps);
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
    const Entry wanted = entry(id);
    Entry* const end = current_.get() + current_count_;
    Entry* const at = std::lower_bound(current_.get(), end, wanted,
                                       [](const Entry& a, const Entry& b) { return b < a; });
    CHECK(at != end && at->id == id);
    std::copy(at + 1, end, at);
    --current_count_;
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
