// The send scheduler: a first-in first-out list of the queue pairs that have something to send.
//
// A queue pair sends a few packets a turn and goes to the end while it has more, so that one with a
// deep queue does not starve the others, and the port's back-pressure meets all of them in turn.
// Intrusive: T has `T* next_active` and `bool active`. One thread.
#pragma once

#include <cstdint>

#include "base/check.hpp"

namespace mprdma::dataplane {

template <class T>
class Scheduler {
 public:
  [[nodiscard]] bool empty() const { return head_ == nullptr; }
  [[nodiscard]] uint32_t size() const { return size_; }

  // Does nothing if the queue pair is in the list already.
  void push(T& item) {
    if (item.active) return;
    item.active = true;
    item.next_active = nullptr;
    if (tail_ != nullptr) {
      tail_->next_active = &item;
    } else {
      head_ = &item;
    }
    tail_ = &item;
    ++size_;
  }

  // Takes the first one out of the list; nullptr if there is none.
  T* pop() {
    T* item = head_;
    if (item == nullptr) return nullptr;
    head_ = item->next_active;
    if (head_ == nullptr) tail_ = nullptr;
    item->next_active = nullptr;
    item->active = false;
    --size_;
    return item;
  }

  // Removes a queue pair that is destroyed; walks the list.
  void remove(T& item) {
    if (!item.active) return;
    T** link = &head_;
    T* before = nullptr;
    while (*link != &item) {
      CHECK(*link != nullptr);
      before = *link;
      link = &before->next_active;
    }
    *link = item.next_active;
    if (tail_ == &item) tail_ = before;
    item.next_active = nullptr;
    item.active = false;
    --size_;
  }

 private:
  T* head_ = nullptr;
  T* tail_ = nullptr;
  uint32_t size_ = 0;
};

}  // namespace mprdma::dataplane
