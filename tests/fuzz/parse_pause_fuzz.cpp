#include <cstddef>
#include <cstdint>

#include "tests/fuzz/parse_pause.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mprdma::test::check_parse_pause({data, size});
  return 0;
}
