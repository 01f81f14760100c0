// Ring: a FIFO of fixed capacity, allocated once, for one thread.
//
// Indices run freely through 32 bits and wrap: element i lives in slot i % capacity, the oldest
// element has head_index() and the next push gets tail_index(), so an index names an element for
// as long as it stays in the ring. The caller checks full() before push() and empty() before
// pop(); a CHECK finds a caller that does not.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/check.hpp"

namespace mprdma {

template <class T>
class Ring {
 public:
  // The capacity is rounded up to a power of two, at least 1.
  explicit Ring(uint32_t capacity_min)
      : capacity_(rounded(capacity_min)), slots_(std::make_unique<T[]>(capacity_)) {}

  uint32_t capacity() const { return capacity_; }
  uint32_t size() const { return tail_ - head_; }
  bool empty() const { return head_ == tail_; }
  bool full() const { return size() == capacity_; }

  // Returns the new element, to be found later under the index that tail_index() had before.
  T& push(T value) {
    CHECK(!full());
    T& slot = slot_of(tail_++);
    slot = std::move(value);
    return slot;
  }

  // As push(), for a caller that fills the element in place: it holds what it held before.
  T& append() {
    CHECK(!full());
    return slot_of(tail_++);
  }

  T pop() {
    CHECK(!empty());
    return std::move(slot_of(head_++));
  }
  // Removes the oldest element.
  void drop() {
    CHECK(!empty());
    ++head_;
  }

  T& front() { return at_offset(0); }
  const T& front() const { return at_offset(0); }
  T& back() { return at_offset(size() - 1); }
  const T& back() const { return at_offset(size() - 1); }

  // By offset from the front.
  T& operator[](uint32_t offset) { return at_offset(offset); }
  const T& operator[](uint32_t offset) const { return at_offset(offset); }

  // By free-running index, in [head_index(), tail_index()).
  T& at_index(uint32_t index) { return at_offset(index - head_); }
  const T& at_index(uint32_t index) const { return at_offset(index - head_); }
  uint32_t head_index() const { return head_; }
  uint32_t tail_index() const { return tail_; }

  // Drops all elements; indices go on from where they are.
  void clear() {
    while (!empty()) pop();
  }

 private:
  static uint32_t rounded(uint32_t capacity_min) {
    CHECK(capacity_min <= 1U << 31);
    return std::bit_ceil(capacity_min);
  }
  T& slot_of(uint32_t index) const { return slots_[index & (capacity_ - 1)]; }
  T& at_offset(uint32_t offset) const {
    DCHECK(offset < size());
    return slot_of(head_ + offset);
  }

  uint32_t capacity_;
  uint32_t head_ = 0;
  uint32_t tail_ = 0;
  std::unique_ptr<T[]> slots_;
};

}  // namespace mprdma
