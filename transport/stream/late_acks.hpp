// Packets below snd_una whose own acknowledgement has not come yet: the one of another packet, on
// another way back, covered them first. Their room in the window belongs to the path that their own
// acknowledgement will echo; without that rule the path whose acknowledgements come back first
// takes the credits of the others until those paths have none.
//
// An acknowledgement that does not come within one to two rounds (round trips) is lost.
#pragma once

#include <cstdint>
#include <optional>

#include "base/psn.hpp"
#include "base/window_bitmap.hpp"

namespace mprdma::transport {

// How far behind the furthest packet another one came, as its path is judged (paper 3.4): not far,
// so far that the path may not have more, or so far that it is too slow.
enum class Lag : uint8_t { kSmall, kLimit, kSlow };

class LateAcks {
 public:
  explicit LateAcks(uint32_t span_max) : small_(span_max), limit_(span_max), slow_(span_max) {}
  // How many are expected.
  [[nodiscard]] uint32_t count() const { return count_; }
  // An acknowledgement is the first to cover this packet, and names another one. PSNs ascend.
  void expect(Psn psn, Lag lag) {
    if (oldest_.distance_to(psn) >= slots()) drop_before(psn - (small_.size() - 1));
    map_of(lag).set(psn.value());
    ++count_;
  }
  // An acknowledgement names this packet, below snd_una. Nothing: it was not expected; a duplicate,
  // a copy's, or somebody's who knows no better.
  std::optional<Lag> take(Psn psn) {
    const int32_t at = oldest_.distance_to(psn);
    if (count_ == 0 || at < 0 || at >= slots()) return std::nullopt;
    for (const Lag lag : {Lag::kSmall, Lag::kLimit, Lag::kSlow}) {
      WindowBitmap& map = map_of(lag);
      if (!map.test(psn.value())) continue;
      map.clear(psn.value());
      --count_;
      return lag;
    }
    return std::nullopt;
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
    if (count_ > 0) {
      for (WindowBitmap* map : {&small_, &limit_, &slow_}) map->reset();
    }
    count_ = 0;
    oldest_ = round_una_ = una;
  }

 private:
  [[nodiscard]] int32_t slots() const { return static_cast<int32_t>(small_.size()); }
  WindowBitmap& map_of(Lag lag) {
    return lag == Lag::kSmall ? small_ : lag == Lag::kLimit ? limit_ : slow_;
  }
  void drop_before(Psn psn) {
    for (; count_ > 0 && oldest_.before(psn); ++oldest_) (void)take(oldest_);
    if (oldest_.before(psn)) oldest_ = psn;
  }

  // Those that are expected, by PSN, apart by how far behind they came; disjoint.
  WindowBitmap small_;
  WindowBitmap limit_;
  WindowBitmap slow_;
  uint32_t count_ = 0;
  Psn oldest_;     // every PSN with a slot is in [oldest_, oldest_ + span_max)
  Psn round_una_;  // snd_una when this round began
};

}  // namespace mprdma::transport
