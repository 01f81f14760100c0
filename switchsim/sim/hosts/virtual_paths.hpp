// The virtual paths of a flow's payload where it leaves its host: how many so far, and how many
// since the last call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/check.hpp"
#include "wire/constants.hpp"

namespace mprdma::switchsim {

class VirtualPathMeter {
 public:
  void note(uint16_t vp) {
    DCHECK(vp >= wire::kVirtualPathMin);
    const size_t number = vp - wire::kVirtualPathMin;
    const uint64_t bit = uint64_t{1} << (number % 64);
    uint64_t& recent = recent_[number / 64];
    if ((recent & bit) != 0) return;
    recent |= bit;
    ++recent_count_;
    uint64_t& ever = ever_[number / 64];
    ever_count_ += (ever & bit) == 0 ? 1 : 0;
    ever |= bit;
  }

  [[nodiscard]] uint32_t ever() const { return ever_count_; }
  // The paths since the last call of this function.
  uint32_t drain_recent() {
    const uint32_t count = recent_count_;
    recent_.fill(0);
    recent_count_ = 0;
    return count;
  }

 private:
  static constexpr size_t kWords = wire::kVirtualPathCount / 64;
  std::array<uint64_t, kWords> ever_{};
  std::array<uint64_t, kWords> recent_{};
  uint32_t ever_count_ = 0;
  uint32_t recent_count_ = 0;
};

}  // namespace mprdma::switchsim
