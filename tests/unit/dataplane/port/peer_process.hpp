// Peer processes that are killed: this test program, run again as ports_test_main.cpp says.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include "dataplane/port/port.hpp"
#include "tests/unit/dataplane/port/port_test_support.hpp"

namespace mprdma::dataplane::testing {

// A peer process: this program, run again. Killed at the end of its life, by its pid.
class PeerProcess {
 public:
  explicit PeerProcess(const std::string& spec) {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) abort();
    pid_ = fork();
    if (pid_ == 0) {
      fcntl(fds[1], F_SETFD, 0);
      const std::string fd = std::to_string(fds[1]);
      execl("/proc/self/exe", "unit_dataplane_ports", "--peer", spec.c_str(), fd.c_str(), nullptr);
      _exit(127);
    }
    close(fds[1]);
    report_fd_ = fds[0];
    fcntl(report_fd_, F_SETFL, O_NONBLOCK);
  }
  ~PeerProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(report_fd_);
  }
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  // Whether it has got and checked some of our frames since the last call.
  [[nodiscard]] bool got_frames() const {
    char bytes[256];
    return read(report_fd_, bytes, sizeof bytes) > 0;
  }

 private:
  pid_t pid_ = -1;
  int report_fd_ = -1;
};

// Kills the process at the other end of `port` `times` times under traffic in both directions.
inline void kill_peers(Port& port, const std::string& peer_spec, int times,
                       Duration limit = Duration::s(10)) {
  uint64_t sent = 0;
  RxFrame held{};
  uint64_t held_number = 0;
  for (int i = 0; i < times; ++i) {
    PeerProcess peer(peer_spec);
    uint64_t good = 0;
    bool heard = false;
    const bool works = until(
        [&] {
          port.service(now());
          sent += send_patterns(port, sent, kBurst);
          RxFrame frames[kBurst];
          const unsigned taken = port.rx_burst(frames, kBurst);
          for (unsigned k = 0; k < taken; ++k) {
            EXPECT_NE(read_pattern(frames[k]), UINT64_MAX);
            // One frame of each process is held until the next one's traffic flows.
            if (good++ == 100) std::swap(held, frames[k]);
            if (frames[k].data != nullptr) port.rx_release(&frames[k].cookie, 1);
            if (good == 101) held_number = read_pattern(held);
          }
          heard = heard || peer.got_frames();
          return heard && good > 300;
        },
        limit);
    ASSERT_TRUE(works) << "round " << i << ": " << port.link_text();
    ASSERT_EQ(read_pattern(held), held_number);
  }
  if (held.data != nullptr) port.rx_release(&held.cookie, 1);
}

}  // namespace mprdma::dataplane::testing
