// What the port tests share: a wire's path, a clock, frames with a pattern, a process that plays
// the peer.
#pragma once

#include <sched.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "dataplane/open_port.hpp"
#include "dataplane/port/port.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/temporary_directory.hpp"

namespace mprdma::dataplane::testing {

inline Time now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return Time::from_ns(t.tv_sec * 1'000'000'000LL + t.tv_nsec);
}

// A directory of its own for a wire.
class WireDirectory : public TemporaryDirectory {
 public:
  [[nodiscard]] std::string wire() const { return path("wire"); }
};

// Runs `step` until it says true; false after the limit.
template <class Step>
bool until(Step&& step, Duration limit = Duration::s(10)) {
  return eventually(step, std::chrono::nanoseconds(limit.count_ns()));
}

// Two ports at the ends of a wire of shared memory, with as few frames as may be.
struct LinkedPorts {
  LinkedPorts()
      : a(open_port("local:" + directory.wire() + ",slots=256").port),
        b(open_port("local:" + directory.wire() + ",slots=256").port) {}
  // False: the link does not come up.
  [[nodiscard]] bool link() const {
    return until([&] {
      a->service(now());
      b->service(now());
      return a->link_up() && b->link_up();
    });
  }

  WireDirectory directory;
  std::unique_ptr<Port> a;
  std::unique_ptr<Port> b;
};

inline constexpr uint32_t kTestHeaderBytes = 54;

// The frame with that number: its length and every byte follow from the number.
inline uint32_t pattern_bytes(uint64_t number) {
  return kTestHeaderBytes + 10 + static_cast<uint32_t>(number * 131 % 4000);
}
inline void write_pattern(TxFrame* frame, uint64_t number) {
  frame->header_bytes = kTestHeaderBytes;
  frame->frame_bytes = pattern_bytes(number);
  unsigned char* first = frame->payload - kTestHeaderBytes;
  std::memset(first, static_cast<int>(number * 7 & 0xff), frame->frame_bytes);
  std::memcpy(first, &number, sizeof number);
}
// The number, or UINT64_MAX when any byte is wrong.
inline uint64_t read_pattern(const RxFrame& frame) {
  uint64_t number = 0;
  if (frame.length < sizeof number) return UINT64_MAX;
  std::memcpy(&number, frame.data, sizeof number);
  if (frame.length != pattern_bytes(number)) return UINT64_MAX;
  for (uint32_t i = sizeof number; i < frame.length; ++i) {
    if (frame.data[i] != static_cast<unsigned char>(number * 7 & 0xff)) return UINT64_MAX;
  }
  return number;
}

// Sends frames first, first + 1, ... as far as there is room. Gives how many.
inline unsigned send_patterns(Port& port, uint64_t first, unsigned n) {
  TxFrame frames[kBurst];
  const unsigned reserved = port.tx_reserve(frames, n);
  for (unsigned i = 0; i < reserved; ++i) write_pattern(&frames[i], first + i);
  port.tx_commit(frames, reserved);
  port.flush();
  return reserved;
}

// Plays a peer for ever: sends patterns, checks what comes and writes a byte to `report_fd` for
// every 64 good frames. Exits on a bad one. Killed by its parent.
[[noreturn]] inline void run_peer(Port& port, int report_fd) {
  uint64_t next = 0;
  uint64_t good = 0;
  Time next_service;
  for (;;) {
    const Time t = now();
    if (t >= next_service) {
      port.service(t);
      next_service = t + Duration::ms(1);
    }
    next += send_patterns(port, next, kBurst);
    RxFrame frames[kBurst];
    uint64_t cookies[kBurst];
    const unsigned taken = port.rx_burst(frames, kBurst);
    for (unsigned i = 0; i < taken; ++i) {
      if (read_pattern(frames[i]) == UINT64_MAX) _exit(3);
      cookies[i] = frames[i].cookie;
      if (++good % 64 == 0 && write(report_fd, "+", 1) < 0) _exit(4);
    }
    port.rx_release(cookies, taken);
    if (taken == 0) sched_yield();
  }
}

}  // namespace mprdma::dataplane::testing
