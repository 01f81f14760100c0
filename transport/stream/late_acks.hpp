// Packets below snd_una whose own acknowledgement has not come yet: the one of another packet, on
// another way back, covered them first. Their room in the window belongs to the path that their own
// acknowledgement will echo; without that rule the path whose acknowledgements come back first
// takes the credits of the others until those paths have none.
//
// An acknowledgement that does not come within one to two rounds (round trips) is lost.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/psn.hpp"
#include "transport/core/param_list.hpp"

namespace mprdma::transport {

// How far behind the furthest packet another one came, as its path is judged (paper 3.4): not far,
// so far that the path may not have more, or so far that it is too slow.
enum class Lag : uint8_t { kSmall, kLimit, kSlow };

class LateAcks {
 public:
  explicit LateAcks(uint32_t span_max) : mask_(span_max - 1) {
    if (span_max > kInline) wide_ = std::make_unique<uint8_t[]>(span_max);
  }
  // How many are expected.
  [[nodiscard]] uint32_t count() const { return count_; }
  // An acknowledgement is the first to cover this packet, and names another one. PSNs ascend.
  void expect(Psn psn, Lag lag) {
    if (oldest_.distance_to(psn) >= slots()) drop_before(psn - mask_);
    slot(psn) = static_cast<uint8_t>(1 + static_cast<uint8_t>(lag));
    ++count_;
  }
  // An acknowledgement names this packet, below snd_una. Nothing: it was not expected; a duplicate,
  // a copy's, or somebody's who knows no better.
  std::optional<Lag> take(Psn psn) {
    const int32_t at = oldest_.distance_to(psn);
    if (count_ == 0 || at < 0 || at >= slots() || slot(psn) == 0) return std::nullopt;
    const auto lag = static_cast<Lag>(slot(psn) - 1);
    slot(psn) = 0;
    --count_;
    return lag;
  }
  // Returns how many are not expected any more.
  uint32_t end_round(Psn una) {
    const uint32_t before = count_;
    drop_before(round_una_);
    round_una_ = una;
    return before - count_;
  }
  // None is expected any more.
  void forget(Psn una) {
    if (count_ > 0) std::fill_n(data(), mask_ + 1, uint8_t{0});
    count_ = 0;
    oldest_ = round_una_ = una;
  }

 private:
  static constexpr uint32_t kInline = kSendSpanMin;

  [[nodiscard]] int32_t slots() const { return static_cast<int32_t>(mask_ + 1); }
  uint8_t* data() { return wide_ ? wide_.get() : inline_.data(); }
  uint8_t& slot(Psn psn) { return data()[psn.value() & mask_]; }
  void drop_before(Psn psn) {
    for (; count_ > 0 && oldest_.before(psn); ++oldest_) (void)take(oldest_);
    if (oldest_.before(psn)) oldest_ = psn;
  }

  // By PSN; 0: none is expected, else 1 + Lag.
  std::array<uint8_t, kInline> inline_{};
  std::unique_ptr<uint8_t[]> wide_;  // in place of inline_, of a wider span
  uint32_t mask_;
  uint32_t count_ = 0;
  Psn oldest_;     // every PSN with a slot is in [oldest_, oldest_ + span_max)
  Psn round_una_;  // snd_una when this round began
};

}  // namespace mprdma::transport
