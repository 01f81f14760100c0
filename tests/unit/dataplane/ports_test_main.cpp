// The test program is also the peer process of its own tests: run as
//   unit_dataplane_ports --peer <port specification> <descriptor for reports>
// it plays the other end of a wire until it is killed.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "dataplane/port_factory.hpp"
#include "tests/unit/dataplane/port_test_support.hpp"

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "--peer") == 0) {
    auto result = mprdma::dataplane::open_port(argv[2]);
    if (!result) {
      std::fprintf(stderr, "peer: %s\n", result.message.c_str());
      return 2;
    }
    mprdma::dataplane::testing::run_peer(*result.port, std::atoi(argv[3]));
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
