// A lone flow's completion time, to the picosecond, and what packets cost on a wire.
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/switchsim/sim/scenarios.hpp"
#include "wire/frame.hpp"

namespace mprdma::switchsim {
namespace {

// A WRITE packet, by hand from docs/wire-format.md: Ethernet, IPv4, UDP, BTH, mp data extension,
// RETH, payload, ICRC, FCS; preamble and gap.
constexpr int64_t kDataBytes = 14 + 20 + 8 + 12 + 16 + 16 + 1024 + 4 + 4 + 8 + 12;
// An acknowledgement, with the mp acknowledgement extension instead.
constexpr int64_t kAckBytes = 14 + 20 + 8 + 12 + 16 + 4 + 4 + 8 + 12;
// The time of a byte at 40 Gb/s.
constexpr int64_t kPsPerByte = 200;

int64_t fct_ps(const Scenario& scenario) {
  const Result result = simulate(scenario);
  EXPECT_TRUE(result.errors.empty()) << result.errors.front();
  EXPECT_EQ(result.flows[0].messages.size(), 1U);
  EXPECT_EQ(result.retransmitted(), 0U);
  return result.flows[0].messages.at(0).fct().count_ps();
}

int64_t delay_ps(const Scenario& scenario) {
  return scenario.topology.links[0].ab.delay.count_ps();
}

TEST(LoneFlow, OnePacketTakesStoreAndForwardAtEachHopAndTheAcknowledgementsWayBack) {
  const Scenario scenario = lone_message(1024);
  EXPECT_EQ(fct_ps(scenario), 3 * (kDataBytes + kAckBytes) * kPsPerByte + 6 * delay_ps(scenario));
}

TEST(LoneFlow, BaseRttOfATopologyIncludesSerialisation) {
  // Each of six delays is a whole number of picoseconds: at most six are lost.
  EXPECT_NEAR(static_cast<double>(fct_ps(lone_message(1024))), 12e6, 6);
}

TEST(LoneFlow, AWindowOfPacketsLeavesBackToBack) {
  constexpr int64_t kPackets = 40;
  const Scenario scenario = lone_message(kPackets * 1024);
  EXPECT_EQ(fct_ps(scenario), (kPackets + 2) * kDataBytes * kPsPerByte +
                                  3 * kAckBytes * kPsPerByte + 6 * delay_ps(scenario));
}

TEST(LoneFlow, ABottleneckOfAQuarterOfTheRateSpacesThePackets) {
  constexpr int64_t kPackets = 40;
  const Scenario scenario = lone_message(kPackets * 1024, LinkRate::gbps(10));
  EXPECT_EQ(fct_ps(scenario), kPackets * kDataBytes * 4 * kPsPerByte + 2 * kDataBytes * kPsPerByte +
                                  6 * kAckBytes * kPsPerByte + 6 * delay_ps(scenario));
}

TEST(LoneFlow, AMessageOfManyWindowsKeepsTheWireBusy) {
  constexpr int64_t kPackets = 1000;  // twenty windows
  const Scenario scenario = lone_message(kPackets * 1024);
  EXPECT_EQ(fct_ps(scenario), (kPackets + 2) * kDataBytes * kPsPerByte +
                                  3 * kAckBytes * kPsPerByte + 6 * delay_ps(scenario));
}

TEST(LoneFlow, ADelayOfTheHostAddsToTheAcknowledgement) {
  Scenario scenario = lone_message(1024);
  const int64_t without_ps = fct_ps(scenario);
  scenario.ack_delay = SimSpan::us(3);
  EXPECT_EQ(fct_ps(scenario), without_ps + 3'000'000);
}

TEST(WireSize, IsThatOfTheEnginesFrames) {
  std::vector<unsigned char> buffer(4096);
  for (const uint32_t payload : {0U, 1U, 256U, 1024U, 1025U}) {
    wire::Packet packet;
    packet.opcode = wire::Opcode::kMpWriteMiddle;
    packet.payload_len = payload;
    unsigned char* const start = buffer.data() + 512;
    const size_t header = wire::encode_frame({}, packet, start);
    const size_t frame = wire::finish_frame(start - header, header, payload, true);
    EXPECT_EQ(data_wire_bytes(FlowOperation::kWrite, payload), frame + 4 + 8 + 12);
  }
  EXPECT_EQ(data_wire_bytes(FlowOperation::kWrite, 1024), kDataBytes);
  EXPECT_EQ(ack_wire_bytes(), kAckBytes);
  EXPECT_DOUBLE_EQ(payload_ceiling_bps(LinkRate::gbps(40), FlowOperation::kWrite, 1024),
                   40e9 * 1024 / kDataBytes);
}

TEST(WireSize, NoFrameIsShorterThanEthernetAllows) {
  // 62 bytes without the minimum.
  EXPECT_EQ(data_wire_bytes(FlowOperation::kSend, 0, transport::Protocol::kRoce), 64U + 20U);
  EXPECT_EQ(data_wire_bytes(FlowOperation::kSend, 1, transport::Protocol::kRoce), 66U + 20U);
}

}  // namespace
}  // namespace mprdma::switchsim
