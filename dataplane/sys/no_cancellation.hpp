// No cancellation point in here.
//
// An application may cancel a thread that is in the engine (rping does), and what the engine calls
// may be a cancellation point: it writes to wake others, sleeps and polls. Cancelled there, the
// thread would leave a lock taken.
//
// The entries of the engine hold one of these. To take and to drop it are two locked instructions,
// which also wait for every store before them, so posts and polls do without on ports that have no
// cancellation point for a packet; whatever is one there holds one of its own: wake-ups, kicks,
// naps, events and warnings. That is enough for a thread whose cancellation is deferred; with the
// other type POSIX lets it call no verb.
#pragma once

#include <pthread.h>

namespace mprdma::dataplane {

class NoCancellation {
 public:
  explicit NoCancellation(bool wanted = true) : wanted_(wanted) {
    if (wanted_) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_);
  }
  ~NoCancellation() {
    if (wanted_) pthread_setcancelstate(before_, nullptr);
  }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  const bool wanted_;
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace mprdma::dataplane
