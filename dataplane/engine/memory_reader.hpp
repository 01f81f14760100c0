// Whether the application waits in memory: it posts, and then reads a byte of its own until the
// answer is there, without a verb, as users of riomap do. What comes for it must then wake the
// helper, and the helper must not keep the core or the lock that the application needs.
//
// Pure; called with the lock of Progress held.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.hpp"

namespace mprdma::dataplane {

class MemoryReader {
 public:
  // An application that neither posts nor polls for this time after a post has waited in memory.
  static constexpr Duration kSilence = Duration::us(5);

  // The application posts.
  void on_post(Time now) {
    if (last_was_post_ && now - last_call_ >= kSilence) score_ = std::min(score_ + 1, kScoreMax);
    last_was_post_ = true;
    last_call_ = now;
  }
  // It polls, has taken completions, or waits for an event.
  void on_poll(Time now) {
    score_ /= 2;
    last_was_post_ = false;
    last_call_ = now;
  }

  // It is expected to wait in memory from its last post until its next.
  [[nodiscard]] bool waits() const { return last_was_post_ && score_ >= kEnough; }

 private:
  // Waits between two polls that make a reader. Fewer are no sign: on a busy machine a thread that
  // posts some requests in a row loses its core in between. One poll among many posts, which takes
  // their completions, is no sign either.
  static constexpr uint32_t kEnough = 6;
  static constexpr uint32_t kScoreMax = 16;

  Time last_call_;
  bool last_was_post_ = false;
  uint32_t score_ = 0;  // of waits; a poll halves it
};

}  // namespace mprdma::dataplane
