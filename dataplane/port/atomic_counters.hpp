// Counters with one writer and readers on any thread, without a lock. A plain add on the machines
// that we run on. Shared by the ports.
#pragma once

#include <atomic>
#include <cstdint>

#include "dataplane/port/port.hpp"

namespace mprdma::dataplane {

inline void count(uint64_t& counter, uint64_t n = 1) {
  const std::atomic_ref<uint64_t> shared(counter);
  shared.store(shared.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

inline PortCounters read_counters(const PortCounters& counters) {
  static_assert(sizeof(PortCounters) == PortCounters::kCount * sizeof(uint64_t));
  PortCounters result;
  // atomic_ref wants a mutable object even to load.
  auto* from = const_cast<uint64_t*>(reinterpret_cast<const uint64_t*>(&counters));
  auto* to = reinterpret_cast<uint64_t*>(&result);
  for (size_t i = 0; i < PortCounters::kCount; ++i) {
    to[i] = std::atomic_ref<uint64_t>(from[i]).load(std::memory_order_relaxed);
  }
  return result;
}

}  // namespace mprdma::dataplane
