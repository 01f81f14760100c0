// DPDK's virtio-user writes to its control socket without MSG_NOSIGNAL: a peer that was killed
// would take us with it, by SIGPIPE. Around every control call into a driver, on a thread that is
// the application's:
//
//   const NoPipeSignal no_pipe_signal;
//
// holds that signal back and removes one that the call caused, but not one that waited before.
#pragma once

#include <signal.h>
#include <time.h>

namespace mprdma::dataplane {

class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigset_t pending;
    sigpending(&pending);
    waited_before_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoPipeSignal() {
    if (!waited_before_) {
      const timespec at_once{};
      sigtimedwait(&pipe_, nullptr, &at_once);
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool waited_before_ = false;
};

}  // namespace mprdma::dataplane
