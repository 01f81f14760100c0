// The fuzzer's properties over a fixed set of mutated messages and frames, in every build.
#include "tests/fuzz/daemon_input.hpp"

#include <gtest/gtest.h>

#include <array>
#include <map>

#include "base/ipv4.hpp"
#include "base/prng.hpp"
#include "wire/frame.hpp"
#include "wire/ipv4.hpp"

namespace mprdma::test {
namespace {

namespace client = dataplane::client;
namespace mprdmad = dataplane::mprdmad;

void mutate(Prng& prng, std::vector<unsigned char>* bytes) {
  for (uint64_t k = prng.below(3); k > 0; --k) {
    (*bytes)[prng.below(std::min<size_t>(bytes->size(), 40))] =
        static_cast<unsigned char>(prng.below(256));
  }
  if (prng.chance(1, 10)) bytes->resize(prng.below(bytes->size() + 20));
}

TEST(DaemonInputFuzz, MutatedMessagesEndInAValueOrANamedFault) {
  Prng prng(5);
  std::map<client::MessageFault, int> seen;
  for (int i = 0; i < 50'000; ++i) {
    client::Head head;
    head.type = static_cast<client::MessageType>(prng.below(9));
    const size_t size = std::max(client::message_bytes(head.type), sizeof head);
    head.bytes = static_cast<uint32_t>(size);
    std::vector<unsigned char> bytes(size);
    for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(prng.below(256));
    std::memcpy(bytes.data(), &head, sizeof head);
    mutate(prng, &bytes);
    ++seen[check_nic_message(bytes)];
  }
  EXPECT_EQ(seen.size(), 6u);  // every fault there is, and none
}

TEST(DaemonInputFuzz, MutatedFramesAreClassifiedWithinTheirBounds) {
  Prng prng(6);
  std::map<mprdmad::FrameKind, int> seen;
  for (int i = 0; i < 50'000; ++i) {
    std::vector<unsigned char> buffer(1024);
    unsigned char* const payload = buffer.data() + 256;
    wire::Packet packet;
    packet.payload_len = static_cast<uint32_t>(prng.below(300));
    wire::FrameAddress address;
    address.is_ipv6 = prng.chance(1, 3);
    address.src_ip = address.dst_ip = wire::map_ipv4(Ipv4(0x0a000001));
    const size_t headers = wire::encode_frame(address, packet, payload);
    const size_t length = wire::finish_frame(payload - headers, headers, packet.payload_len, false);
    std::vector<unsigned char> bytes(payload - headers, payload - headers + length);
    if (prng.chance(1, 10)) bytes[13] = 6;  // ARP
    if (!address.is_ipv6 && prng.chance(1, 10)) {
      wire::Ipv4Header ip = wire::Ipv4Header::load(bytes.data() + 14);
      ip.protocol = 1;
      ip.store(bytes.data() + 14);
      bytes[34] = 8;
    }
    if (prng.chance(1, 10)) {
      bytes.assign(wire::NeighbourMessage::kFrameBytes, 0);
      wire::encode_solicitation({2, 0, 0, 0, 0, 1}, wire::link_local_of({2, 0, 0, 0, 0, 2}),
                                bytes.data());
    }
    mutate(prng, &bytes);
    ++seen[check_frame_class(bytes)];
  }
  EXPECT_EQ(seen.size(), 6u);
}

}  // namespace
}  // namespace mprdma::test
