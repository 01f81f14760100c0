// When the newest packets of a stream left, so that an acknowledgement gives a round trip where the
// packets carry no timestamp for it to echo (mode irn). Nothing is known of a packet that left
// twice: the acknowledgement may be of either copy (Karn's rule).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "base/psn.hpp"
#include "base/units.hpp"

namespace mprdma::transport {

class SendClock {
 public:
  // `slots`: most packets in flight, a power of two.
  explicit SendClock(uint32_t slots) : slots_(slots), entries_(std::make_unique<Entry[]>(slots)) {}
  void reset() { std::fill_n(entries_.get(), slots_, Entry{}); }
  void note(Time now, Psn psn, bool again) {
    entries_[psn.value() & (slots_ - 1)] = {.psn = psn,
                                            .left = static_cast<uint32_t>(now.ns()),
                                            .state = again ? State::kAgain : State::kOnce};
  }
  // The packet has left more than once.
  [[nodiscard]] bool left_again(Psn psn) const {
    const Entry& entry = at(psn);
    return entry.psn == psn && entry.state == State::kAgain;
  }
  // What the acknowledgement of the packet would echo, if it had carried the time: the low 32 bits
  // of the time, ns, or a time to come, which nobody takes for an echo.
  [[nodiscard]] uint32_t echo(Time now, Psn psn) const {
    const Entry& entry = at(psn);
    if (entry.psn == psn && entry.state == State::kOnce) return entry.left;
    return static_cast<uint32_t>(now.ns()) + 1;
  }

 private:
  enum class State : uint8_t { kNothing, kOnce, kAgain };
  struct Entry {
    Psn psn;
    uint32_t left = 0;
    State state = State::kNothing;
  };
  [[nodiscard]] const Entry& at(Psn psn) const { return entries_[psn.value() & (slots_ - 1)]; }

  uint32_t slots_;
  std::unique_ptr<Entry[]> entries_;
};

}  // namespace mprdma::transport
