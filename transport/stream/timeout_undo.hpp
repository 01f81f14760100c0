// The first timeout of a row, until an acknowledgement tells whether it was right (Eifel, RFC 3522
// and 4015). The acknowledgement says which copy came: the original, then the timeout was too
// early; a later one, then nothing is known and it stands.
#pragma once

#include <cstdint>

#include "base/psn.hpp"
#include "base/window_bitmap.hpp"
#include "cc/window.hpp"

namespace mprdma::transport {

class TimeoutUndo {
 public:
  TimeoutUndo(uint32_t span_max, const cc::Window& window)
      : lost_(span_max), window_before_(window) {}
  void reset(Psn first) { end_ = first; }

  [[nodiscard]] bool open() const { return open_; }
  // True if an acknowledgement may change more than the end of what is covered.
  [[nodiscard]] bool holds() const { return holds_; }
  // True if `psn` was outstanding at the timeout.
  [[nodiscard]] bool covers(Psn psn) const { return psn.before(end_); }
  [[nodiscard]] bool lost_by_timeout(Psn psn) const { return lost_.test(psn.value()); }
  [[nodiscard]] const cc::Window& window_before() const { return window_before_; }

  // Records a timeout, while none is open. Packets sent from now on tell nothing about it, nor
  // about the timeouts that follow it. `undoable`: an acknowledgement may undo it.
  void begin(const cc::Window& window, Psn nxt, bool undoable) {
    window_before_ = window;
    end_ = nxt;
    open_ = undoable;
    holds_ = true;
  }
  void lose(Psn psn) {
    lost_.set(psn.value());
    holds_ = true;
  }
  // The copy that the timeout gave up is gone, or another copy is in flight.
  void forget(Psn psn) { lost_.clear(psn.value()); }
  // snd_una has moved from `from` to `to`.
  void on_advance(Psn from, Psn to) {
    if (!holds_) [[likely]] {
      end_ = psn_max(end_, to);
      return;
    }
    lost_.clear_range(from.value(), static_cast<uint32_t>(from.distance_to(to)));
    if (end_.after(to)) return;
    close();
    end_ = to;
  }
  void close() {
    open_ = holds_ = false;
    lost_.reset();
  }

 private:
  bool open_ = false;
  bool holds_ = false;  // a timeout is recorded, or lost_ may have a bit
  Psn end_;             // snd_nxt at the timeout; never before snd_una
  WindowBitmap lost_;
  cc::Window window_before_;
};

}  // namespace mprdma::transport
