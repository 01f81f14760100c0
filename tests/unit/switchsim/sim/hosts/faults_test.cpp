// What hosts do wrong, and what stops it: NICs that pause without end and their watchdogs, NICs
// that need time for a packet, a NIC's classes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "switchsim/sim/hosts/slow_receiver.hpp"
#include "switchsim/sim/scenario/scenario_toml.hpp"
#include "switchsim/sim/simulation.hpp"

namespace mprdma::switchsim {
namespace {

// Two flows, of a class each, from one host to two; the first one's receiver pauses in the middle.
constexpr char kTwoClasses[] = R"(
name = "two-classes"
duration_us = 8_000
sample_us = 100
[transport]
preset = "roce"
window_max = 1024
[topology]
kind = "explicit"
hosts = ["a", "b", "c"]
switches = ["s"]
pfc = true
pause_bytes = 50_000
[[link]]
a = "a"
b = "s"
name = "a"
[[link]]
a = "b"
b = "s"
name = "b"
[[link]]
a = "c"
b = "s"
name = "c"
[[flow]]
name = "lossless"
from = "a"
to = "b"
may_fail = true
[[flow]]
name = "lossy"
from = "a"
to = "c"
lossless = false
[[event]]
at_us = 2_000
link = "b"
pausing = true
[[event]]
at_us = 6_000
link = "b"
pausing = false
)";

Result run(const Overrides& overrides = {}) {
  Scenario scenario;
  EXPECT_EQ(parse_scenario(kTwoClasses, "s.toml", overrides, &scenario).text, "");
  return simulate(scenario);
}

double gbps(const Result& result, size_t flow, int64_t from_us, int64_t to_us) {
  const auto at = [](int64_t us) { return SimTime() + SimSpan::us(us); };
  return result.goodput_bps_between(flow, at(from_us), at(to_us)) / 1e9;
}

TEST(HostFaults, APauseOfOneClassLeavesTheNicToTheOther) {
  const Result result = run();
  EXPECT_GT(gbps(result, 0, 500, 2'000), 10);
  EXPECT_GT(gbps(result, 1, 500, 2'000), 10);
  EXPECT_EQ(gbps(result, 0, 2'500, 6'000), 0);
  EXPECT_GT(gbps(result, 1, 2'500, 6'000), 30) << "alone on 40 Gb/s";
  EXPECT_GT(gbps(result, 0, 6'500, 8'000), 10) << "after the pause";
}

TEST(HostFaults, AGlobalPauseStopsTheNic) {
  const Result result = run({"topology.global_pause=true"});
  EXPECT_EQ(gbps(result, 1, 2'500, 6'000), 0);
  EXPECT_GT(gbps(result, 1, 6'500, 8'000), 10);
}

TEST(HostFaults, TheWatchdogOfTheNicEndsAPauseThatLastsAndNoOther) {
  const Result early = run({"nic_watchdog_us=1_000"});
  EXPECT_EQ(early.nic_watchdog_trips, 1U);
  EXPECT_EQ(gbps(early, 0, 2'500, 3'000), 0);
  EXPECT_GT(gbps(early, 0, 4'000, 6'000), 10);
  EXPECT_EQ(run({"nic_watchdog_us=5_000"}).nic_watchdog_trips, 0U);
  // Many short pauses, with gaps that no look sees, are no long one.
  std::string text = kTwoClasses;
  for (int i = 0; i < 39; ++i) {
    const double at_us = 2'000 + i * 100;
    text += fmt::format("[[event]]\nat_us = {}\nlink = \"b\"\npausing = false\n", at_us + 90);
    text += fmt::format("[[event]]\nat_us = {}\nlink = \"b\"\npausing = true\n", at_us + 99);
  }
  Scenario scenario;
  ASSERT_EQ(parse_scenario(text, "s.toml", {"nic_watchdog_us=1_000"}, &scenario).text, "");
  EXPECT_EQ(simulate(scenario).nic_watchdog_trips, 0U);
}

TEST(HostFaults, TheWatchdogOfTheSwitchDropsUntilThePauseHasBeenGoneForAsLong) {
  const Result result =
      run({"switch_watchdog_us=1_000", "transport.timeout=8", "duration_us=24_000"});
  EXPECT_EQ(result.switch_watchdog_trips, 1U);
  EXPECT_GT(result.port_named("b.ba")->total.drop_paused, 0U);
  EXPECT_EQ(gbps(result, 0, 6'000, 6'900), 0) << "the pause has ended, and may come back";
  EXPECT_GT(gbps(result, 0, 18'000, 24'000), 10) << "after the sender's next timeout";
  EXPECT_EQ(run({"switch_watchdog_us=5_000"}).switch_watchdog_trips, 0U);
  // Its packets are dropped, so that the ingress that they share with others is free.
  const Result pcp = run({"switch_watchdog_us=1_000", "flow[lossy].lossless=true"});
  EXPECT_EQ(gbps(pcp, 1, 2'500, 3'000), 0) << "behind what waits for b";
  EXPECT_GT(gbps(pcp, 1, 4'000, 6'000), 10);
}

// Host a receives of both classes, and is paused, so that its acknowledgements of one class wait;
// it takes time for those of the other one.
TEST(HostFaults, APauseOfOneClassLeavesTheNicToTheOthersAcknowledgements) {
  std::string text = kTwoClasses;
  for (const bool lossless : {true, false}) {
    text += fmt::format(
        "[[flow]]\nname = \"back-{0}\"\nfrom = \"c\"\nto = \"a\"\nlossless = {0}\n"
        "message_bytes = 1000\npost_depth = 1\nmay_fail = true\n",
        lossless);
  }
  Scenario scenario;
  const Overrides delay = {"ack_delay_us=5", "flow[lossy].stop_us=0"};
  ASSERT_EQ(parse_scenario(text, "s.toml", delay, &scenario).text, "");
  const Result result = simulate(scenario);
  EXPECT_GT(gbps(result, 2, 500, 2'000), 0.1);
  EXPECT_EQ(gbps(result, 2, 2'500, 6'000), 0) << "its acknowledgements are lossless";
  EXPECT_GT(gbps(result, 3, 2'500, 6'000), gbps(result, 3, 500, 2'000) * 0.9);
  EXPECT_GT(gbps(result, 2, 6'500, 8'000), 0.1);
}

TEST(HostFaults, AMistakeIsNamed) {
  Scenario scenario;
  const auto error = [&](const Overrides& overrides) {
    return parse_scenario(kTwoClasses, "s.toml", overrides, &scenario).text;
  };
  EXPECT_NE(error({"topology.flood=true", "reroute=true"}).find("flood with reroute"),
            std::string::npos);
  std::string text = kTwoClasses;
  text += "[[receiver]]\nhosts = \"b\"\n";
  EXPECT_NE(
      parse_scenario(text, "s.toml", {}, &scenario).text.find("a host that is a [[receiver]]"),
      std::string::npos);
}

// ---- Slow receivers

TEST(SlowReceiverTest, APacketIsSlowWhereItsPageIsNew) {
  ReceiverSpec spec;
  spec.page_bytes = 4096;
  spec.memory_bytes = 4096 * 64;
  spec.entries = 1;
  SlowReceiver receiver(spec);
  uint32_t slow = 0;
  for (uint32_t message = 0; message < 100; ++message) {
    for (uint32_t packet = 0; packet < 8; ++packet) {
      const SimSpan time = receiver.time_of(0, packet == 0, 512);
      ASSERT_TRUE(time == spec.packet_time || time == spec.packet_time + spec.miss_time);
      slow += time > spec.packet_time ? 1 : 0;
    }
  }
  // 4096 bytes from a place within a page on lie in two; a message that begins where the last one
  // ended, or in its page, has one miss less.
  EXPECT_GT(slow, 150U);
  EXPECT_LE(slow, 200U);
}

TEST(SlowReceiverTest, MessagesOfAnyLengthBeginWhereTheirFirstPacketIs) {
  ReceiverSpec spec;
  spec.page_bytes = 4096;
  spec.memory_bytes = 1 << 30;
  SlowReceiver receiver(spec);
  // A message of one packet each is at a random page.
  uint32_t slow = 0;
  for (uint32_t i = 0; i < 100; ++i) slow += receiver.time_of(7, true, 64) > spec.packet_time;
  EXPECT_GT(slow, 95U);
}

TEST(SlowReceiverTest, ItPausesBeyondHalfOfItsBufferAndRefusesWhatDoesNotFit) {
  ReceiverSpec spec;
  spec.buffer_bytes = 4000;
  SlowReceiver receiver(spec);
  EXPECT_TRUE(receiver.push(1, 2000));
  EXPECT_FALSE(receiver.pausing());
  EXPECT_TRUE(receiver.push(2, 2000));
  EXPECT_TRUE(receiver.pausing());
  EXPECT_FALSE(receiver.push(3, 1));
  EXPECT_EQ(receiver.pop(), 1U);
  EXPECT_FALSE(receiver.pausing());
  EXPECT_EQ(receiver.pop(), 2U);
  EXPECT_TRUE(receiver.empty());
}

}  // namespace
}  // namespace mprdma::switchsim
