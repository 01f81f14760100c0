// Memory that holds everything which the queue pairs under exploration allocate, so that their
// state is a piece of memory: kept by a copy, put back by a copy to the same place, and compared
// byte by byte. No member can be forgotten, and the pointers between the objects stay right.
//
// While an Arena::Scope lives, operator new takes from its arena; the transport allocates nothing
// after construction, which heap_allocations() lets the caller check. One thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mprdma::explore {

class Arena {
 public:
  explicit Arena(std::span<uint8_t> storage) : storage_(storage) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  class Scope {
   public:
    explicit Scope(Arena& arena);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena* before_;
  };

  // Zeroes what was taken. Objects in it are gone, without their destructors.
  void reset();
  [[nodiscard]] std::span<uint8_t> used() const { return storage_.first(used_); }
  // Zeroed memory; aborts when there is not enough.
  void* take(size_t bytes, size_t alignment);

 private:
  std::span<uint8_t> storage_;
  size_t used_ = 0;
};

// The queue pairs, and what the host of the device has for them.
Arena& queue_pair_arena();
Arena& held_pool_arena();

// Calls of operator new so far that took from the heap.
uint64_t heap_allocations();

// Overwrites the unused part of the stack, so that padding which a later call copies from there
// into a state does not depend on how the state was reached.
void scrub_stack();

}  // namespace mprdma::explore
