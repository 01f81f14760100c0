// What an engine tells a provider at connect.
#include "dataplane/engine.hpp"

#include <gtest/gtest.h>

#include "tests/unit/dataplane/engine_host.hpp"

namespace mprdma::dataplane {
namespace {

uint64_t features_with(transport::PlacementPolicy placement) {
  Config config;
  config.ipv4 = testing::Host::ip(0);
  config.mac = derived_mac(config.ipv4);
  config.params.placement = placement;
  int error = 0;
  std::string message;
  auto wire = std::make_shared<testing::MemoryWire>();
  auto engine = Engine::create_over(
      config, std::make_unique<testing::MemoryPort>(wire, 0, config.mac), 1, &error, &message);
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

}  // namespace
}  // namespace mprdma::dataplane
