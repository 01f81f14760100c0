// The frames that the engine has borrowed from its ports: a handle of the transport names one.
//
// A frame is offered when it was decoded, stays if the transport holds it, and leaves once its
// payload is copied. The table's size is the largest number of borrowed frames: the held-frame
// budget and one burst.
#pragma once

#include <cstdint>
#include <memory>

#include "base/check.hpp"
#include "transport/core/types.hpp"

namespace mprdma::dataplane {

class Port;

struct BorrowedFrame {
  const unsigned char* payload = nullptr;
  uint64_t cookie = 0;
  Port* port = nullptr;
  uint32_t next_free = 0;
};

class FrameTable {
 public:
  explicit FrameTable(uint32_t capacity)
      : capacity_(capacity), frames_(std::make_unique<BorrowedFrame[]>(capacity)) {
    for (uint32_t i = 0; i < capacity; ++i) frames_[i].next_free = i + 1;
  }

  // Enters a frame for as long as one packet is processed; keep() makes it stay. The entry is free
  // again when the next one is offered.
  transport::FrameHandle offer(const unsigned char* payload, uint64_t cookie, Port* port) {
    CHECK(free_ < capacity_);
    BorrowedFrame& frame = frames_[free_];
    frame.payload = payload;
    frame.cookie = cookie;
    frame.port = port;
    return free_;
  }
  // Keeps the frame that was offered last. Requires that none was given back since.
  void keep(transport::FrameHandle offered) {
    CHECK(offered == free_);
    free_ = frames_[free_].next_free;
    ++in_use_;
  }

  const BorrowedFrame& operator[](transport::FrameHandle handle) const {
    DCHECK(handle < capacity_);
    return frames_[handle];
  }

  void give_back(transport::FrameHandle handle) {
    CHECK(handle < capacity_ && in_use_ > 0);
    frames_[handle].port = nullptr;
    frames_[handle].next_free = free_;
    free_ = static_cast<uint32_t>(handle);
    --in_use_;
  }

  [[nodiscard]] uint32_t in_use() const { return in_use_; }

 private:
  uint32_t capacity_;
  uint32_t free_ = 0;
  uint32_t in_use_ = 0;
  std::unique_ptr<BorrowedFrame[]> frames_;
};

}  // namespace mprdma::dataplane
