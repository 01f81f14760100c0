#include "wire/icrc.hpp"

#include <gtest/gtest.h>

#include <string_view>

#include "tests/support/wire.hpp"
#include "wire/icrc_clmul.hpp"

namespace mprdma::wire {
namespace {

using Bytes = std::vector<unsigned char>;

// Computes the CRC bit by bit; it shares only the polynomial with the implementation.
uint32_t crc32_bitwise(uint32_t crc, std::span<const unsigned char> bytes) {
  for (const unsigned char byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const bool feedback = ((crc ^ static_cast<uint32_t>(byte >> bit)) & 1) != 0;
      crc >>= 1;
      if (feedback) crc ^= 0xedb88320;
    }
  }
  return crc;
}

TEST(Icrc, CheckValueOfCrc32) {
  constexpr std::string_view kDigits = "123456789";
  const Bytes bytes(kDigits.begin(), kDigits.end());
  EXPECT_EQ(~icrc_update(0xffffffff, bytes), 0xcbf43926U);
}

TEST(Icrc, AgreesWithTheBitwiseCrcAtEveryLengthAndAlignment) {
  Prng prng(3);
  Bytes bytes(700);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(prng.next_u64());
  for (size_t start = 0; start < 17; ++start) {
    for (size_t length = 0; start + length <= bytes.size(); ++length) {
      const auto part = std::span<const unsigned char>(bytes).subspan(start, length);
      ASSERT_EQ(icrc_update(icrc_init(), part), crc32_bitwise(icrc_init(), part))
          << start << " " << length;
    }
  }
}

// The widths that this processor has: a wide one hides the narrow one from icrc_update().
TEST(Icrc, EachFoldAgreesWithTheBitwiseCrc) {
  if (widest_icrc_fold() == IcrcFold::kNone) GTEST_SKIP() << "no carry-less multiplication here";
  Prng prng(4);
  Bytes bytes(600);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(prng.next_u64());
  for (const IcrcFold width : {IcrcFold::k128, IcrcFold::k256}) {
    if (width > widest_icrc_fold()) continue;
    for (size_t length = kIcrcFoldMin; length <= bytes.size(); ++length) {
      const auto part = std::span<const unsigned char>(bytes).first(length);
      ASSERT_EQ(icrc_fold(width, icrc_init(), part), crc32_bitwise(icrc_init(), part)) << length;
    }
  }
}

TEST(Icrc, PiecesAddUp) {
  Bytes bytes(300, 0x5a);
  const std::span<const unsigned char> all(bytes);
  const uint32_t whole = icrc_update(icrc_init(), all);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    EXPECT_EQ(icrc_update(icrc_update(icrc_init(), all.first(cut)), all.subspan(cut)), whole);
  }
}

TEST(Icrc, StoredLittleEndian) {
  Bytes bytes(4);
  store_icrc(bytes.data(), 0x11223344);
  EXPECT_EQ(bytes, (Bytes{0x44, 0x33, 0x22, 0x11}));
  EXPECT_EQ(load_icrc(bytes.data()), 0x11223344U);
}

// Bits of the frame, after the Ethernet header, whose change must not change the ICRC.
void expect_masked_bytes(const FrameAddress& address, const std::vector<size_t>& variant_bytes,
                         size_t half_byte) {
  Packet packet;
  packet.payload_len = 5;
  const Bytes frame = test::make_frame(address, packet);
  const auto icrc_of = [&](Bytes bytes) {
    icrc_mask(bytes.data() + Ethernet::kBytes, address.is_ipv6);
    const auto covered = std::span<const unsigned char>(bytes).subspan(
        Ethernet::kBytes, bytes.size() - Ethernet::kBytes - kIcrcBytes);
    return icrc_final(icrc_update(icrc_init(), covered));
  };
  const uint32_t right = load_icrc(frame.data() + frame.size() - kIcrcBytes);
  ASSERT_EQ(icrc_of(frame), right);
  for (size_t at = Ethernet::kBytes; at < frame.size() - kIcrcBytes; ++at) {
    Bytes spoilt = frame;
    spoilt[at] ^= 0x01;
    const size_t byte = at - Ethernet::kBytes;
    const bool variant =
        std::find(variant_bytes.begin(), variant_bytes.end(), byte) != variant_bytes.end();
    EXPECT_EQ(icrc_of(spoilt) == right, variant) << "byte " << byte << " after Ethernet";
    if (byte == half_byte) {
      spoilt = frame;
      spoilt[at] ^= 0x10;
      EXPECT_NE(icrc_of(spoilt), right) << "the IP version is covered";
    }
  }
}

TEST(Icrc, LeavesOutWhatChangesOnTheWayOverIpv4) {
  // TOS, TTL, header checksum; UDP checksum; BTH byte 4.
  expect_masked_bytes(test::ipv4_address(), {1, 8, 10, 11, 26, 27, 32}, 0);
}

TEST(Icrc, LeavesOutWhatChangesOnTheWayOverIpv6) {
  // Traffic class and flow label, hop limit; UDP checksum; BTH byte 4.
  expect_masked_bytes(test::ipv6_address(), {0, 1, 2, 3, 7, 46, 47, 52}, 0);
}

}  // namespace
}  // namespace mprdma::wire
