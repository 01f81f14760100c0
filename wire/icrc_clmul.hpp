// CRC-32 with carry-less multiplication (V. Gopal et al., Fast CRC Computation for Generic
// Polynomials Using PCLMULQDQ Instruction, Intel 2009), for icrc.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mprdma::wire {

// Fewer bytes than this are no work for icrc_fold: a table is as fast.
inline constexpr size_t kIcrcFoldMin = 128;

// A remainder of 16 bytes: the register after all bytes equals the register after these, from 0.
struct IcrcRemainder {
  unsigned char bytes[16];
};

// Bits of a register whose halves are multiplied at once: PCLMULQDQ and VPCLMULQDQ.
enum class IcrcFold : uint8_t { kNone, k128, k256 };

// The widest that this processor has.
IcrcFold widest_icrc_fold();

// Folds the leading bytes, a multiple of 16, of at least kIcrcFoldMin into a remainder, and returns
// their number. Requires that the processor has `width`, which is not kNone.
size_t icrc_fold(IcrcFold width, uint32_t crc, std::span<const unsigned char> bytes,
                 IcrcRemainder* out);

}  // namespace mprdma::wire
