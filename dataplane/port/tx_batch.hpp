// The frames that a burst sends to one port, reserved a few at a time and committed in order.
// Reservations grow with the burst, so that a lone packet does not reserve thirty-two.
#pragma once

#include <array>
#include <cstdint>

#include "dataplane/port/port.hpp"

namespace mprdma::dataplane {

// Kind of a batch: data leaves the last frames of a port to answers.
enum class TxUse : uint8_t { kAnswers, kData };

class TxBatch {
 public:
  explicit TxBatch(Port* port, TxUse use = TxUse::kAnswers) : port_(port), use_(use) {}
  TxBatch(const TxBatch&) = delete;
  TxBatch& operator=(const TxBatch&) = delete;
  ~TxBatch() { finish(); }

  // The next frame to fill; nullptr: the wire is full, for the rest of this batch.
  TxFrame* next() {
    if (used_ < reserved_) return &frames_[used_++];
    if (full_ || port_ == nullptr) return nullptr;
    hand_over();
    if (use_ == TxUse::kData && port_->tx_tight()) {
      full_ = true;
      return nullptr;
    }
    reserved_ = port_->tx_reserve(frames_.data(), chunk_);
    full_ = reserved_ < chunk_;
    chunk_ = chunk_ * 2 < kBurst ? chunk_ * 2 : kBurst;
    if (reserved_ == 0) return nullptr;
    used_ = 1;
    return &frames_[0];
  }

  // Returns the frame that next() gave last.
  void put_back() { --used_; }

  [[nodiscard]] bool full() const { return full_ && used_ == reserved_; }

  // Commits the frames that were used and returns the rest. The batch can be used again afterwards.
  void finish() {
    hand_over();
    full_ = false;
    chunk_ = kFirstChunk;
  }

 private:
  static constexpr unsigned kFirstChunk = 4;

  void hand_over() {
    if (used_ > 0) port_->tx_commit(frames_.data(), used_);
    if (reserved_ > used_) port_->tx_abandon(frames_.data() + used_, reserved_ - used_);
    used_ = reserved_ = 0;
  }

  Port* port_;
  TxUse use_;
  unsigned reserved_ = 0;
  unsigned used_ = 0;
  unsigned chunk_ = kFirstChunk;
  bool full_ = false;
  std::array<TxFrame, kBurst> frames_;
};

}  // namespace mprdma::dataplane
