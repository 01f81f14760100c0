#include "dataplane/port/fault_port.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "tests/support/eventually.hpp"
#include "tests/unit/dataplane/port/memory_port.hpp"
#include "wire/pause_frame.hpp"

namespace mprdma::dataplane {
namespace {

using testing::MemoryPort;
using testing::MemoryWire;

struct Sent {
  std::map<uint32_t, int> copies;
  uint32_t overtaken = 0;
};

Sent send_through(const FaultSpec& spec, uint32_t frames) {
  auto wire = std::make_shared<MemoryWire>();
  wire->room = 1 << 20;
  FaultPort port(std::make_unique<MemoryPort>(wire, 0, std::array<unsigned char, 6>{}), spec);
  for (uint32_t i = 0; i < frames; ++i) {
    TxFrame frame{};
    EXPECT_EQ(port.tx_reserve(&frame, 1), 1u);
    std::memcpy(frame.payload - 14, &i, sizeof(i));
    frame.header_bytes = 14;
    frame.frame_bytes = 64;
    port.tx_commit(&frame, 1);
    RxFrame none[1];
    port.rx_burst(none, 1);
  }
  EXPECT_TRUE(eventually([&] {
    RxFrame none[1];
    port.rx_burst(none, 1);
    return port.arm();
  })) << "everything that was held back leaves";
  Sent sent;
  uint32_t highest = 0;
  for (const testing::Bytes& bytes : wire->side[1].incoming) {
    uint32_t number = 0;
    std::memcpy(&number, bytes.data(), sizeof(number));
    ++sent.copies[number];
    sent.overtaken += number < highest ? 1 : 0;
    highest = std::max(highest, number);
  }
  return sent;
}

TEST(FaultPort, WithoutFaultsEverythingPassesInOrder) {
  const Sent sent = send_through(FaultSpec{}, 500);
  EXPECT_EQ(sent.copies.size(), 500u);
  EXPECT_EQ(sent.overtaken, 0u);
}

TEST(FaultPort, LosesAboutTheShareAndTheSameFramesForASeed) {
  FaultSpec spec;
  spec.seed = 5;
  spec.loss_ppm = 100'000;
  const Sent sent = send_through(spec, 2000);
  EXPECT_GT(sent.copies.size(), 1700u);
  EXPECT_LT(sent.copies.size(), 1900u);
  EXPECT_EQ(send_through(spec, 2000).copies, sent.copies);
}

TEST(FaultPort, ReordersAndDuplicatesWithoutLosing) {
  FaultSpec spec;
  spec.reorder_ppm = 50'000;
  spec.dup_ppm = 50'000;
  const Sent sent = send_through(spec, 2000);
  EXPECT_EQ(sent.copies.size(), 2000u);
  EXPECT_GT(sent.overtaken, 20u);
  int twice = 0;
  for (const auto& [number, count] : sent.copies) twice += count == 2 ? 1 : 0;
  EXPECT_GT(twice, 20);
}

TEST(FaultPort, AMadNicPausesItsPeerAgainAndAgain) {
  FaultSpec spec;
  ASSERT_EQ(parse_fault("pause_after_ms=2", &spec).text, "");
  auto wire = std::make_shared<MemoryWire>();
  FaultPort port(std::make_unique<MemoryPort>(wire, 0, std::array<unsigned char, 6>{}), spec);
  const auto pauses = [&wire] { return wire->side[1].incoming.size(); };
  Time now;
  port.service(now);
  EXPECT_TRUE(port.arm());
  port.disarm();
  port.service(now + Duration::us(1999));
  EXPECT_EQ(pauses(), 0u);
  for (int i = 0; i < 10; ++i) port.service(now + Duration::ms(2) + Duration::us(500) * i);
  EXPECT_EQ(pauses(), 10u);
  wire::PauseFrame pause;
  ASSERT_EQ(wire::PauseFrame::parse(wire->side[1].incoming[9], pause), wire::PauseDrop::kNone);
  EXPECT_EQ(pause, wire::PauseFrame::pfc(0xff, 0xffff));
  EXPECT_FALSE(port.arm()) << "nobody would send the next one";
}

}  // namespace
}  // namespace mprdma::dataplane
