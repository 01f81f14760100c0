// The frames that are sent to one port, reserved some at a time and committed in the order in which
// they were filled. A batch lives as long as its owner likes: what is reserved and not used stays
// for the next burst, so that a burst of one packet does not reserve and return frames in vain.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "base/check.hpp"
#include "dataplane/port/port.hpp"

namespace mprdma::dataplane {

// What a frame is for: data leaves the last frames of a port to answers.
enum class TxUse : uint8_t { kAnswers, kData };

class TxBatch {
 public:
  // `keeps`: the batch outlives a burst, and reserves for the next ones, too.
  explicit TxBatch(Port* port, bool keeps = false)
      : port_(port), chunk_(keeps ? kKeptChunk : kFirstChunk), keeps_(keeps) {}
  TxBatch(const TxBatch&) = delete;
  TxBatch& operator=(const TxBatch&) = delete;
  ~TxBatch() {
    give_up_kept();
    if (large_ == Large::kHeld) port_->tx_abandon(&large_frame_, 1);
  }

  // The next frame to fill; nullptr: the wire is full, for this use and until the next commit().
  // The frame that was given before has to be filled by then.
  TxFrame* next(TxUse use = TxUse::kAnswers) {
    if (large_ == Large::kFilled) [[unlikely]]
      hand_over();
    if (used_ < reserved_) [[likely]]
      return &frames_[used_++];
    return reserve(use);
  }

  // Returns the frame that next() gave last, which has not been filled.
  void put_back() {
    DCHECK(used_ > committed_);
    --used_;
  }
  // True if the port has large frames at all.
  [[nodiscard]] bool has_large() const { return port_->large_payload() > 0; }
  // Reserves a large frame, unless one is held already. False: the port has none now. As next().
  bool hold_large() {
    if (large_ == Large::kHeld) return true;
    hand_over();
    if (port_->tx_reserve_large(&large_frame_, 1) == 0) return false;
    large_ = Large::kHeld;
    return true;
  }
  [[nodiscard]] bool holds_large() const { return large_ == Large::kHeld; }
  // The held large frame, to be filled in place of the frame that next() gave last.
  TxFrame* take_large() {
    DCHECK(large_ == Large::kHeld);
    put_back();
    hand_over();
    large_ = Large::kFilled;
    return &large_frame_;
  }
  // Port::takes_bare(), as of the last reservation. (A port drops bare packets for a peer that does
  // not take them.)
  [[nodiscard]] bool bare() const { return bare_; }
  [[nodiscard]] Port& port() { return *port_; }

  // The port itself publishes what was committed.
  void flush() { port_->flush(); }
  // Commits the frames that were filled; false if there is nothing to publish.
  bool commit() {
    hand_over();
    full_ = full_for_data_ = false;
    return std::exchange(unpublished_, false);
  }

 private:
  enum class Large : uint8_t { kNone, kHeld, kFilled };

  void hand_over() {
    if (large_ == Large::kFilled) [[unlikely]] {
      port_->tx_commit(&large_frame_, 1);
      large_ = Large::kNone;
      unpublished_ = true;
    }
    if (used_ == committed_) return;
    port_->tx_commit(&frames_[committed_], used_ - committed_);
    committed_ = used_;
    unpublished_ = true;
  }

  void give_up_kept() {
    hand_over();
    if (reserved_ > used_) port_->tx_abandon(&frames_[used_], reserved_ - used_);
    reserved_ = used_;
  }

  static constexpr unsigned kFirstChunk = 4;  // of a batch that ends with its burst
  static constexpr unsigned kKeptChunk = 16;

  TxFrame* reserve(TxUse use) {
    if (full_ || port_ == nullptr || (use == TxUse::kData && full_for_data_)) return nullptr;
    hand_over();
    committed_ = used_ = reserved_ = 0;
    // Answers have frames of their own, and do not stop where data does.
    if (use == TxUse::kData && port_->tx_tight()) {
      full_for_data_ = true;
      return nullptr;
    }
    reserved_ = port_->tx_reserve(frames_.data(), chunk_);
    if (!keeps_) chunk_ = chunk_ * 2 < kBurst ? chunk_ * 2 : kBurst;
    full_ = reserved_ == 0;
    if (full_) return nullptr;
    bare_ = port_->takes_bare();
    used_ = 1;
    return &frames_[0];
  }

  Port* port_;
  unsigned reserved_ = 0;
  unsigned used_ = 0;
  unsigned committed_ = 0;
  unsigned chunk_;
  bool keeps_;
  bool full_ = false;
  bool full_for_data_ = false;
  bool unpublished_ = false;  // frames were committed since the last commit()
  bool bare_ = false;
  Large large_ = Large::kNone;
  TxFrame large_frame_;
  std::array<TxFrame, kBurst> frames_;
};

}  // namespace mprdma::dataplane
