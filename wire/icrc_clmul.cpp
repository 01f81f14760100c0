#include "wire/icrc_clmul.hpp"

#ifdef __x86_64__

#include <immintrin.h>

#include "base/check.hpp"
#include "wire/icrc_polynomial.hpp"

namespace mprdma::wire {

namespace {

// x^n modulo the polynomial, reflected and one bit to the left, as the product of two reflected
// numbers has it.
constexpr int64_t power(uint32_t n) {
  uint32_t value = 0x80000000;  // x^0, reflected
  for (uint32_t i = 0; i < n; ++i) {
    value = value >> 1 ^ ((value & 1) != 0 ? kIcrcPolynomial : 0);
  }
  return int64_t{value} << 1;
}

// What moves 128 bits of the message by `bits`: the low half is 64 bits further from the end.
struct Move {
  int64_t low;
  int64_t high;
};
constexpr Move move_by(uint32_t bits) {
  return {power(bits + 32), power(bits - 32)};
}
constexpr Move kBy128 = move_by(128);
constexpr Move kBy256 = move_by(256);
constexpr Move kBy512 = move_by(512);
constexpr Move kBy1024 = move_by(1024);
// x^64 divided by the polynomial, reflected: what Barrett's reduction multiplies by.
constexpr int64_t quotient_of_x64() {
  uint64_t rest = 0;                        // of the division so far, plain: bit n is x^n
  uint64_t quotient = 0;                    // reflected in 33 bits
  constexpr uint64_t kPlain = 0x104c11db7;  // kIcrcPolynomial, plain, with x^32
  for (int bit = 64; bit >= 0; --bit) {
    rest = rest << 1 | (bit == 64 ? 1 : 0);
    if ((rest >> 32 & 1) == 0) continue;
    rest ^= kPlain;
    quotient |= uint64_t{1} << (32 - bit);
  }
  return static_cast<int64_t>(quotient);
}
constexpr int64_t kQuotient = quotient_of_x64();
// The constants of the paper.
static_assert(kQuotient == 0x1f7011641 && power(64) == 0x163cd6124);
static_assert(kBy512.low == 0x154442bd4 && kBy512.high == 0x1c6e41596);
static_assert(kBy128.low == 0x1751997d0 && kBy128.high == 0x0ccaa009e);

#define MPRDMA_CLMUL __attribute__((target("pclmul,sse4.1"), always_inline)) inline
#define MPRDMA_VCLMUL __attribute__((target("vpclmulqdq,avx2,pclmul"), always_inline)) inline

MPRDMA_CLMUL __m128i load(const unsigned char* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
MPRDMA_CLMUL __m128i set(Move move) {
  return _mm_set_epi64x(move.high, move.low);
}
// Moves `sum`, and adds what stands there.
MPRDMA_CLMUL __m128i fold(__m128i sum, __m128i by, __m128i next) {
  return _mm_xor_si128(
      _mm_xor_si128(_mm_clmulepi64_si128(sum, by, 0x00), _mm_clmulepi64_si128(sum, by, 0x11)),
      next);
}
// Where the blocks of 16 bytes begin, and what is added to the first of them: the register, and the
// bytes before, which are moved as if zeros stood in front of them.
struct Start {
  __m128i add;
  size_t at;
};
MPRDMA_CLMUL Start begin(uint32_t crc, std::span<const unsigned char> bytes) {
  const size_t odd = bytes.size() % 16;
  const __m128i reg = _mm_cvtsi32_si128(static_cast<int>(crc));
  if (odd == 0) return {reg, 0};
  // The first `odd` bytes move to the end, behind zeros; 0x80 stands for one.
  alignas(16) static constexpr unsigned char kMoves[32] = {
      0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
      0x80, 0x80, 0x80, 0x80, 0x80, 0,    1,    2,    3,    4,    5,
      6,    7,    8,    9,    10,   11,   12,   13,   14,   15};
  const __m128i block = _mm_xor_si128(load(bytes.data()), reg);
  const __m128i moved = _mm_shuffle_epi8(block, load(kMoves + odd));
  // The register has four bytes, of which some may belong to the block behind.
  const uint32_t behind = odd < 4 ? crc >> 8 * odd : 0;
  return {fold(moved, set(kBy128), _mm_cvtsi32_si128(static_cast<int>(behind))), odd};
}

// The register after 16 bytes, from 0 (the paper's reduction to 64 bits, then Barrett's to 32).
MPRDMA_CLMUL uint32_t reduce(__m128i sum) {
  const __m128i low32 = _mm_set_epi32(0, 0, 0, -1);
  const __m128i by64 = set(kBy128);
  const __m128i by32 = _mm_set_epi64x(0, power(64));
  const __m128i barrett = _mm_set_epi64x(kQuotient, int64_t{kIcrcPolynomial} << 1 | 1);
  __m128i x = _mm_xor_si128(_mm_srli_si128(sum, 8), _mm_clmulepi64_si128(sum, by64, 0x10));
  x = _mm_xor_si128(_mm_srli_si128(x, 4),
                    _mm_clmulepi64_si128(_mm_and_si128(x, low32), by32, 0x00));
  __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(x, low32), barrett, 0x10);
  quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low32), barrett, 0x00);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(x, quotient), 1));
}

// The rest of the blocks, after `sum`.
MPRDMA_CLMUL uint32_t finish(__m128i sum, std::span<const unsigned char> bytes, size_t done) {
  const __m128i by = set(kBy128);
  for (; done < bytes.size(); done += 16) sum = fold(sum, by, load(&bytes[done]));
  return reduce(sum);
}

MPRDMA_VCLMUL __m256i load2(const unsigned char* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
MPRDMA_VCLMUL __m256i set2(Move move) {
  return _mm256_set_epi64x(move.high, move.low, move.high, move.low);
}
MPRDMA_VCLMUL __m256i fold2(__m256i sum, __m256i by, __m256i next) {
  return _mm256_xor_si256(_mm256_xor_si256(_mm256_clmulepi64_epi128(sum, by, 0x00),
                                           _mm256_clmulepi64_epi128(sum, by, 0x11)),
                          next);
}

MPRDMA_CLMUL uint32_t fold_short(Start start, std::span<const unsigned char> bytes) {
  const __m128i first = _mm_xor_si128(load(&bytes[start.at]), start.add);
  return finish(first, bytes, start.at + 16);
}

// Four sums side by side hide the latency of the multiplication.
__attribute__((target("pclmul,sse4.1"))) uint32_t fold_by_64(uint32_t crc,
                                                             std::span<const unsigned char> bytes) {
  const Start start = begin(crc, bytes);
  if (bytes.size() - start.at < 64) return fold_short(start, bytes);
  const unsigned char* p = bytes.data();
  size_t done = start.at;
  __m128i a = _mm_xor_si128(load(p + done), start.add);
  __m128i b = load(p + done + 16);
  __m128i c = load(p + done + 32);
  __m128i d = load(p + done + 48);
  const __m128i by = set(kBy512);
  for (done += 64; done + 64 <= bytes.size(); done += 64) {
    a = fold(a, by, load(p + done));
    b = fold(b, by, load(p + done + 16));
    c = fold(c, by, load(p + done + 32));
    d = fold(d, by, load(p + done + 48));
  }
  const __m128i step = set(kBy128);
  return finish(fold(fold(fold(a, step, b), step, c), step, d), bytes, done);
}

__attribute__((target("vpclmulqdq,avx2,pclmul"))) uint32_t fold_by_128(
    uint32_t crc, std::span<const unsigned char> bytes) {
  const Start start = begin(crc, bytes);
  if (bytes.size() - start.at < 128) return fold_short(start, bytes);
  const unsigned char* p = bytes.data();
  size_t done = start.at;
  __m256i a = _mm256_xor_si256(load2(p + done), _mm256_zextsi128_si256(start.add));
  __m256i b = load2(p + done + 32);
  __m256i c = load2(p + done + 64);
  __m256i d = load2(p + done + 96);
  const __m256i by = set2(kBy1024);
  for (done += 128; done + 128 <= bytes.size(); done += 128) {
    a = fold2(a, by, load2(p + done));
    b = fold2(b, by, load2(p + done + 32));
    c = fold2(c, by, load2(p + done + 64));
    d = fold2(d, by, load2(p + done + 96));
  }
  const __m256i step = set2(kBy256);
  const __m256i sum = fold2(fold2(fold2(a, step, b), step, c), step, d);
  const __m128i low = _mm256_castsi256_si128(sum);
  return finish(fold(low, set(kBy128), _mm256_extracti128_si256(sum, 1)), bytes, done);
}

}  // namespace

IcrcFold widest_icrc_fold() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("pclmul") || !__builtin_cpu_supports("sse4.1")) {
    return IcrcFold::kNone;
  }
  const bool wide = __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx2");
  return wide ? IcrcFold::k256 : IcrcFold::k128;
}

uint32_t icrc_fold(IcrcFold width, uint32_t crc, std::span<const unsigned char> bytes) {
  DCHECK(bytes.size() >= kIcrcFoldMin);
  return width == IcrcFold::k256 ? fold_by_128(crc, bytes) : fold_by_64(crc, bytes);
}

}  // namespace mprdma::wire

#else

namespace mprdma::wire {

IcrcFold widest_icrc_fold() {
  return IcrcFold::kNone;
}

uint32_t icrc_fold(IcrcFold, uint32_t crc, std::span<const unsigned char>) {
  return crc;
}

}  // namespace mprdma::wire

#endif
