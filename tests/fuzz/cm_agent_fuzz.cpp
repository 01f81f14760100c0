#include <cstddef>
#include <cstdint>

#include "tests/fuzz/cm_agent.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mprdma::test::check_cm_programme({data, size});
  return 0;
}
