// The entries of the engine are no cancellation points.
//
// An application may cancel a thread that is in the engine (rping does), and what the engine calls
// is a cancellation point: it writes to wake others, sleeps and polls. Cancelled there, the thread
// would leave a lock taken.
#pragma once

#include <pthread.h>

namespace mprdma::dataplane {

class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace mprdma::dataplane
