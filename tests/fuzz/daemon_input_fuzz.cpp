#include <cstddef>
#include <cstdint>

#include "tests/fuzz/daemon_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mprdma::test::check_nic_message({data, size});
  mprdma::test::check_frame_class({data, size});
  return 0;
}
