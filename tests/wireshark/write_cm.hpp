// Messages of communication management, one of each kind, into the capture.
#pragma once

#include "base/prng.hpp"
#include "tests/wireshark/capture_file.hpp"

namespace mprdma {

void write_cm_mads(std::FILE* file, uint32_t& number, Prng& prng, Expected& expected);

}  // namespace mprdma
