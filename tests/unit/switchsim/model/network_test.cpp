// Determinism, timers, pool.
#include "switchsim/model/network.hpp"

#include <gtest/gtest.h>

#include "tests/unit/switchsim/model/support.hpp"

namespace mprdma::switchsim {
namespace {

// Random traffic with everything that draws: ECMP, RED, loss, faults.
class Traffic {
 public:
  explicit Traffic(uint64_t seed) : run(config(seed)), prng_(7) {}

  void round() {
    const auto hosts = run.net.topology().hosts;
    for (uint64_t i = prng_.below(30); i > 0; --i) {
      const auto from = static_cast<NodeId>(prng_.below(hosts));
      const auto to = static_cast<NodeId>(prng_.below(hosts));
      run.send(from, to, static_cast<uint32_t>(prng_.range(64, 1500)), count_++, prng_.next_u64());
    }
    if (prng_.chance(1, 10)) {
      const auto link = static_cast<LinkId>(prng_.below(run.net.topology().links.size()));
      run.net.set_link_up(link, !run.net.link_up(link));
    }
    run.net.run_until(run.net.now() + SimSpan::ns(static_cast<int64_t>(prng_.below(3000))));
  }

  Recorder run;

 private:
  static NetworkConfig config(uint64_t seed) {
    PortConfig port = port_of(40, SimSpan::us(1));
    port.red = {2000, 20'000, 800'000, false};
    port.loss_ppm = 5000;
    NetworkConfig result = config_of(leaf_spine(4, 4, 4, port, port), seed);
    result.reroute = true;
    result.reroute_after = SimSpan::us(5);
    return result;
  }

  Prng prng_;
  uint32_t count_ = 0;
};

constexpr int kRounds = 1000;

TEST(Network, TheSameSeedGivesTheSameArrivalsAndAnotherSeedOthers) {
  Traffic first(1);
  Traffic again(1);
  Traffic other(2);
  for (int i = 0; i < kRounds; ++i) first.round();
  for (int i = 0; i < kRounds; ++i) again.round();
  for (int i = 0; i < kRounds; ++i) other.round();
  EXPECT_GT(first.run.arrivals.size(), 5000U);
  EXPECT_EQ(first.run.arrivals, again.run.arrivals);
  EXPECT_EQ(first.run.dropped, again.run.dropped);
  EXPECT_NE(first.run.arrivals, other.run.arrivals);
}

TEST(Network, TwoNetworksSideBySideDoNotInfluenceEachOther) {
  Traffic alone(1);
  for (int i = 0; i < kRounds; ++i) alone.round();
  Traffic one(1);
  Traffic two(2);
  for (int i = 0; i < kRounds; ++i) {
    one.round();
    two.round();
  }
  EXPECT_EQ(one.run.arrivals, alone.run.arrivals);
}

TEST(Network, BytesAreConservedAndNoPacketIsForgottenWhateverHappens) {
  Traffic traffic(3);
  for (int i = 0; i < kRounds; ++i) {
    traffic.round();
    traffic.run.net.check();
  }
  traffic.run.net.run_until(SimTime::never());
  traffic.run.net.check();
  EXPECT_EQ(traffic.run.net.packets_in_use(), 0U);
}

// The same things happen at the same times, in small steps or in one go.
TEST(Network, HowTimeIsPassedInMakesNoDifference) {
  Recorder stepped(config_of(chain(2, port_of(40, SimSpan::us(1)))));
  Recorder whole(config_of(chain(2, port_of(40, SimSpan::us(1)))));
  for (Recorder* run : {&stepped, &whole}) {
    for (uint32_t i = 0; i < 20; ++i) run->send(0, 1, 1000, i);
  }
  for (int64_t ns = 0; ns <= 20'000; ns += 37) {
    stepped.net.run_until(SimTime() + SimSpan::ns(ns));
    EXPECT_EQ(stepped.net.now(), SimTime() + SimSpan::ns(ns));
  }
  whole.net.run_until(SimTime() + SimSpan::us(20));
  EXPECT_EQ(stepped.arrivals, whole.arrivals);
  EXPECT_EQ(whole.net.now(), SimTime() + SimSpan::us(20));
}

TEST(Network, EventsOfTheSameInstantAreHandledInTheOrderTheyWereCaused) {
  // Two hosts send at the same instant to a third: their packets reach the switch at once.
  Recorder run(config_of(star(3, port_of(40, SimSpan::us(1)))));
  run.send(1, 0, 1000, 10);
  run.send(2, 0, 1000, 20);
  run.run_checked();
  run.send(2, 0, 1000, 21);
  run.send(1, 0, 1000, 11);
  run.run_checked();
  ASSERT_EQ(run.arrivals.size(), 4U);
  EXPECT_EQ(run.arrivals[0].contents, 10U);
  EXPECT_EQ(run.arrivals[1].contents, 20U);
  EXPECT_EQ(run.arrivals[2].contents, 21U);
  EXPECT_EQ(run.arrivals[3].contents, 11U);
}

TEST(Network, ThePoolHandsOutWhatItHasAndNoMore) {
  NetworkConfig config = config_of(chain(1, port_of(40, SimSpan::us(1))));
  config.packets_max = 3;
  Recorder run(config);
  run.send(0, 1, 1000);
  run.send(0, 1, 1000);
  const PacketId last = run.net.allocate();
  EXPECT_NE(last, kNoPacket);
  EXPECT_EQ(run.net.allocate(), kNoPacket);
  EXPECT_EQ(run.net.packets_in_use(), 3U);
  run.net.release(last);
  const PacketId again = run.net.allocate();
  EXPECT_NE(again, kNoPacket);
  run.net.release(again);
  run.run_checked();
  EXPECT_EQ(run.arrivals.size(), 2U);
  EXPECT_EQ(run.net.packets_in_use(), 0U);
}

TEST(Network, APacketFromThePoolIsAsNew) {
  Recorder run(config_of(chain(1, port_of(40, SimSpan::us(1)))));
  const PacketId id = run.make(1, 1000, 7);
  run.net.packet(id).ce = true;
  run.net.release(id);
  const PacketId again = run.net.allocate();
  EXPECT_EQ(again, id);
  EXPECT_FALSE(run.net.packet(again).ce);
  EXPECT_EQ(run.net.packet(again).contents, 0U);
}

class Timers : public testing::Test {
 protected:
  static NetworkConfig config() {
    NetworkConfig result = config_of(chain(1, port_of(40, SimSpan::us(1))));
    result.timers = 4;
    return result;
  }
  static SimTime us(int64_t count) { return SimTime() + SimSpan::us(count); }
  Recorder run_{config()};
};

TEST_F(Timers, ExpireOnceAtTheirTime) {
  run_.net.set_timer(2, us(10));
  run_.net.set_timer(1, us(5));
  run_.net.run_until(us(100'000));
  EXPECT_EQ(run_.timers, (std::vector<Recorder::Expiry>{{1, us(5)}, {2, us(10)}}));
}

TEST_F(Timers, MovedLaterOrEarlierExpireAtTheNewTimeOnly) {
  run_.net.set_timer(0, us(10));
  run_.net.set_timer(0, us(30));
  run_.net.set_timer(1, us(10));
  run_.net.set_timer(1, us(3));
  run_.net.set_timer(2, us(5000));  // far beyond the wheel
  run_.net.set_timer(2, us(20));
  run_.net.run_until(us(100'000));
  EXPECT_EQ(run_.timers, (std::vector<Recorder::Expiry>{{1, us(3)}, {2, us(20)}, {0, us(30)}}));
}

TEST_F(Timers, CancelledNeverExpireAndNothingIsLeftPending) {
  run_.net.set_timer(0, us(10));
  run_.net.set_timer(0, SimTime::never());
  run_.net.set_timer(1, us(10));
  run_.net.set_timer(1, us(20));
  run_.net.set_timer(1, SimTime::never());
  EXPECT_TRUE(run_.net.next_event().is_never());
  EXPECT_FALSE(run_.net.step());
  EXPECT_TRUE(run_.timers.empty());
}

TEST_F(Timers, InThePastExpireNow) {
  run_.net.run_until(us(50));
  run_.net.set_timer(3, us(10));
  EXPECT_EQ(run_.net.next_event(), us(50));
  run_.net.run_until(us(50));
  EXPECT_EQ(run_.timers, (std::vector<Recorder::Expiry>{{3, us(50)}}));
}

}  // namespace
}  // namespace mprdma::switchsim
