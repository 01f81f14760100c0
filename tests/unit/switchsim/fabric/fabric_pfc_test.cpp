// PFC between the fabric and its hosts: who is paused, by what, and for how long.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "switchsim/fabric/fabric.hpp"
#include "tests/unit/switchsim/fabric/fabric_support.hpp"
#include "wire/ipv4.hpp"
#include "wire/pause_frame.hpp"

namespace mprdma::switchsim {
namespace {

using testing::Bytes;
using testing::TwoHosts;
using wire::PauseFrame;

// h0 at 10 Gb/s, a path of 100 Mb/s, h1 at 1 Gb/s: what h0 sends waits at the first switch.
std::string slow_path(const std::string& keys = "pfc = true\npause_bytes = 20000\n") {
  return keys +
         "paths = 1\n[path]\nrate = \"100Mbps\"\ndelay_us = 10\nqueue_kb = 100\n"
         "[[hosts]]\nname = \"h0\"\nip = \"10.73.0.1/24\"\n"
         "[[hosts]]\nname = \"h1\"\nip = \"10.73.0.2/24\"\nrate = \"1Gbps\"\n";
}

Bytes pause_bytes(const PauseFrame& pause) {
  Bytes bytes(wire::kMinFrameBytes);
  pause.store({0x02, 0, 0, 0, 0, 9}, bytes.data());
  return bytes;
}

std::optional<PauseFrame> pause_in(const Bytes& bytes) {
  PauseFrame pause;
  if (PauseFrame::parse(bytes, pause) != wire::PauseDrop::kNone) return std::nullopt;
  return pause;
}

// The pauses that the host has been handed, taken out of its inbox.
std::vector<PauseFrame> take_pauses(TwoHosts& net, size_t host) {
  std::vector<PauseFrame> pauses;
  std::erase_if(net.inbox(host), [&](const Bytes& bytes) {
    const std::optional<PauseFrame> pause = pause_in(bytes);
    if (pause) pauses.push_back(*pause);
    return pause.has_value();
  });
  return pauses;
}

Bytes with_dscp(Bytes frame, uint8_t dscp) {
  frame[15] = static_cast<unsigned char>(dscp << 2 | (frame[15] & 3));
  wire::Ipv4Header::load(frame.data() + 14).store(frame.data() + 14);
  return frame;
}

TEST(FabricPfc, AHostIsToldThatItIsPausedAgainAndAgainAndThatItMayGoOn) {
  TwoHosts net(slow_path("pfc = true\npause_bytes = 20000\nhysteresis_bytes = 15000\n"));
  for (int i = 0; i < 60; ++i) net.send(0, net.frame(0, 50000));
  net.run(Duration::ms(1));
  std::vector<PauseFrame> pauses = take_pauses(net, 0);
  ASSERT_GE(pauses.size(), 5u) << "again every 160 us";
  EXPECT_LE(pauses.size(), 8u);
  for (const PauseFrame& pause : pauses) {
    EXPECT_EQ(pause, PauseFrame::pfc(0xff, PauseFrame::kQuantaMax));
  }
  EXPECT_TRUE(net.fabric->pause_state(0).paused);
  net.run(Duration::ms(20));
  pauses = take_pauses(net, 0);
  ASSERT_FALSE(pauses.empty());
  EXPECT_EQ(pauses.back(), PauseFrame::pfc(0xff, 0));
  EXPECT_EQ(net.inbox(1).size(), 60u) << "nothing is lost";
  EXPECT_TRUE(take_pauses(net, 1).empty());
  EXPECT_EQ(net.fabric->frames_in_use(), 0u);
  EXPECT_EQ(net.fabric->next_event(), Time::never()) << "nobody is told anything more";
}

TEST(FabricPfc, WithGlobalPauseTheLinkIsPaused) {
  TwoHosts net(slow_path("pfc = true\npause_bytes = 20000\nglobal_pause = true\n"));
  for (int i = 0; i < 60; ++i) net.send(0, net.frame(0, 50000));
  net.run(Duration::ms(1));
  const std::vector<PauseFrame> pauses = take_pauses(net, 0);
  ASSERT_FALSE(pauses.empty());
  EXPECT_EQ(pauses[0], PauseFrame::of_link(PauseFrame::kQuantaMax));
}

TEST(FabricPfc, APauseOfAHostHoldsItsFramesForItsQuanta) {
  TwoHosts net(slow_path());
  net.send(1, pause_bytes(PauseFrame::pfc(1, 1000)));  // 512 us at 1 Gb/s
  net.run(Duration::us(10));
  net.send(0, net.frame(0, 50000));
  net.run(Duration::us(490));
  EXPECT_TRUE(net.inbox(1).empty());
  EXPECT_TRUE(net.fabric->pause_state(3).paused);
  net.run(Duration::us(50));
  EXPECT_EQ(net.inbox(1).size(), 1u);
  EXPECT_EQ(net.fabric->counters(1).pause_received, 1u);
  EXPECT_EQ(net.fabric->counters(1).pause_full, 0u);
}

TEST(FabricPfc, APauseThatIsRefreshedLastsAndItsEndEndsIt) {
  TwoHosts net(slow_path());
  net.send(0, net.frame(0, 50000));
  for (int i = 0; i < 10; ++i) {
    net.send(1, pause_bytes(PauseFrame::of_link(1000)));
    net.run(Duration::us(400));
  }
  EXPECT_TRUE(net.inbox(1).empty());
  net.send(1, pause_bytes(PauseFrame::of_link(0)));
  net.run(Duration::us(30));
  EXPECT_EQ(net.inbox(1).size(), 1u);
  EXPECT_EQ(net.fabric->pause_state(3).pause_sent, 1u) << "one pause";
}

TEST(FabricPfc, TheEndOfOnePrioritysPauseEndsNoOther) {
  TwoHosts net(slow_path());
  net.send(1, pause_bytes(PauseFrame::pfc(1 << 3, PauseFrame::kQuantaMax)));
  net.send(1, pause_bytes(PauseFrame::pfc(1 << 0, 0)));
  net.send(0, net.frame(0, 50000));
  net.run(Duration::ms(1));
  EXPECT_TRUE(net.inbox(1).empty());
  net.send(1, pause_bytes(PauseFrame::pfc(1 << 3, 0)));
  net.run(Duration::us(50));
  EXPECT_EQ(net.inbox(1).size(), 1u);
}

TEST(FabricPfc, APauseEndsWithTheProgramThatSentIt) {
  TwoHosts net(slow_path());
  net.send(1, pause_bytes(PauseFrame::of_link(PauseFrame::kQuantaMax)));
  net.run(Duration::us(10));
  net.fabric_ports[1]->up = false;
  net.run(Duration::us(10));
  net.fabric_ports[1]->up = true;
  net.send(0, net.frame(0, 50000));
  net.run(Duration::us(500));
  EXPECT_EQ(net.inbox(1).size(), 1u) << "the next program is not paused";
}

TEST(FabricPfc, AHostsOwnLinkLosesNothingThatIsLossless) {
  const std::string text = slow_path();
  const std::string host = "name = \"h0\"\n";
  TwoHosts net(std::string(text).replace(text.find(host), host.size(),
                                         host + "rate = \"100Mbps\"\nqueue_kb = 20\n"));
  for (int i = 0; i < 60; ++i) net.send(0, net.frame(0, 50000));
  net.run(Duration::ms(20));
  EXPECT_EQ(net.inbox(1).size(), 60u);
}

// Small frames, so that no threshold of bytes stops them before the buffers are in use.
TEST(FabricPfc, AHostThatStandsStillStopsNoOtherPair) {
  std::string text = "pfc = true\npaths = 1\n[path]\nrate = \"10Gbps\"\ndelay_us = 10\n";
  for (const char* number : {"1", "2", "3", "4"}) {
    text +=
        std::string("[[hosts]]\nname = \"h") + number + "\"\nip = \"10.73.0." + number + "/24\"\n";
  }
  TwoHosts net(text);
  net.wires[2]->room = 0;
  for (uint32_t i = 0; i < 2 * Fabric::kFramesMax; ++i) net.send(0, net.frame_to(2, 0, 50000, 10));
  net.run(Duration::ms(20));
  EXPECT_GT(net.fabric->frames_in_use(), 1000u);
  for (int i = 0; i < 1000; ++i) net.send(1, net.frame_to(3, 1, 50000, 10));
  net.run(Duration::ms(20));
  EXPECT_EQ(net.inbox(3).size(), 1000u);
}

// One host sends both, and has no more than one wire to the fabric.
TEST(FabricPfc, APriorityThatIsPausedStopsNoOtherOfItsHost) {
  for (const bool global : {false, true}) {
    std::string text = "pfc = true\npause_bytes = 20000\nlossless_priorities = [3]\n";
    if (global) text += "global_pause = true\n";
    text += "paths = 1\n[path]\nrate = \"10Gbps\"\ndelay_us = 10\n";
    for (const char* number : {"1", "2", "3"}) {
      text += std::string("[[hosts]]\nname = \"h") + number + "\"\nip = \"10.73.0." + number +
              "/24\"\n";
    }
    TwoHosts net(text);
    net.wires[1]->room = 0;
    for (int i = 0; i < 500; ++i) net.send(0, with_dscp(net.frame_to(1, 0, 50000, 1000), 3 << 3));
    net.run(Duration::ms(10));
    ASSERT_TRUE(net.fabric->pause_state(0).paused);
    EXPECT_EQ(net.fabric->queue_bytes(0) > 300'000, !global);
    for (int i = 0; i < 100; ++i) net.send(0, net.frame_to(2, 0, 50000, 1000));
    net.run(Duration::ms(10));
    std::erase_if(net.inbox(2), [](const Bytes& frame) { return pause_in(frame).has_value(); });
    EXPECT_EQ(net.inbox(2).size(), global ? 0u : 100u);
    net.wires[1]->room = 10'000;
    net.run(Duration::ms(10));
    EXPECT_EQ(net.inbox(2).size(), 100u);
    std::erase_if(net.inbox(1), [](const Bytes& frame) { return pause_in(frame).has_value(); });
    EXPECT_EQ(net.inbox(1).size(), 500u);
  }
}

TEST(FabricPfc, FramesThatWaitForAHostThatIsGivenUpAreDropped) {
  TwoHosts net(slow_path("pfc = true\nswitch_watchdog_us = 2000\n"));
  net.wires[1]->room = 0;
  for (int i = 0; i < 10; ++i) net.send(0, net.frame(0, 50000));
  net.run(Duration::ms(10));
  EXPECT_EQ(net.fabric->counters(1).watchdog_trips, 1u);
  EXPECT_EQ(net.fabric->frames_in_use(), 0u);
}

TEST(FabricPfc, OnlyLosslessPrioritiesArePaused) {
  TwoHosts net(slow_path("pfc = true\nlossless_priorities = [3]\n"));
  net.send(1, pause_bytes(PauseFrame::pfc(0xf7, 1000)));
  net.run(Duration::us(10));
  EXPECT_EQ(net.fabric->counters(1).pause_ignored, 1u);
  EXPECT_EQ(net.fabric->counters(1).pause_received, 0u);
  net.send(1, pause_bytes(PauseFrame::pfc(0xff, 60'000)));
  net.run(Duration::us(10));
  net.send(0, with_dscp(net.frame(0, 50000), 26));
  net.send(0, with_dscp(net.frame(0, 50000), 0));
  net.send(0, with_dscp(net.frame(0, 50000), 32));
  net.run(Duration::ms(1));
  ASSERT_EQ(net.inbox(1).size(), 2u);
  EXPECT_EQ(net.inbox(1)[0][15] >> 2, 0);
  EXPECT_EQ(net.inbox(1)[1][15] >> 2, 32);
  EXPECT_EQ(net.fabric->queue_bytes(3), net.frame(0, 50000).size() + 24);
}

TEST(FabricPfc, AHostWithoutRoomLosesOnlyWhatIsNotLossless) {
  TwoHosts net(slow_path("pfc = true\nlossless_priorities = [3]\n"));
  net.wires[1]->room = 4;
  for (int i = 0; i < 20; ++i) {
    Bytes frame = with_dscp(net.frame(0, 50000), 24);
    frame.back() = static_cast<unsigned char>(i);
    net.send(0, frame);
    net.send(0, with_dscp(net.frame(0, 50000), 0));
  }
  net.run(Duration::ms(8));
  EXPECT_EQ(net.inbox(1).size(), 4u);
  EXPECT_EQ(net.fabric->counters(1).pause_full, 1u);
  EXPECT_GT(net.fabric->counters(1).drop_host_slow, 10u);
  EXPECT_TRUE(net.fabric->pause_state(3).paused);
  net.wires[1]->room = 1000;
  net.run(Duration::ms(8));
  std::vector<unsigned> order;
  for (const Bytes& bytes : net.inbox(1)) {
    if (bytes[15] >> 2 == 24) order.push_back(bytes.back());
  }
  ASSERT_EQ(order.size(), 20u) << "all that is lossless";
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_FALSE(net.fabric->pause_state(3).paused);
  EXPECT_EQ(net.fabric->frames_in_use(), 0u);
}

TEST(FabricPfc, FramesThatWaitForRoomAreDroppedWhenTheHostLeaves) {
  TwoHosts net(slow_path());
  net.wires[1]->room = 0;
  for (int i = 0; i < 10; ++i) net.send(0, net.frame(0, 50000));
  net.run(Duration::ms(2));
  EXPECT_EQ(net.fabric->counters(1).drop_host_slow, 0u);
  net.fabric_ports[1]->up = false;
  net.run(Duration::ms(2));
  EXPECT_EQ(net.fabric->counters(1).drop_host_away, 10u);
  EXPECT_EQ(net.fabric->frames_in_use(), 0u);
}

TEST(FabricPfc, APauseDoesNotWaitBehindTheDataOfABlockedHost) {
  TwoHosts net(slow_path("pfc = true\npause_bytes = 20000\nglobal_pause = true\n"));
  net.send(1, pause_bytes(PauseFrame::of_link(PauseFrame::kQuantaMax)));
  for (int i = 0; i < 220; ++i) net.send(0, net.frame(0, 50000));
  for (int i = 0; i < 200; ++i) net.send(1, net.frame(1, 50000));
  net.run(Duration::ms(5));
  EXPECT_GT(net.fabric->counters(0).back_pressure, 0u);
  EXPECT_LT(net.inbox(0).size(), 100u);
  net.send(0, pause_bytes(PauseFrame::of_link(PauseFrame::kQuantaMax)));
  net.run(Duration::us(20));
  EXPECT_EQ(net.fabric->counters(0).pause_received, 1u);
  EXPECT_TRUE(net.fabric->arm()) << "frames of blocked hosts are no reason to stay awake";
  net.fabric->disarm();
}

TEST(FabricPfc, TheWatchdogGivesAHostUpThatPausesWithoutEnd) {
  for (const bool watched : {false, true}) {
    TwoHosts net(slow_path(watched ? "pfc = true\nswitch_watchdog_us = 2000\n" : "pfc = true\n"));
    const auto pass = [&net](int times) {
      for (int i = 0; i < times; ++i) {
        net.send(0, net.frame(0, 50000));
        net.send(1, pause_bytes(PauseFrame::pfc(0xff, PauseFrame::kQuantaMax)));
        net.run(Duration::us(500));
      }
    };
    pass(20);
    EXPECT_TRUE(net.inbox(1).empty());
    EXPECT_EQ(net.fabric->counters(1).watchdog_trips, watched ? 1u : 0u);
    EXPECT_EQ(net.fabric->link_counters(3).drop_paused > 10, watched);
    EXPECT_EQ(net.fabric->queue_bytes(3) > 0, !watched);
    net.send(1, pause_bytes(PauseFrame::pfc(0xff, 0)));
    net.run(Duration::ms(5));
    net.inbox(1).clear();
    net.send(0, net.frame(0, 50000));
    net.run(Duration::ms(1));
    EXPECT_EQ(net.inbox(1).size(), 1u) << "the host is one like others again";
  }
}

// By frames, and by a port that nobody reads.
TEST(FabricPfc, TheWatchdogOfANicEndsItsPausesUntilItsProgramLeaves) {
  for (const bool reads : {true, false}) {
    TwoHosts net(slow_path("pfc = true\nnic_watchdog_us = 2000\n"));
    if (!reads) net.wires[1]->room = 0;
    for (int i = 0; i < 20; ++i) {
      net.send(0, net.frame(0, 50000));
      if (reads) net.send(1, pause_bytes(PauseFrame::pfc(0xff, PauseFrame::kQuantaMax)));
      net.run(Duration::us(500));
    }
    EXPECT_EQ(net.fabric->counters(1).nic_watchdog_trips, 1u);
    EXPECT_FALSE(net.fabric->pause_state(3).paused);
    EXPECT_EQ(net.fabric->queue_bytes(3), 0u) << "the switch is free";
    EXPECT_EQ(net.fabric->counters(1).drop_host_slow > 10, !reads);
    EXPECT_EQ(net.fabric->counters(1).pause_ignored > 10, reads);
    EXPECT_EQ(net.inbox(1).size(), reads ? 20u : 0u);
    // Another program, whose NIC is sound.
    net.fabric_ports[1]->up = false;
    net.run(Duration::ms(1));
    net.fabric_ports[1]->up = true;
    net.run(Duration::ms(1));
    net.send(1, pause_bytes(PauseFrame::pfc(0xff, 1000)));
    net.run(Duration::us(100));
    EXPECT_TRUE(net.fabric->pause_state(3).paused);
  }
}

TEST(FabricPfc, WithoutPfcAndWhenMalformedPausesAreCounted) {
  TwoHosts net(slow_path(""));
  net.send(1, pause_bytes(PauseFrame::pfc(0xff, PauseFrame::kQuantaMax)));
  Bytes bad = pause_bytes(PauseFrame::pfc(0xff, PauseFrame::kQuantaMax));
  bad[15] = 7;
  net.send(1, bad);
  net.send(0, net.frame(0, 50000));
  net.run(Duration::ms(1));
  EXPECT_EQ(net.inbox(1).size(), 1u);
  EXPECT_EQ(net.fabric->counters(1).pause_ignored, 1u);
  EXPECT_EQ(net.fabric->counters(1).drop_bad_pause, 1u);
  EXPECT_EQ(net.fabric->counters(1).frames_in, 2u);
}

std::string error_of(const std::string& keys) {
  FabricConfig config;
  return parse_fabric(slow_path(keys), "f.toml", &config).text;
}

TEST(FabricPfc, KeysAreThoseOfTheSimulatorAndCheckedAsThere) {
  FabricConfig config;
  ASSERT_EQ(parse_fabric(slow_path("pfc = true\nlossless_priorities = [3, 0]\npause_bytes = 9000\n"
                                   "switch_watchdog_us = 100_000\nswitch_buffer_kb = 5000\n"
                                   "nic_watchdog_us = 200_000\n"),
                         "f.toml", &config)
                .text,
            "");
  EXPECT_TRUE(config.topology.pfc.on);
  EXPECT_EQ(config.lossless_priorities, 0x09);
  EXPECT_EQ(config.topology.pfc.pause_bytes, 9000u);
  EXPECT_EQ(config.topology.switch_buffer_bytes, 5'000'000u);
  EXPECT_EQ(config.nic_watchdog, SimSpan::ms(200));
  EXPECT_EQ(config.switch_watchdog, SimSpan::ms(100));
  EXPECT_EQ(error_of("buffer_alpha = 0.5\nswitch_buffer_kb = 5000\n"), "") << "without PFC, too";
  for (const char* keys :
       {"pause_bytes = 9000\n", "lossless_priorities = [3]\n", "switch_watchdog_us = 5\n",
        "pfc = true\nlossless_priorities = []\n", "pfc = true\nlossless_priorities = [8]\n",
        "pfc = true\nswitch_buffer_kb = 0\n", "pfc = true\npriority = \"pcp\"\n",
        "pfc = true\nswitch_buffer_kb = 10\n",
        "pfc = true\nswitch_buffer_kb = 9000\nswitch_buffer_bytes = 9\n"}) {
    EXPECT_NE(error_of(keys), "") << keys;
  }
}

}  // namespace
}  // namespace mprdma::switchsim
