// Any bytes may arrive: each frame ends in an action, the standard's NAK, or a drop that is counted
// under its own name.
#include <algorithm>

#include "dataplane/engine/all_counters.hpp"
#include "tests/unit/dataplane/engine/engine_host.hpp"
#include "wire/frame.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Bytes;
using testing::Host;
using testing::HostPair;

uint64_t counter(Worker& worker, const std::string& wanted) {
  uint64_t found = UINT64_MAX;
  for_each_counter(worker, [&](std::string_view prefix, std::string_view name, uint64_t value) {
    if (std::string(prefix) + std::string(name) == wanted) found = value;
  });
  EXPECT_NE(found, UINT64_MAX) << "no counter named " << wanted;
  return found;
}

class HostileFrames : public ::testing::Test {
 protected:
  HostileFrames() {
    // Makes a packet that the responder would accept: a WRITE of 8 bytes at the expected PSN.
    packet_.opcode = wire::Opcode::kMpWriteOnly;
    packet_.dest_qpn = Qpn(pair_.qp_b->qpn);
    packet_.psn = Psn(100);
    packet_.payload_len = 8;
    packet_.reth = {pair_.mr_b->addr(), Key(pair_.mr_b->key), 8};
    packet_.ack_req = true;
    address_.dst_mac = derived_mac(Host::ip(1));
    address_.src_mac = derived_mac(Host::ip(0));
    address_.src_ip = wire::map_ipv4(Host::ip(0));
    address_.dst_ip = wire::map_ipv4(Host::ip(1));
    pair_.settle();
  }

  Bytes frame() const {
    Bytes bytes(4400);
    unsigned char* payload = bytes.data() + 128;
    std::memset(payload, 0xab, packet_.payload_len);
    const size_t header = wire::encode_frame(address_, packet_, payload);
    const size_t total = wire::finish_frame(payload - header, header, packet_.payload_len, true);
    return {payload - header, payload - header + total};
  }

  // Expects that the frame counts once in this counter of b, and changes no memory.
  void expect_counted(Bytes bytes, const std::string& name) {
    const uint64_t before = counter(*pair_.b.worker, name);
    pair_.wire->inject(1, std::move(bytes));
    pair_.settle(3);
    EXPECT_EQ(counter(*pair_.b.worker, name), before + 1) << name;
    EXPECT_EQ(pair_.mr_b->bytes[0], 0) << name;
    EXPECT_EQ(pair_.b.port().borrowed, 0) << name;
  }

  HostPair pair_;
  wire::Packet packet_;
  wire::FrameAddress address_;
};

TEST_F(HostileFrames, TheUnharmedFrameIsTaken) {
  pair_.wire->inject(1, frame());
  pair_.settle(3);
  EXPECT_EQ(pair_.mr_b->bytes[0], 0xab) << "else the tests below prove nothing";
}

TEST_F(HostileFrames, TruncatedAnywhereIsADecoderDrop) {
  const Bytes whole = frame();
  for (size_t length = 0; length < whole.size(); ++length) {
    pair_.wire->inject(1, Bytes(whole.begin(), whole.begin() + static_cast<long>(length)));
  }
  const auto sum = [&] {
    uint64_t total = 0;
    for (const uint64_t count : pair_.b.worker->wire_drops().count) total += count;
    return total;
  };
  const uint64_t before = sum();
  pair_.settle(20);
  EXPECT_EQ(sum() - before, whole.size());
  EXPECT_EQ(pair_.mr_b->bytes[0], 0);
}

TEST_F(HostileFrames, FlippedBitFailsTheIcrc) {
  Bytes bytes = frame();
  bytes[bytes.size() - 6] ^= 1;
  expect_counted(bytes, "drop_bad_icrc");
}

TEST_F(HostileFrames, MisaddressedFramesAreDropsOfTheirOwn) {
  address_.dst_mac[5] ^= 1;
  expect_counted(frame(), "drop_wrong_mac");
  address_.dst_mac[5] ^= 1;
  address_.dst_ip = wire::map_ipv4(Host::ip(7));
  expect_counted(frame(), "drop_wrong_destination");
  address_.dst_ip = wire::map_ipv4(Host::ip(1));
  address_.src_ip = wire::map_ipv4(Host::ip(7));
  expect_counted(frame(), "drop_wrong_source");
  address_.src_ip = wire::map_ipv4(Host::ip(0));
  packet_.dest_qpn = Qpn(packet_.dest_qpn.value() ^ (1u << 20));
  expect_counted(frame(), "drop_unknown_qp");
  packet_.dest_qpn = Qpn(1);
  expect_counted(frame(), "drop_bad_mad");
  packet_.dest_qpn = Qpn(pair_.qp_b->qpn);
  packet_.p_key = 0x1234;
  expect_counted(frame(), "drop_bad_pkey");
}

TEST_F(HostileFrames, PacketOfAnotherModeIsDropped) {
  packet_.opcode = wire::Opcode::kRcWriteOnly;
  expect_counted(frame(), "transport_drop_wrong_mode");
}

TEST_F(HostileFrames, WrongKeyIsTheStandardsAccessError) {
  packet_.reth.rkey = Key(packet_.reth.rkey.value() ^ 0x100);
  expect_counted(frame(), "transport_errors_remote");
  EXPECT_EQ(pair_.b.query(*pair_.qp_b).state, uint32_t{MPRDMA_ABI_QPS_ERR});
  const auto access_errors =
      std::count_if(pair_.b.events.begin(), pair_.b.events.end(),
                    [](const auto& e) { return e.type == MPRDMA_ABI_EVENT_QP_ACCESS_ERR; });
  EXPECT_EQ(access_errors, 1);
}

TEST_F(HostileFrames, OutOfBoundsIsTheStandardsAccessError) {
  packet_.reth.va = pair_.mr_b->addr() + pair_.mr_b->bytes.size() - 7;
  expect_counted(frame(), "transport_errors_remote");
}

TEST_F(HostileFrames, RandomBytesHarmNobody) {
  Prng prng(11);
  const Bytes whole = frame();
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes = whole;
    const uint64_t flips = prng.range(1, 40);
    // Half of the frames keep Ethernet and IP intact, to get further.
    const size_t from = prng.chance(1, 2) ? 0 : 34;
    for (uint64_t f = 0; f < flips; ++f) {
      bytes[prng.range(from, bytes.size() - 1)] = static_cast<unsigned char>(prng.next_u64());
    }
    if (prng.chance(1, 4)) bytes.resize(prng.below(bytes.size()));
    pair_.wire->inject(1, std::move(bytes));
    if (i % 16 == 0) pair_.step();
  }
  pair_.settle(200);
  EXPECT_EQ(pair_.b.port().borrowed, 0);
}

TEST_F(HostileFrames, MalformedArpIsCountedAndForeignClaimOfOurAddressToo) {
  wire::Arp arp{.operation = wire::ArpOperation::kRequest,
                .sender_mac = derived_mac(Host::ip(5)),
                .sender_ip = Host::ip(5),
                .target_mac = {},
                .target_ip = Host::ip(1)};
  Bytes bytes(wire::kMinFrameBytes);
  wire::encode_arp_frame(wire::kBroadcastMac, arp.sender_mac, arp, bytes.data());
  bytes[14] = 9;
  expect_counted(bytes, "drop_bad_arp");
  expect_counted(Bytes(bytes.begin(), bytes.begin() + 20), "drop_truncated_arp");
  arp.sender_ip = Host::ip(1);
  wire::encode_arp_frame(wire::kBroadcastMac, arp.sender_mac, arp, bytes.data());
  expect_counted(bytes, "arp_conflicts");
}

}  // namespace
}  // namespace mprdma::dataplane
