// The fuzzer's property over a fixed set of mutated frames, in every build. Inputs end at an
// inaccessible page, so that a read beyond them crashes with or without a sanitizer.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "tests/fuzz/decode_frame.hpp"
#include "tests/support/pcap.hpp"
#include "wire/icrc.hpp"
#include "wire/ipv4.hpp"

namespace mprdma::test {
namespace {

class GuardedBuffer {
 public:
  static constexpr size_t kBytesMax = 8192;

  GuardedBuffer() : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    CHECK(kBytesMax % page_ == 0);
    void* memory = mmap(nullptr, kBytesMax + page_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    memory_ = static_cast<unsigned char*>(memory);
    CHECK(mprotect(memory_ + kBytesMax, page_, PROT_NONE) == 0);
  }
  ~GuardedBuffer() { munmap(memory_, kBytesMax + page_); }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  // A copy that ends at the last readable byte.
  std::span<const unsigned char> place(std::span<const unsigned char> bytes) {
    CHECK(bytes.size() <= kBytesMax);
    unsigned char* start = memory_ + kBytesMax - bytes.size();
    if (!bytes.empty()) std::memcpy(start, bytes.data(), bytes.size());
    return {start, bytes.size()};
  }

 private:
  size_t page_;
  unsigned char* memory_ = nullptr;
};

std::vector<Bytes> seeds() {
  std::vector<Bytes> frames = read_pcap(MPRDMA_TEST_DATA "/rxe-reference.pcap");
  CHECK(!frames.empty());
  Prng prng(6);
  for (const wire::FrameAddress& address : {ipv4_address(), ipv6_address()}) {
    for (const wire::Opcode opcode : valid_opcodes()) {
      for (int i = 0; i < 3; ++i) {
        frames.push_back(make_frame(address, random_packet(opcode, prng, i == 0 ? 0 : 200)));
      }
    }
  }
  return frames;
}

void mutate(Bytes& frame, Prng& prng) {
  const uint64_t count = prng.range(1, 3);
  for (uint64_t i = 0; i < count && !frame.empty(); ++i) {
    // Mutations prefer headers, because the decisions are there.
    const size_t at =
        prng.below(prng.chance(3, 4) ? std::min<size_t>(frame.size(), 80) : frame.size());
    switch (prng.below(6)) {
      case 0:
        frame[at] ^= static_cast<unsigned char>(1U << prng.below(8));
        break;
      case 1:
        frame[at] = static_cast<unsigned char>(prng.next_u64());
        break;
      case 2: {
        constexpr std::array<unsigned char, 6> kEdges = {0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff};
        frame[at] = kEdges[prng.below(kEdges.size())];
        break;
      }
      case 3:
        frame[at] = static_cast<unsigned char>(frame[at] + (prng.chance(1, 2) ? 1 : -1));
        break;
      case 4:
        frame.resize(at);
        break;
      default:
        frame.resize(frame.size() + prng.below(64), 0x33);
    }
  }
}

// Makes the lengths agree with the frame, so that inner layers are reached after a cut.
void fix_lengths(Bytes& frame) {
  const bool is_ipv6 = wire::Ethernet::load(frame.data()).ether_type == wire::kEtherTypeIpv6;
  const size_t udp =
      wire::Ethernet::kBytes + (is_ipv6 ? wire::Ipv6::kBytes : wire::Ipv4Header::kBytes);
  if (frame.size() < udp + wire::Udp::kBytes) return;
  const auto udp_bytes = static_cast<uint16_t>(frame.size() - udp);
  store_be16(&frame[udp + 4], udp_bytes);
  if (is_ipv6) {
    store_be16(&frame[18], udp_bytes);
  } else {
    store_be16(&frame[16], static_cast<uint16_t>(udp_bytes + wire::Ipv4Header::kBytes));
  }
}

void fix_checksums(Bytes& frame) {
  const bool is_ipv4 = wire::Ethernet::load(frame.data()).ether_type == wire::kEtherTypeIpv4;
  if (is_ipv4 && frame.size() >= wire::Ethernet::kBytes + wire::Ipv4Header::kBytes) {
    store_be16(&frame[24], 0);
    store_be16(&frame[24], wire::Ipv4Header::checksum(&frame[14]));
  }
  wire::DecodedFrame decoded;
  if (wire::decode_frame(frame, decoded, false) != wire::DropReason::kNone) return;
  Bytes masked = frame;
  wire::icrc_mask(&masked[14], decoded.address.is_ipv6);
  const uint32_t len = decoded.packet.payload_len;
  const size_t end = decoded.payload_offset + len + wire::pad_bytes(len);
  const auto covered = std::span<const unsigned char>(masked).subspan(14, end - 14);
  wire::store_icrc(&frame[end], wire::icrc_final(wire::icrc_update(wire::icrc_init(), covered)));
}

TEST(DecodeFrameFuzz, MutatedFramesEndInAPacketOrANamedDrop) {
  constexpr int kInputs = 200'000;
  const std::vector<Bytes> corpus = seeds();
  GuardedBuffer buffer;
  FrameSequence sequence;
  Prng prng(7);
  std::array<uint64_t, static_cast<size_t>(wire::DropReason::kCount)> seen{};
  for (int i = 0; i < kInputs; ++i) {
    Bytes frame = corpus[prng.below(corpus.size())];
    mutate(frame, prng);
    if (frame.size() >= wire::Ethernet::kBytes) {
      if (prng.chance(1, 2)) fix_lengths(frame);
      if (prng.chance(3, 4)) fix_checksums(frame);
    }
    const std::span<const unsigned char> placed = buffer.place(frame);
    seen[static_cast<size_t>(check_decode_frame(placed))]++;
    check_frame_reader(placed);
    sequence.next(placed);
  }
  // The inputs must reach every decision of the decoder.
  for (size_t i = 0; i < seen.size(); ++i) {
    const auto reason = static_cast<wire::DropReason>(i);
    const bool about_arp =
        reason == wire::DropReason::kTruncatedArp || reason == wire::DropReason::kBadArp;
    EXPECT_EQ(seen[i] == 0, about_arp) << wire::drop_reason_name(reason);
  }
}

TEST(DecodeFrameFuzz, EverySeedIsAPacket) {
  GuardedBuffer buffer;
  for (const Bytes& frame : seeds()) {
    EXPECT_EQ(check_decode_frame(buffer.place(frame)), wire::DropReason::kNone);
  }
}

TEST(DecodeFrameFuzz, RandomBytesAreDropped) {
  GuardedBuffer buffer;
  Prng prng(8);
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes(prng.below(200));
    for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(prng.next_u64());
    EXPECT_NE(check_decode_frame(buffer.place(bytes)), wire::DropReason::kNone);
  }
}

TEST(DecodeFrameFuzz, RandomPacketsSurvive) {
  Prng prng(9);
  const std::vector<wire::Opcode> opcodes = valid_opcodes();
  for (int i = 0; i < 50'000; ++i) {
    wire::Packet packet = random_packet(opcodes[prng.below(opcodes.size())], prng, 100);
    packet.ipv4 = i % 2 == 0;
    const Bytes frame = make_frame(packet.ipv4 ? ipv4_address() : ipv6_address(), packet);
    wire::DecodedFrame decoded;
    ASSERT_EQ(wire::decode_frame(frame, decoded, true), wire::DropReason::kNone);
    ASSERT_EQ(decoded.packet, packet);
  }
}

}  // namespace
}  // namespace mprdma::test
