// The test program is also the peer process of its own tests: run as
//   unit_dataplane_ports --peer <port specification> <descriptor for reports>
// it plays the other end of a wire until it is killed; and as
//   unit_dataplane_ports --veth
// it makes a network of its own and sends frames over it (77: it may not).
#include <gtest/gtest.h>
#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "dataplane/open_port.hpp"
#include "tests/unit/dataplane/port/port_test_support.hpp"

namespace {

namespace port_testing = mprdma::dataplane::testing;
using mprdma::dataplane::kBurst;
using mprdma::dataplane::kFrameHeadroom;
using mprdma::dataplane::kFrameTailroom;
using mprdma::dataplane::open_port;
using mprdma::dataplane::RxFrame;
using port_testing::now;

bool write_file(const char* path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  return static_cast<bool>(file.flush());
}

bool become_root_of_new_namespaces() {
  const std::string user = std::to_string(getuid());
  return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 &&
         write_file("/proc/self/uid_map", "0 " + user + " 1");
}

// A veth pair in a new network namespace, a port at each end.
int exchange_over_veth() {
  if (unshare(CLONE_NEWNET) != 0 && !become_root_of_new_namespaces()) return 77;
  if (std::system("ip link add pt0 type veth peer name pt1 2>/dev/null && "
                  "ip link set pt0 mtu 9000 up && ip link set pt1 mtu 9000 up") != 0) {
    return 77;
  }
  auto a = open_port("ethdev:net_af_packet0,iface=pt0");
  auto b = open_port("ethdev:net_af_packet1,iface=pt1");
  if (!a || !b) {
    std::fprintf(stderr, "%s%s\n", a.status.text.c_str(), b.status.text.c_str());
    return 1;
  }
  if (a.port->info().frame_bytes_max < kFrameHeadroom + 4096 + kFrameTailroom) return 2;
  uint64_t sent = 0;
  uint64_t received = 0;
  const bool all = port_testing::until([&] {
    a.port->service(now());
    b.port->service(now());
    if (sent < received + 64) sent += port_testing::send_patterns(*a.port, sent, kBurst);
    RxFrame frame{};
    while (b.port->rx_burst(&frame, 1) == 1) {
      // The kernel puts frames of its own onto the wire.
      if (port_testing::read_pattern(frame) == received) ++received;
      b.port->rx_release(&frame.cookie, 1);
    }
    return received >= 1000;
  });
  return all ? 0 : 3;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "--peer") == 0) {
    auto result = mprdma::dataplane::open_port(argv[2]);
    if (!result) {
      std::fprintf(stderr, "peer: %s\n", result.status.text.c_str());
      return 2;
    }
    mprdma::dataplane::testing::run_peer(*result.port, std::atoi(argv[3]));
  }
  if (argc == 2 && std::strcmp(argv[1], "--veth") == 0) return exchange_over_veth();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
