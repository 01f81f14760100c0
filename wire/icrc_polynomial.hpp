// The polynomial of the ICRC: CRC-32 of IEEE 802.3, reflected.
#pragma once

#include <cstdint>

namespace mprdma::wire {

inline constexpr uint32_t kIcrcPolynomial = 0xedb88320;

}  // namespace mprdma::wire
