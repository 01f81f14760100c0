// Command line of verbs_check, and how it reports that a rule was broken.
#pragma once

#include <cstdint>
#include <string>

namespace mprdma::verbs_check {

enum class Mode : uint8_t { kTraffic, kLastByte, kKillPeer, kBad, kIdle, kOrdering };

// The two processes must be given the same values, except for the role.
struct Args {
  bool server = false;      // listens on the socket, the other dials
  std::string socket_path;  // Unix socket over which the two agree, outside the wire under test
  Mode mode = Mode::kTraffic;
  uint64_t seed = 1;
  uint32_t ops = 1000;        // for each QP and direction; rounds in kKillPeer
  uint32_t size_max = 65536;  // bytes of one message
  uint32_t qps = 1;
  uint32_t mtu = 0;             // path MTU in bytes; 0: the port's active one
  bool relaxed = false;         // memory is registered with IBV_ACCESS_RELAXED_ORDERING
  bool synchronise = false;     // kOrdering: the flag is written with the synchronise flag
  bool expect_stale = false;    // kOrdering: no stale byte is a failure
  bool active = false;          // kTraffic: a port without a link is a failure
  bool events = false;          // sleep in completion channels instead of polling
  uint32_t timeout = 14;        // of the QP: 4.096 us * 2^timeout
  uint32_t retry_cnt = 7;       // of the QP
  uint32_t stall_s = 20;        // without any progress for so long: failure
  uint32_t idle_ms = 2000;      // kIdle
  double cpu_percent_max = 10;  // kIdle: asleep is 1 to 5 on a busy machine, a spinning thread 100
  std::string device;           // empty: the first one named mprdma*
};

// Exits with status 2 and the usage when the command line is wrong.
Args parse_args(int argc, char** argv);

// Prints "verbs_check ROLE: FAIL: ..." and exits with status 1.
[[noreturn]] __attribute__((format(printf, 1, 2))) void fail(const char* format, ...);
// Prints one line, preceded by the role.
__attribute__((format(printf, 1, 2))) void say(const char* format, ...);

void set_role(const char* role);

}  // namespace mprdma::verbs_check
