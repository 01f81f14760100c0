#include "base/byte_order.hpp"

#include <gtest/gtest.h>

#include <array>

namespace mprdma {
namespace {

constexpr std::array<unsigned char, 9> kBytes = {0x80, 0x01, 0xfe, 0xdc, 0xba, 0x98, 0x76, 0xff, 1};

TEST(ByteOrder, LoadsAreBigEndianAndUnsignedAtAnyAddress) {
  static_assert(load_be16(kBytes.data()) == 0x8001);
  static_assert(load_be24(kBytes.data()) == 0x8001fe);
  static_assert(load_be32(kBytes.data()) == 0x8001fedc);
  static_assert(load_be64(kBytes.data()) == 0x8001fedcba9876ff);
  EXPECT_EQ(load_be64(kBytes.data() + 1), 0x01fedcba9876ff01U);
}

TEST(ByteOrder, StoreTouchesExactlyItsBytes) {
  std::array<unsigned char, 10> buffer{};
  const auto stored = [&](auto store, unsigned length, uint64_t expected) {
    buffer.fill(0xaa);
    store(buffer.data() + 1);
    uint64_t value = 0;
    for (unsigned i = 0; i < length; ++i) value = value << 8 | buffer[1 + i];
    EXPECT_EQ(value, expected);
    EXPECT_EQ(buffer[0], 0xaa);
    EXPECT_EQ(buffer[1 + length], 0xaa);
  };
  stored([](unsigned char* p) { store_be16(p, 0xfe01); }, 2, 0xfe01);
  stored([](unsigned char* p) { store_be24(p, 0x99fe0102); }, 3, 0xfe0102);
  stored([](unsigned char* p) { store_be32(p, 0xfe010203); }, 4, 0xfe010203);
  stored([](unsigned char* p) { store_be64(p, 0xfe01020304050607); }, 8, 0xfe01020304050607);
}

}  // namespace
}  // namespace mprdma
