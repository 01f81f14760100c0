// The fuzzer's property over a fixed set of random datagrams, in every build.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/prng.hpp"
#include "tests/fuzz/decode_cm_mad.hpp"

namespace mprdma::test {
namespace {

// Makes a header that is mostly right, with random bytes behind it.
std::vector<unsigned char> seed(Prng& prng) {
  std::vector<unsigned char> bytes(wire::kMadBytes);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(prng.next_u64());
  wire::MadHeader{.management_class = wire::kCmClass,
                  .class_version = wire::kCmClassVersion,
                  .method = wire::kMadMethodSend,
                  .transaction = prng.next_u64(),
                  .attribute = static_cast<uint16_t>(prng.range(0x10, 0x19)),
                  .modifier = static_cast<uint32_t>(prng.next_u64())}
      .store(bytes.data());
  for (uint64_t k = prng.below(3); k > 0; --k) {
    bytes[prng.below(wire::MadHeader::kBytes)] = static_cast<unsigned char>(prng.below(256));
  }
  // Adds a header of rdma_cm to a datagram that may be a REQ.
  if (prng.chance(1, 2)) {
    bytes[164] = 0;
    bytes[165] = prng.chance(1, 2) ? 0x40 : 0x60;
  }
  if (prng.chance(1, 50)) bytes.resize(prng.below(300));
  return bytes;
}

TEST(DecodeCmMadFuzz, RandomDatagramsEndInAValueOrANamedDrop) {
  Prng prng(12);
  std::array<uint64_t, static_cast<size_t>(wire::MadDrop::kCount)> seen{};
  for (int i = 0; i < 50'000; ++i) seen[static_cast<size_t>(check_decode_cm_mad(seed(prng)))]++;
  for (const wire::MadDrop reason :
       {wire::MadDrop::kNone, wire::MadDrop::kBadLength, wire::MadDrop::kBadVersion,
        wire::MadDrop::kForeignClass, wire::MadDrop::kBadMethod}) {
    EXPECT_GT(seen[static_cast<size_t>(reason)], 0u) << static_cast<int>(reason);
  }
}

}  // namespace
}  // namespace mprdma::test
