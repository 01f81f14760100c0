// When the packets of a stream left, in little memory and with little work for each packet: to a
// part of a round trip (`grain`), rounded up, so that nothing seems older than it is.
//
// New packets leave in the order of their PSNs: a mark is the PSN at which a grain began and the
// time of its last packet, and a ring of marks has the time of all. Copies leave in any order: a
// generation is a map of those sent within a grain. Where marks or generations run short, the two
// oldest become one.
//
// Times are ticks of 64 ns in 32 bits, compared serially: right over 137 s. Who is idle longer
// resets.
#pragma once

#include <array>
#include <cstdint>

#include "base/psn.hpp"
#include "base/units.hpp"
#include "base/window_bitmap.hpp"

namespace mprdma::transport {

class Tick {
 public:
  constexpr Tick() = default;
  static constexpr Tick at_or_before(Time time) {
    return Tick(static_cast<uint32_t>(time.ns() >> kShift));
  }
  static constexpr Tick after(Time time) { return Tick(at_or_before(time).count_ + 1); }
  [[nodiscard]] constexpr bool before(Tick other) const {
    return static_cast<int32_t>(count_ - other.count_) < 0;
  }
  // From an earlier tick until this one.
  [[nodiscard]] constexpr Duration since(Tick earlier) const {
    const auto ticks = static_cast<int32_t>(count_ - earlier.count_);
    return Duration::ns(int64_t{ticks} << kShift);
  }
  // The point in time next to `now` that this tick stands for.
  [[nodiscard]] constexpr Time near(Time now) const {
    const auto ago = static_cast<int32_t>(at_or_before(now).count_ - count_);
    return Time::from_ns(((now.ns() >> kShift) - ago) << kShift);
  }

 private:
  static constexpr unsigned kShift = 6;
  constexpr explicit Tick(uint32_t count) : count_(count) {}
  uint32_t count_ = 0;
};

class SendTimes {
 public:
  void reset() { count_ = 0; }
  // The new packet `psn` leaves.
  void note(Time now, Psn psn, Duration grain) {
    if (count_ > 0 && now - began_ < grain) [[likely]] {
      marks_[newest_].last = Tick::after(now);
      return;
    }
    began_ = now;
    newest_ = (newest_ + 1) % kMarks;
    if (count_ < kMarks) ++count_;
    marks_[newest_] = {psn, Tick::after(now)};
  }
  // Not before the last packet left; requires that one was noted.
  [[nodiscard]] Tick last() const { return marks_[newest_].last; }
  // Not before this packet left; requires that it was noted.
  [[nodiscard]] Tick of(Psn psn) const {
    uint32_t at = newest_;
    for (uint32_t left = count_; left > 1 && psn.before(marks_[at].first); --left) {
      at = (at + kMarks - 1) % kMarks;
    }
    return marks_[at].last;
  }

 private:
  static constexpr uint32_t kMarks = 16;
  struct Mark {
    Psn first;
    Tick last;
  };
  std::array<Mark, kMarks> marks_{};
  uint32_t newest_ = 0;
  uint32_t count_ = 0;
  Time began_;  // when the first packet of the newest mark left
};

class CopyTimes {
 public:
  struct Generation {
    WindowBitmap psns;
    Tick first;  // not after the first of them left
    Tick last;   // not before the last of them left
  };
  static constexpr uint32_t kGenerations = 4;

  explicit CopyTimes(uint32_t span_max)
      : generations_{{{WindowBitmap(span_max), {}, {}},
                      {WindowBitmap(span_max), {}, {}},
                      {WindowBitmap(span_max), {}, {}},
                      {WindowBitmap(span_max), {}, {}}}} {}

  void reset() {
    if (!any_) return;
    for (Generation& g : generations_) g.psns.reset();
    any_ = false;
  }
  [[nodiscard]] bool any() const { return any_; }
  [[nodiscard]] bool has(Psn psn) const {
    if (!any_) return false;
    for (const Generation& g : generations_) {
      if (g.psns.test(psn.value())) return true;
    }
    return false;
  }
  // True if a copy of the packet has certainly left after `sent`.
  [[nodiscard]] bool left_after(Psn psn, Time sent) const {
    if (!any_) return false;
    for (const Generation& g : generations_) {
      if (g.psns.test(psn.value())) return Tick::at_or_before(sent).before(g.first);
    }
    return false;
  }
  // A copy of `psn` leaves; a former one counts no more.
  void note(Time now, Psn psn, Duration grain) {
    for (Generation& g : generations_) g.psns.clear(psn.value());
    if (!any_ || now - began_ >= grain) {
      began_ = now;
      age();
      generations_[0].first = Tick::at_or_before(now);
    }
    any_ = true;
    generations_[0].psns.set(psn.value());
    generations_[0].last = Tick::after(now);
  }
  // The `count` packets from `first` on leave the window.
  void forget(Psn first, uint32_t count) {
    if (!any_) return;
    any_ = false;
    for (Generation& g : generations_) {
      g.psns.clear_range(first.value(), count);
      any_ = any_ || g.psns.any();
    }
  }
  // The newest first.
  [[nodiscard]] const std::array<Generation, kGenerations>& generations() const {
    return generations_;
  }

 private:
  // Makes room for a generation, whatever the two oldest hold.
  void age() {
    Generation& oldest = generations_[kGenerations - 1];
    Generation& next = generations_[kGenerations - 2];
    if (next.psns.any()) {
      if (!oldest.psns.any()) oldest.first = next.first;
      oldest.psns.add(next.psns);
      oldest.last = next.last;
    }
    for (uint32_t i = kGenerations - 2; i > 0; --i) generations_[i] = generations_[i - 1];
    generations_[0].psns.reset();
  }

  std::array<Generation, kGenerations> generations_;
  Time began_;  // when the first packet of the newest generation left
  bool any_ = false;
};

}  // namespace mprdma::transport
