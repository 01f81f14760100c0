// The newest virtual paths: the last one in is the first one out, and where there is no room the
// oldest goes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.hpp"

namespace mprdma::transport {

class PathStack {
 public:
  // `most`: how many it holds.
  explicit PathStack(uint32_t most) : vps_(most) { CHECK(most > 0); }

  [[nodiscard]] bool empty() const { return count_ == 0; }
  void push(uint16_t vp) {
    top_ = top_ + 1 == size() ? 0 : top_ + 1;
    vps_[top_] = vp;
    count_ = std::min(count_ + 1, size());
  }
  uint16_t pop() {
    DCHECK(!empty());
    const uint16_t vp = vps_[top_];
    top_ = (top_ == 0 ? size() : top_) - 1;
    --count_;
    return vp;
  }
  // As if it were older than all others; without effect where there is no room.
  void push_oldest(uint16_t vp) {
    if (count_ == size()) return;
    vps_[top_ >= count_ ? top_ - count_ : top_ + size() - count_] = vp;
    ++count_;
  }
  void clear() { count_ = 0; }

 private:
  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(vps_.size()); }

  std::vector<uint16_t> vps_;
  uint32_t top_ = 0;  // the newest
  uint32_t count_ = 0;
};

}  // namespace mprdma::transport
