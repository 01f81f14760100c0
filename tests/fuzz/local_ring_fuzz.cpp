#include <cstddef>
#include <cstdint>

#include "tests/fuzz/local_ring.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mprdma::test::check_ring_programme({data, size});
  return 0;
}
