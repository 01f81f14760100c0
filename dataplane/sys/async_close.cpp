#include "dataplane/sys/async_close.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <mutex>

namespace mprdma::dataplane {

namespace {

// Number of closes that may hang before others wait.
constexpr unsigned kThreadsMax = 32;

struct Waiting {
  std::mutex mutex;
  std::deque<int> fds;
  unsigned threads = 0;
};

// Never destroyed: a thread that hangs may outlive everything else.
Waiting& waiting() {
  static auto* const all = new Waiting;
  return *all;
}

// What hangs most easily is made not to. Whoever still has the socket may undo that: hence the
// thread.
void close_now(int fd) {
  const linger off{1, 0};
  (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &off, sizeof off);
  close(fd);
}

void* run(void* /*unused*/) {
  Waiting& all = waiting();
  for (;;) {
    int fd = -1;
    {
      const std::lock_guard<std::mutex> guard(all.mutex);
      if (all.fds.empty()) {
        --all.threads;
        return nullptr;
      }
      fd = all.fds.front();
      all.fds.pop_front();
    }
    close_now(fd);
  }
}

// Signals are for the threads that expect them.
bool start_thread() {
  sigset_t everything;
  sigset_t before;
  sigfillset(&everything);
  pthread_sigmask(SIG_SETMASK, &everything, &before);
  pthread_t thread{};
  const bool started = pthread_create(&thread, nullptr, run, nullptr) == 0;
  if (started) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace

void close_elsewhere(int fd) {
  if (fd < 0) return;
  Waiting& all = waiting();
  const std::lock_guard<std::mutex> guard(all.mutex);
  all.fds.push_back(fd);
  if (all.threads == kThreadsMax) return;
  // Without a thread it waits for the next descriptor, which tries again.
  if (start_thread()) ++all.threads;
}

}  // namespace mprdma::dataplane
