// Windows that follow the network (D16).
#include "transport/core/follow_network.hpp"

#include <gtest/gtest.h>

#include "tests/unit/transport/stream/lone_sender.hpp"

namespace mprdma::transport {
namespace {

Params on_link(uint32_t mbps) {
  Params p = params_with(54, 108);
  p.link_mbps = mbps;
  p.window_slots = slots_for_link(p);
  return p;
}

TEST(FollowNetwork, TheReceiveWindowHoldsTwiceWhatTheLinkCarriesInTheLongestRoundTrip) {
  EXPECT_EQ(bandwidth_delay(40'000, Duration::us(12), 1024), 53U) << "the paper's testbed";
  EXPECT_EQ(on_link(1'000).window_slots, 256U) << "not less than is configured";
  EXPECT_EQ(on_link(10'000).window_slots, 256U);
  EXPECT_EQ(on_link(40'000).window_slots, 512U);
  EXPECT_EQ(on_link(100'000).window_slots, 2048U);
  EXPECT_EQ(on_link(1'000'000).window_slots, 2048U) << "the most that there is";
  EXPECT_EQ(on_link(0).window_slots, 256U) << "of an unknown link";
  Params fixed = on_link(0);
  fixed.link_mbps = 100'000;
  fixed.window_rtt = Duration::zero();
  EXPECT_EQ(slots_for_link(fixed), 256U) << "switched off";
}

// Sends and acknowledges so many round trips of whole windows.
void exchange(Sender& s, int rounds, uint8_t flags = 0) {
  int done = s.index(s.sender.una());
  for (int round = 0; round < rounds; ++round) {
    const int sent = s.send();
    s.now += s.rtt;
    for (int i = 0; i < sent; ++i, ++done) s.ack(done + 1, done, flags);
  }
}

TEST(FollowNetwork, TheWindowDoublesToTheBandwidthDelayProductThatWasMeasured) {
  Sender s(on_link(100'000));
  s.rtt = Duration::us(50);  // 556 packets
  exchange(s, 1);
  EXPECT_LT(s.sender.window().packets(), 60U) << "nothing is known in the first round trip";
  exchange(s, 1);
  EXPECT_GT(s.sender.window().packets(), 100U);
  exchange(s, 3);
  EXPECT_GE(s.sender.window().packets(), 556U);
  exchange(s, 3);
  EXPECT_LT(s.sender.window().packets(), 570U) << "from there on a packet in a round trip";
  exchange(s, 600);
  EXPECT_EQ(s.sender.window().packets(), 1112U) << "two of them are the most";
}

// Two products do not fit the largest L there, and one does.
TEST(FollowNetwork, TheWindowDoublesToOneProductWhereTwoAreAboveTheLargest) {
  Sender s(on_link(100'000));
  s.rtt = Duration::us(100);  // 1112 packets
  exchange(s, 8);
  EXPECT_GE(s.sender.window().packets(), 1112U);
  EXPECT_LE(s.sender.window().packets(), 1120U);
}

TEST(FollowNetwork, AShorterRoundTripCountsWhereTheWindowStaysTheLargest) {
  Sender s(on_link(100'000));
  s.rtt = Duration::us(150);  // 1668 packets
  exchange(s, 2);             // the second round trip knows the first
  s.rtt = Duration::us(100);  // 1112
  exchange(s, 12);
  EXPECT_GE(s.sender.window().packets(), 1112U);
  EXPECT_LE(s.sender.window().packets(), 1130U);
}

// Acknowledgements come as fast as the wire sends, so that each one finds more credits that wait.
TEST(FollowNetwork, TheWireDoesNotEndTheDoubling) {
  Params p = on_link(100'000);
  p.limit_growth = true;
  p.path_policy = PathPolicy::kAckClocked;
  Sender s(p);
  s.rtt = Duration::us(50);
  int done = 0;
  int flight = s.send();
  for (int round = 0; round < 6; ++round) {
    s.now += s.rtt;
    int sent = 0;
    for (int i = 0; i < flight; ++i, ++done) {
      s.ack(done + 1, done);
      s.now += Duration::ns(90);
      sent += s.send(1);
    }
    flight = sent + s.send();  // the wire takes the rest, until the next acknowledgement comes
  }
  EXPECT_GE(s.sender.window().packets(), 550U);
}

TEST(FollowNetwork, TheFirstMarkEndsTheDoubling) {
  Sender s(on_link(100'000));
  s.rtt = Duration::us(50);
  exchange(s, 2);
  exchange(s, 1, wire::kMpAckEce);
  const uint32_t window = s.sender.window().packets();
  ASSERT_LT(window, 200U);
  exchange(s, 3);
  EXPECT_LE(s.sender.window().packets(), window + 3);
}

TEST(FollowNetwork, TheWindowStaysWithinTheOneThatWasAgreed) {
  Params p = on_link(100'000);
  p.window_slots = 256;
  Sender s(p);
  s.rtt = Duration::us(50);
  exchange(s, 300);
  EXPECT_EQ(s.sender.window().packets(), 256U);
}

TEST(FollowNetwork, AShortNetworkChangesNothing) {
  Sender s(on_link(40'000));
  s.rtt = Duration::us(5);
  exchange(s, 100);
  EXPECT_EQ(s.sender.window().packets(), 108U);
  Params off = on_link(100'000);
  off.window_rtt = Duration::zero();
  Sender t(off);
  t.rtt = Duration::us(50);
  exchange(t, 100);
  EXPECT_EQ(t.sender.window().packets(), 108U);
}

// The window that a timeout saved knows nothing of what was measured since.
TEST(FollowNetwork, ATimeoutThatIsUndoneKeepsWhatTheNetworkAllows) {
  Sender s(on_link(100'000));
  s.rtt = Duration::us(50);
  s.send();
  s.now += s.rtt;
  s.ack(1, 0);
  s.now = s.sender.next_deadline(true);
  s.sender.on_deadline(s.now);
  ASSERT_EQ(s.sender.timeouts_in_a_row(), 1U);
  s.ack(2, 1);
  ASSERT_EQ(s.counters.timeouts_undone, 1U);
  int done = 2;
  for (; done < 54; ++done) s.ack(done + 1, done);
  exchange(s, 700);
  EXPECT_EQ(s.sender.window().packets(), 1112U);
}

// A queue on the way makes the first round trips long; a shorter one shows the network as it is.
TEST(FollowNetwork, TheLeastRoundTripCounts) {
  Sender s(on_link(100'000));
  s.rtt = Duration::us(50);
  exchange(s, 600);
  s.rtt = Duration::us(20);
  exchange(s, 30);
  EXPECT_EQ(s.sender.window().packets(), 444U);
  s.rtt = Duration::us(50);
  exchange(s, 30);
  EXPECT_EQ(s.sender.window().packets(), 444U);
}

// What a distance of PSNs says of a path depends on how many packets are in flight.
TEST(FollowNetwork, PathsAreJudgedByDistancesInProportion) {
  Params p = on_link(100'000);
  p.loss_trigger = 64;
  Sender s(p);
  s.rtt = Duration::us(50);
  exchange(s, 12);
  const int first = s.index(s.sender.una());
  ASSERT_GT(s.send(), 400);
  s.now += s.rtt;
  for (int i = 1; i < 300; ++i) s.ack(first, first + i);
  EXPECT_EQ(s.counters.retransmitted_trigger, 0U) << "64 of 108, 659 of 1112";
}

}  // namespace
}  // namespace mprdma::transport
