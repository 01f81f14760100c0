#include "tests/explore/arena.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>

#include "base/check.hpp"

namespace mprdma::explore {

namespace {

constexpr size_t kArenaBytes = 256 * 1024;
constexpr size_t kScrubBytes = 16 * 1024;

alignas(64) uint8_t g_storage[2 * kArenaBytes];
Arena* g_current = nullptr;
uint64_t g_heap_allocations = 0;

bool in_arena(const void* at) {
  const auto* const byte = static_cast<const uint8_t*>(at);
  return byte >= std::begin(g_storage) && byte < std::end(g_storage);
}

void* allocate(size_t bytes, size_t alignment) {
  if (g_current != nullptr) return g_current->take(bytes, alignment);
  ++g_heap_allocations;
  const size_t rounded = (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  void* const at = std::aligned_alloc(alignment, rounded);
  CHECK(at != nullptr);
  return at;
}

void release(void* at) noexcept {
  if (!in_arena(at)) std::free(at);
}

}  // namespace

Arena::Scope::Scope(Arena& arena) : before_(g_current) {
  g_current = &arena;
}

Arena::Scope::~Scope() {
  g_current = before_;
}

void Arena::reset() {
  std::memset(storage_.data(), 0, used_);
  used_ = 0;
}

void* Arena::take(size_t bytes, size_t alignment) {
  const size_t begin = (used_ + alignment - 1) / alignment * alignment;
  CHECK(begin + bytes <= storage_.size());
  // The hash reads whole words.
  used_ = (begin + bytes + 7) / 8 * 8;
  return storage_.data() + begin;
}

Arena& queue_pair_arena() {
  static Arena arena{std::span(g_storage).first(kArenaBytes)};
  return arena;
}

Arena& held_pool_arena() {
  static Arena arena{std::span(g_storage).last(kArenaBytes)};
  return arena;
}

uint64_t heap_allocations() {
  return g_heap_allocations;
}

[[gnu::noinline]] void scrub_stack() {
  uint8_t area[kScrubBytes];
  std::memset(area, 0, sizeof(area));
  asm volatile("" : : "r"(area) : "memory");
}

}  // namespace mprdma::explore

void* operator new(size_t bytes) {
  return mprdma::explore::allocate(bytes, alignof(std::max_align_t));
}
void* operator new[](size_t bytes) {
  return mprdma::explore::allocate(bytes, alignof(std::max_align_t));
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return mprdma::explore::allocate(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return mprdma::explore::allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* at) noexcept {
  mprdma::explore::release(at);
}
void operator delete[](void* at) noexcept {
  mprdma::explore::release(at);
}
void operator delete(void* at, size_t) noexcept {
  mprdma::explore::release(at);
}
void operator delete[](void* at, size_t) noexcept {
  mprdma::explore::release(at);
}
void operator delete(void* at, std::align_val_t) noexcept {
  mprdma::explore::release(at);
}
void operator delete[](void* at, std::align_val_t) noexcept {
  mprdma::explore::release(at);
}
void operator delete(void* at, size_t, std::align_val_t) noexcept {
  mprdma::explore::release(at);
}
void operator delete[](void* at, size_t, std::align_val_t) noexcept {
  mprdma::explore::release(at);
}
