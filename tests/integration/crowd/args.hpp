// Command line of crowd, and how it reports that a rule was broken.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mprdma::crowd {

struct Port {
  uint16_t space = 0;  // RDMA_PS_TCP or RDMA_PS_UDP
  uint16_t number = 0;
};

struct Args {
  std::string directory;        // where the processes find each other
  std::string address;          // the device's, IPv4
  uint32_t number = 0;          // of this process
  uint16_t port = 0;            // to listen on; 0: any
  std::vector<uint32_t> peers;  // it connects to these
  uint32_t incoming = 0;        // so many connect to it, before the first step is done
  std::vector<Port> claim;      // another mode: binds these, says which are taken, and ends
};

// Exits with status 2 and the usage when the command line is wrong.
Args parse_args(int argc, char** argv);

// Prints "crowd NUMBER, at TIME s: ..." and exits with status 1. TIME is that of the steady clock,
// the same in all processes: who failed first is the cause, the others lost a peer.
[[noreturn]] __attribute__((format(printf, 1, 2))) void fail(const char* format, ...);
void set_number(uint32_t number);

}  // namespace mprdma::crowd
