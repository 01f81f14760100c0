// Room for payloads that were read from a peer's memory but do not go straight to their place:
// packets that the transport takes in the general way, or holds. A fixed number; their pages come
// into being with their first use.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/check.hpp"
#include "wire/constants.hpp"

namespace mprdma::dataplane {

class PullBuffers {
 public:
  static constexpr uint32_t kBytes = wire::kMaxSegment;

  PullBuffers() {
    for (uint32_t i = 0; i < kCount; ++i) free_[i] = static_cast<uint8_t>(i);
  }

  // nullptr: all are in use.
  unsigned char* take() { return free_count_ > 0 ? at(free_[--free_count_]) : nullptr; }
  void give_back(const unsigned char* buffer) {
    DCHECK(owns(buffer) && free_count_ < kCount);
    free_[free_count_++] = static_cast<uint8_t>((buffer - memory_.get()) / kBytes);
  }
  // True if the address is in one of them.
  [[nodiscard]] bool owns(const unsigned char* address) const {
    return address >= memory_.get() && address < memory_.get() + size_t{kCount} * kBytes;
  }

 private:
  static constexpr uint32_t kCount = 64;

  [[nodiscard]] unsigned char* at(uint32_t index) const {
    return memory_.get() + size_t{index} * kBytes;
  }
  std::unique_ptr<unsigned char[]> memory_ =
      std::make_unique_for_overwrite<unsigned char[]>(size_t{kCount} * kBytes);
  std::array<uint8_t, kCount> free_{};
  uint32_t free_count_ = kCount;
};

}  // namespace mprdma::dataplane
