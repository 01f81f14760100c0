// Big-endian (network order) loads and stores at any address. The caller owns the bounds. Written
// as shifts, so that they work in constant expressions; compilers turn them into one instruction.
#pragma once

#include <cstdint>

namespace mprdma {

constexpr uint16_t load_be16(const unsigned char* p) {
  return static_cast<uint16_t>(p[0] << 8 | p[1]);
}

constexpr uint32_t load_be24(const unsigned char* p) {
  return uint32_t{p[0]} << 16 | uint32_t{p[1]} << 8 | p[2];
}

constexpr uint32_t load_be32(const unsigned char* p) {
  return uint32_t{load_be16(p)} << 16 | load_be16(p + 2);
}

constexpr uint64_t load_be64(const unsigned char* p) {
  return uint64_t{load_be32(p)} << 32 | load_be32(p + 4);
}

constexpr void store_be16(unsigned char* p, uint16_t value) {
  p[0] = static_cast<unsigned char>(value >> 8);
  p[1] = static_cast<unsigned char>(value);
}

// Stores the low 24 bits.
constexpr void store_be24(unsigned char* p, uint32_t value) {
  p[0] = static_cast<unsigned char>(value >> 16);
  p[1] = static_cast<unsigned char>(value >> 8);
  p[2] = static_cast<unsigned char>(value);
}

constexpr void store_be32(unsigned char* p, uint32_t value) {
  store_be16(p, static_cast<uint16_t>(value >> 16));
  store_be16(p + 2, static_cast<uint16_t>(value));
}

constexpr void store_be64(unsigned char* p, uint64_t value) {
  store_be32(p, static_cast<uint32_t>(value >> 32));
  store_be32(p + 4, static_cast<uint32_t>(value));
}

}  // namespace mprdma
