// CRC-32 with carry-less multiplication (V. Gopal et al., Fast CRC Computation for Generic
// Polynomials Using PCLMULQDQ Instruction, Intel 2009), for icrc.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mprdma::wire {

// Fewer bytes than this are no work for icrc_fold.
inline constexpr size_t kIcrcFoldMin = 16;

// Bits of a register whose halves are multiplied at once: PCLMULQDQ and VPCLMULQDQ.
enum class IcrcFold : uint8_t { kNone, k128, k256 };

// The widest that this processor has.
IcrcFold widest_icrc_fold();

// icrc_update() of at least kIcrcFoldMin bytes, without a table: those of icrc.cpp take a third of
// a first-level cache. Requires that the processor has `width`, which is not kNone.
uint32_t icrc_fold(IcrcFold width, uint32_t crc, std::span<const unsigned char> bytes);

}  // namespace mprdma::wire
