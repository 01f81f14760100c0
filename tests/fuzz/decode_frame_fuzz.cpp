// libFuzzer entry: any bytes as a received frame. The input is a heap block of its own, so that the
// address sanitizer sees a read beyond it.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/decode_frame.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mprdma::test::check_decode_frame({data, size});
  mprdma::test::check_frame_reader({data, size});
  return 0;
}
