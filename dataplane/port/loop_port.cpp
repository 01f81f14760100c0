#include "dataplane/port/loop_port.hpp"

#include <new>

#include "base/check.hpp"

namespace mprdma::dataplane {

LoopPort::LoopPort(uint32_t mtu)
    : capacity_(mtu + kFrameTailroom),
      stride_((kFrameHeadroom + capacity_ + 63U) & ~63U),
      memory_(new (std::align_val_t{64}) unsigned char[size_t{stride_} * kFrames]) {
  free_.reserve(kFrames);
  for (uint32_t slot = kFrames; slot > 0; --slot) free_.push_back(slot - 1);
}

PortInfo LoopPort::info() const {
  PortInfo info;
  info.frame_bytes_max = kFrameHeadroom + capacity_;
  info.rx_frames = kFrames;
  info.can_corrupt = false;
  return info;
}

unsigned char* LoopPort::payload_of(uint64_t slot) const {
  return memory_.get() + slot * stride_ + kFrameHeadroom;
}

unsigned LoopPort::tx_reserve(TxFrame* frames, unsigned n) {
  unsigned got = 0;
  while (got < n && !free_.empty()) {
    const uint32_t slot = free_.back();
    free_.pop_back();
    frames[got++] = {payload_of(slot), capacity_, 0, 0, slot};
  }
  if (got == 0) ++stats_.tx_back_pressure;
  return got;
}

void LoopPort::tx_commit(const TxFrame* frames, unsigned n) {
  for (unsigned i = 0; i < n; ++i) {
    queue_.push(
        {static_cast<uint32_t>(frames[i].cookie), frames[i].header_bytes, frames[i].frame_bytes});
    ++stats_.tx_frames;
    stats_.tx_bytes += frames[i].frame_bytes;
  }
}

void LoopPort::tx_abandon(const TxFrame* frames, unsigned n) {
  for (unsigned i = 0; i < n; ++i) free_.push_back(static_cast<uint32_t>(frames[i].cookie));
}

unsigned LoopPort::rx_burst(RxFrame* frames, unsigned n) {
  unsigned got = 0;
  while (got < n && !queue_.empty()) {
    const Queued queued = queue_.pop();
    frames[got++] = {payload_of(queued.slot) - queued.header_bytes, queued.frame_bytes, queued.slot,
                     FrameForm::kFrame};
    ++stats_.rx_frames;
    stats_.rx_bytes += queued.frame_bytes;
  }
  return got;
}

void LoopPort::rx_release(const uint64_t* cookies, unsigned n) {
  for (unsigned i = 0; i < n; ++i) {
    CHECK(free_.size() < kFrames);
    free_.push_back(static_cast<uint32_t>(cookies[i]));
  }
}

}  // namespace mprdma::dataplane
