// An engine's answer to a provider that connects, and its messages to the user about a port's
// frames.
#include "dataplane/engine/engine.hpp"

#include <gtest/gtest.h>

#include "dataplane/port/frame_size.hpp"
#include "tests/unit/dataplane/engine/engine_host.hpp"

namespace mprdma::dataplane {
namespace {

uint64_t features_with(transport::PlacementPolicy placement) {
  Config config;
  config.ipv4 = testing::Host::ip(0);
  config.mac = derived_mac(config.ipv4);
  config.params.placement = placement;
  auto wire = std::make_shared<testing::MemoryWire>();
  std::unique_ptr<Engine> engine;
  const Status status = Engine::create_over(
      config, std::make_unique<testing::MemoryPort>(wire, 0, config.mac), 1, &engine);
  EXPECT_TRUE(status.ok()) << status.text;
  mprdma_abi_client client{};
  client.abi_major = MPRDMA_ABI_MAJOR;
  client.on_event = [](void*, const mprdma_abi_event*) {};
  mprdma_abi_channel channel{};
  EngineClient* connected = engine->connect(client, &channel);
  const uint64_t features = channel.features;
  engine->disconnect(connected);
  return features;
}

TEST(EngineFeatures, SayWhetherDataIsPlacedInNoOrderWhateverTheRegion) {
  using transport::PlacementPolicy;
  EXPECT_EQ(features_with(PlacementPolicy::kStandard) & MPRDMA_ABI_FEATURE_RELAXED_ALWAYS, 0u);
  EXPECT_EQ(features_with(PlacementPolicy::kOrdered) & MPRDMA_ABI_FEATURE_RELAXED_ALWAYS, 0u);
  EXPECT_NE(features_with(PlacementPolicy::kRelaxed) & MPRDMA_ABI_FEATURE_RELAXED_ALWAYS, 0u);
  EXPECT_NE(features_with(PlacementPolicy::kStandard) & MPRDMA_ABI_FEATURE_RELAXED_ORDERING, 0u);
  EXPECT_EQ(features_with(PlacementPolicy::kOrdered) & MPRDMA_ABI_FEATURE_RELAXED_ORDERING, 0u);
  const uint64_t all = MPRDMA_ABI_FEATURE_RC | MPRDMA_ABI_FEATURE_SYNCHRONISE |
                       MPRDMA_ABI_FEATURE_QP_TRANSPORT | MPRDMA_ABI_FEATURE_QP_STATS;
  EXPECT_EQ(features_with(PlacementPolicy::kStandard) & all, all);
}

TEST(FrameSize, AnMtuThatThePortDoesNotCarryNamesKeyLimitAndRemedy) {
  constexpr std::string_view kXdp = "ethdev:net_af_xdp0,iface=eth1";
  constexpr std::string_view kPacket = "ethdev:net_af_packet0,iface=eth1";
  EXPECT_EQ(check_frames(kXdp, 3512, 2048, "mtu").text, "");
  EXPECT_EQ(check_frames(kXdp, 3512, 4096, "mtu").text,
            "mtu: 4096 needs frames of 4221 bytes, the port carries 3512; set it to 2048, the most "
            "that AF_XDP carries");
  EXPECT_EQ(check_frames(kXdp, 1514, 4096, "mtu").text,
            "mtu: 4096 needs frames of 4221 bytes, the port carries 1514; set it to 1024, or the "
            "interface's MTU to 2159 or more and it to 2048, the most that AF_XDP carries");
  EXPECT_EQ(check_frames(kPacket, 1514, 4096, "mtu").text,
            "mtu: 4096 needs frames of 4221 bytes, the port carries 1514; set it to 1024, or the "
            "interface's MTU to 4207 or more");
  EXPECT_EQ(check_frames(kPacket, 600, 1024, "mtu").text,
            "mtu: 1024 needs frames of 1149 bytes, the port carries 600; no path MTU is that "
            "small: set the interface's MTU to 1135 or more");
}

}  // namespace
}  // namespace mprdma::dataplane
