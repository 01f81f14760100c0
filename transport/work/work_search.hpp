// Finding the work request of an outstanding PSN in a requester's queue: the work requests lie in
// the ring in the order of their first PSNs, those without a packet of their own before the one
// that has their `first`.
#pragma once

#include <cstdint>

#include "base/psn.hpp"
#include "base/ring.hpp"

namespace mprdma::transport {

// Ring index among the oldest `begun` entries of `queue`, at least one; Work has a `first`.
template <class Work>
uint32_t index_of_psn(const Ring<Work>& queue, uint32_t begun, Psn psn) {
  uint32_t low = queue.head_index();
  while (begun > 1) {
    const uint32_t half = begun / 2;
    if (queue.at_index(low + half).first.at_or_before(psn)) {
      low += half;
      begun -= half;
    } else {
      begun = half;
    }
  }
  return low;
}

}  // namespace mprdma::transport
