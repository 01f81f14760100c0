// Big-endian (network order) loads and stores at any address. The caller owns the bounds. Written
// as shifts, so that they work in constant expressions; compilers turn them into one instruction.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace mprdma {

namespace internal {

// One load or store and one swap: compilers do not always find that in single bytes.
template <class T>
constexpr T swap_bytes(T value) {
  if constexpr (std::endian::native == std::endian::big) return value;
  if constexpr (sizeof(T) == 2) return __builtin_bswap16(value);
  if constexpr (sizeof(T) == 4) return __builtin_bswap32(value);
  if constexpr (sizeof(T) == 8) return __builtin_bswap64(value);
}

template <class T>
constexpr T load_be(const unsigned char* p) {
  if (std::is_constant_evaluated()) {
    T value = 0;
    for (unsigned i = 0; i < sizeof(T); ++i) value = static_cast<T>(value << 8 | p[i]);
    return value;
  }
  T value;
  std::memcpy(&value, p, sizeof(T));
  return swap_bytes(value);
}

template <class T>
constexpr void store_be(unsigned char* p, T value) {
  if (std::is_constant_evaluated()) {
    for (unsigned i = 0; i < sizeof(T); ++i) {
      p[i] = static_cast<unsigned char>(value >> (8 * (sizeof(T) - 1 - i)));
    }
    return;
  }
  value = swap_bytes(value);
  std::memcpy(p, &value, sizeof(T));
}

}  // namespace internal

constexpr uint16_t load_be16(const unsigned char* p) {
  return internal::load_be<uint16_t>(p);
}

constexpr uint32_t load_be24(const unsigned char* p) {
  return uint32_t{load_be16(p)} << 8 | p[2];
}

constexpr uint32_t load_be32(const unsigned char* p) {
  return internal::load_be<uint32_t>(p);
}

constexpr uint64_t load_be64(const unsigned char* p) {
  return internal::load_be<uint64_t>(p);
}

constexpr void store_be16(unsigned char* p, uint16_t value) {
  internal::store_be(p, value);
}

constexpr void store_be24(unsigned char* p, uint32_t value) {
  store_be16(p, static_cast<uint16_t>(value >> 8));
  p[2] = static_cast<unsigned char>(value);
}

constexpr void store_be32(unsigned char* p, uint32_t value) {
  internal::store_be(p, value);
}

constexpr void store_be64(unsigned char* p, uint64_t value) {
  internal::store_be(p, value);
}

}  // namespace mprdma
