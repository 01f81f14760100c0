// IPv6 neighbours of the engine: asked for where the address does not hold the Ethernet address.
#include "wire/neighbour.hpp"

#include <gtest/gtest.h>

#include "dataplane/worker/worker.hpp"
#include "tests/unit/dataplane/engine/engine_host.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Bytes;
using testing::Host;
using testing::MemoryWire;

constexpr wire::MacAddress kPeerMac = {2, 0, 0, 0, 0, 9};
// An address that does not contain an Ethernet address.
constexpr wire::IpAddress kFreeIp = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};

class NeighbourDiscovery : public ::testing::Test {
 protected:
  std::vector<wire::NeighbourMessage> sent() {
    host_.worker->run(host_.now);
    std::vector<wire::NeighbourMessage> out;
    for (const Bytes& frame : wire_->side[1].incoming) {
      wire::NeighbourMessage message;
      if (frame.size() > 54 && frame[20] == wire::kIpProtocolIcmpv6 &&
          wire::NeighbourMessage::parse(wire::Ipv6::load(frame.data() + 14),
                                        std::span(frame).subspan(54), message)) {
        out.push_back(message);
      }
    }
    wire_->side[1].incoming.clear();
    return out;
  }
  void advertise(const wire::IpAddress& ip, const wire::MacAddress& mac) {
    Bytes frame(wire::NeighbourMessage::kFrameBytes);
    wire::encode_advertisement(mac, ip, own_mac_, own_ip_, frame.data());
    wire_->inject(0, std::move(frame));
    host_.worker->run(host_.now);
  }
  int make_ah(const wire::IpAddress& to) {
    mprdma_abi_create_ah ah{};
    ah.pd = host_.pd;
    ah.sgid_index = 0;
    std::memcpy(ah.dgid, to.data(), to.size());
    mprdma_abi_handle out{};
    return host_.execute(MPRDMA_ABI_CREATE_AH, ah, &out);
  }

  std::shared_ptr<MemoryWire> wire_ = std::make_shared<MemoryWire>();
  Host host_{wire_, 0};
  const wire::MacAddress own_mac_ = derived_mac(Host::ip(0));
  const wire::IpAddress own_ip_ = wire::link_local_of(own_mac_);
};

TEST_F(NeighbourDiscovery, AsksForAnAddressThatHoldsNoEthernetAddress) {
  sent();
  ASSERT_EQ(make_ah(kFreeIp), 0);
  const std::vector<wire::NeighbourMessage> asked = sent();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_FALSE(asked[0].advertisement);
  EXPECT_EQ(asked[0].target, kFreeIp);
  EXPECT_EQ(asked[0].mac, own_mac_);
  advertise(kFreeIp, kPeerMac);
  ASSERT_NE(host_.worker->nic_part().table().find(kFreeIp), nullptr);
  EXPECT_EQ(host_.worker->nic_part().table().find(kFreeIp)->state,
            NeighbourTable::State::kReachable);
  EXPECT_EQ(host_.worker->nic_part().table().find(kFreeIp)->mac, kPeerMac);
  // An address with the Ethernet address inside needs no question; one of another network has no
  // route.
  ASSERT_EQ(make_ah(wire::link_local_of(kPeerMac)), 0);
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(make_ah({0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}), EINVAL);
}

TEST_F(NeighbourDiscovery, AnswersForItsOwnAddressOnlyAndLearnsNobodyUnasked) {
  sent();
  for (const wire::IpAddress& target : {own_ip_, kFreeIp}) {
    Bytes frame(wire::NeighbourMessage::kFrameBytes);
    wire::encode_solicitation(kPeerMac, target, frame.data());
    wire_->inject(0, frame);
    frame[60] ^= 1;  // the checksum is wrong
    wire_->inject(0, std::move(frame));
  }
  const std::vector<wire::NeighbourMessage> answers = sent();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(answers[0].advertisement);
  EXPECT_EQ(answers[0].target, own_ip_);
  EXPECT_EQ(answers[0].mac, own_mac_);
  EXPECT_EQ(host_.worker->counters().drop_neighbour, 2u);
  advertise(kFreeIp, kPeerMac);
  EXPECT_EQ(host_.worker->nic_part().table().find(kFreeIp), nullptr);
}

}  // namespace
}  // namespace mprdma::dataplane
