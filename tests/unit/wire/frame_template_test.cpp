// Outer headers encoded once: the frames must be those of encode_frame(), byte for byte.
#include "wire/frame_template.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tests/support/wire.hpp"

namespace mprdma::wire {
namespace {

using Bytes = std::vector<unsigned char>;

constexpr unsigned char kJunk = 0xa5;
// Longer than any run of headers, so that a byte written before them shows.
constexpr size_t kPayloadAt = kMaxFrameHeaderBytes + 16;

template <size_t kSize>
std::array<uint8_t, kSize> random_bytes(Prng& prng) {
  std::array<uint8_t, kSize> bytes;
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(prng.next_u64());
  return bytes;
}

Ecn random_ecn(Prng& prng) {
  return static_cast<Ecn>(prng.below(4));
}

FrameAddress random_address(Prng& prng) {
  FrameAddress address;
  address.dst_mac = random_bytes<6>(prng);
  address.src_mac = random_bytes<6>(prng);
  address.is_ipv6 = prng.chance(1, 3);
  address.dscp = static_cast<uint8_t>(prng.below(64));
  address.ecn = random_ecn(prng);
  address.ttl = static_cast<uint8_t>(prng.next_u64());
  if (address.is_ipv6) {
    address.src_ip = random_bytes<16>(prng);
    address.dst_ip = random_bytes<16>(prng);
  } else {
    address.src_ip = map_ipv4(Ipv4(static_cast<uint32_t>(prng.next_u64())));
    address.dst_ip = map_ipv4(Ipv4(static_cast<uint32_t>(prng.next_u64())));
    address.ip_identification = static_cast<uint16_t>(prng.next_u64());
  }
  return address;
}

// The frame with everything around it. `encode` writes the headers and returns their length.
template <typename Encode>
Bytes frame_and_surroundings(const Packet& packet, const Encode& encode) {
  Bytes buffer(kPayloadAt + packet.payload_len + kMaxFrameTrailerBytes + 16, kJunk);
  unsigned char* payload = buffer.data() + kPayloadAt;
  const size_t header_bytes = encode(payload);
  EXPECT_EQ(buffer[kPayloadAt], kJunk) << "the payload's place is not the encoder's";
  finish_frame(payload - header_bytes, header_bytes, packet.payload_len, true);
  return buffer;
}

void expect_same_frame(const FrameTemplate& outer, const FrameAddress& address,
                       const Packet& packet) {
  ASSERT_EQ(outer.address(), address);
  size_t header_bytes = 0;
  const Bytes expected = frame_and_surroundings(packet, [&](unsigned char* payload) {
    return header_bytes = encode_frame(address, packet, payload);
  });
  const Bytes seen = frame_and_surroundings(packet, [&](unsigned char* payload) {
    const size_t bytes = outer.encode(packet, payload);
    EXPECT_EQ(bytes, header_bytes);
    return bytes;
  });
  ASSERT_EQ(seen, expected) << opcode_name(packet.opcode);
}

// One template for all, so that nothing of an address may remain when the next one is set.
TEST(FrameTemplate, WritesWhatEncodeFrameWrites) {
  Prng prng(30);
  FrameTemplate outer;
  for (const Opcode opcode : test::valid_opcodes()) {
    for (int round = 0; round < 30; ++round) {
      FrameAddress address = random_address(prng);
      outer.set(address);
      expect_same_frame(outer, address, test::random_packet(opcode, prng, 300));
      address.ecn = random_ecn(prng);
      outer.set_ecn(address.ecn);
      expect_same_frame(outer, address, test::random_packet(opcode, prng, 300));
      address.dst_mac = random_bytes<6>(prng);
      outer.set_dst_mac(address.dst_mac);
      expect_same_frame(outer, address, test::random_packet(opcode, prng, 300));
    }
  }
}

// A frame leaves no trace in the template: a mark or a length must not show in the next frame.
TEST(FrameTemplate, EveryPacketIsTheFirst) {
  Prng prng(31);
  for (const FrameAddress& address : {test::ipv4_address(), test::ipv6_address()}) {
    FrameTemplate outer;
    outer.set(address);
    for (int i = 0; i < 2000; ++i) {
      const auto longest = static_cast<uint32_t>(prng.chance(1, 100) ? 65'000 : 100);
      expect_same_frame(outer, address, test::random_packet(Opcode::kMpWriteOnly, prng, longest));
    }
  }
}

TEST(FrameTemplate, WithoutAnAddressItWritesThoseOfABlankOne) {
  expect_same_frame(FrameTemplate(), FrameAddress(), Packet());
}

}  // namespace
}  // namespace mprdma::wire
