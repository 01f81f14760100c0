#include <cstddef>
#include <cstdint>

#include "tests/fuzz/decode_probe_mad.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mprdma::test::check_decode_probe_mad({data, size});
  return 0;
}
