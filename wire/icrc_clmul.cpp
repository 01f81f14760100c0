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
// The constants of the paper.
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
// The rest of the blocks of 16 bytes, after `sum`.
MPRDMA_CLMUL size_t finish(__m128i sum, std::span<const unsigned char> bytes, size_t done,
                           IcrcRemainder* out) {
  const __m128i by = set(kBy128);
  for (; done + 16 <= bytes.size(); done += 16) sum = fold(sum, by, load(&bytes[done]));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out->bytes), sum);
  return done;
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

// Four sums side by side hide the latency of the multiplication.
__attribute__((target("pclmul,sse4.1"))) size_t fold_by_64(uint32_t crc,
                                                           std::span<const unsigned char> bytes,
                                                           IcrcRemainder* out) {
  const unsigned char* p = bytes.data();
  __m128i a = _mm_xor_si128(load(p), _mm_cvtsi32_si128(static_cast<int>(crc)));
  __m128i b = load(p + 16);
  __m128i c = load(p + 32);
  __m128i d = load(p + 48);
  size_t done = 64;
  const __m128i by = set(kBy512);
  for (; done + 64 <= bytes.size(); done += 64) {
    a = fold(a, by, load(p + done));
    b = fold(b, by, load(p + done + 16));
    c = fold(c, by, load(p + done + 32));
    d = fold(d, by, load(p + done + 48));
  }
  const __m128i step = set(kBy128);
  return finish(fold(fold(fold(a, step, b), step, c), step, d), bytes, done, out);
}

__attribute__((target("vpclmulqdq,avx2,pclmul"))) size_t fold_by_128(
    uint32_t crc, std::span<const unsigned char> bytes, IcrcRemainder* out) {
  const unsigned char* p = bytes.data();
  const __m128i first = _mm_cvtsi32_si128(static_cast<int>(crc));
  __m256i a = _mm256_xor_si256(load2(p), _mm256_zextsi128_si256(first));
  __m256i b = load2(p + 32);
  __m256i c = load2(p + 64);
  __m256i d = load2(p + 96);
  size_t done = 128;
  const __m256i by = set2(kBy1024);
  for (; done + 128 <= bytes.size(); done += 128) {
    a = fold2(a, by, load2(p + done));
    b = fold2(b, by, load2(p + done + 32));
    c = fold2(c, by, load2(p + done + 64));
    d = fold2(d, by, load2(p + done + 96));
  }
  const __m256i step = set2(kBy256);
  const __m256i sum = fold2(fold2(fold2(a, step, b), step, c), step, d);
  const __m128i low = _mm256_castsi256_si128(sum);
  return finish(fold(low, set(kBy128), _mm256_extracti128_si256(sum, 1)), bytes, done, out);
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

size_t icrc_fold(IcrcFold width, uint32_t crc, std::span<const unsigned char> bytes,
                 IcrcRemainder* out) {
  DCHECK(bytes.size() >= kIcrcFoldMin);
  return width == IcrcFold::k256 ? fold_by_128(crc, bytes, out) : fold_by_64(crc, bytes, out);
}

}  // namespace mprdma::wire

#else

namespace mprdma::wire {

IcrcFold widest_icrc_fold() {
  return IcrcFold::kNone;
}

size_t icrc_fold(IcrcFold, uint32_t, std::span<const unsigned char>, IcrcRemainder*) {
  return 0;
}

}  // namespace mprdma::wire

#endif
