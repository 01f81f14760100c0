// Whether a thread moves to the core of the peer that has woken it.
//
// Who shares its core with its peer is woken without an interrupt, and has the core as soon as the
// peer sleeps: the scheduler brings readers of sockets together, too. It also takes threads apart
// where a core has too many, and knows more of the machine than we do. So a thread that is taken
// away moves back ever more seldom.
//
// Pure.
#pragma once

#include <algorithm>

#include "base/units.hpp"

namespace mprdma::dataplane {

class CoreFollower {
 public:
  // From one move to the next, from which it doubles as long as the thread does not stay.
  static constexpr Duration kAgainMin = Duration::ms(4);
  static constexpr Duration kAgainMax = Duration::s(1);

  // A thread on core `own` was woken from core `waker`; -1: nobody knows. True: it is to move.
  bool moves(Time now, int own, int waker) {
    if (waker < 0 || now < next_) return false;
    if (waker == own) {
      again_ = kAgainMin;
      return false;
    }
    next_ = now + again_;
    again_ = std::min(again_ * 2, kAgainMax);
    return true;
  }

 private:
  Time next_;
  Duration again_ = kAgainMin;
};

}  // namespace mprdma::dataplane
