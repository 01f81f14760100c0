// Room for payloads that were read from a peer's memory but do not go straight to their place:
// packets that the transport takes in the general way, or holds. A fixed number, allocated when the
// first one is asked for.
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

  // nullptr: all are in use.
  unsigned char* take() {
    if (memory_ == nullptr) allocate();
    return free_count_ > 0 ? at(free_[--free_count_]) : nullptr;
  }
  void give_back(const unsigned char* buffer) {
    DCHECK(owns(buffer) && free_count_ < kCount);
    free_[free_count_++] = static_cast<uint8_t>((buffer - memory_.get()) / kBytes);
  }
  // True if the address is in one of them.
  [[nodiscard]] bool owns(const unsigned char* address) const {
    return memory_ != nullptr && address >= memory_.get() &&
           address < memory_.get() + size_t{kCount} * kBytes;
  }
  [[nodiscard]] uint32_t in_use() const { return memory_ == nullptr ? 0 : kCount - free_count_; }

 private:
  static constexpr uint32_t kCount = 64;

  [[nodiscard]] unsigned char* at(uint32_t index) const {
    return memory_.get() + size_t{index} * kBytes;
  }
  void allocate() {
    memory_ = std::make_unique_for_overwrite<unsigned char[]>(size_t{kCount} * kBytes);
    for (uint32_t i = 0; i < kCount; ++i) free_[i] = static_cast<uint8_t>(i);
    free_count_ = kCount;
  }

  std::unique_ptr<unsigned char[]> memory_;
  std::array<uint8_t, kCount> free_{};
  uint32_t free_count_ = 0;
};

}  // namespace mprdma::dataplane
