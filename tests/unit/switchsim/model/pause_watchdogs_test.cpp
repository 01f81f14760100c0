// Watchdogs look at hosts that pause; what they do to a host is in what the network does then.
#include "switchsim/model/pause_watchdogs.hpp"

#include <gtest/gtest.h>

#include "switchsim/model/network.hpp"
#include "tests/unit/switchsim/model/support.hpp"

namespace mprdma::switchsim {
namespace {

constexpr uint32_t kBytes = 1000;
constexpr NodeId kMad = 1;
constexpr SimSpan kPatience = SimSpan::us(1000);

// Host 0 sends to host 1, which pauses.
class Watched {
 public:
  explicit Watched(const WatchdogPatience& patience) : run_(config()), dogs_(patience, run_.net) {}

  void pause(bool pausing) { run_.net.set_host_pausing(kMad, pausing); }
  void send(uint8_t priority = kLosslessPriority) {
    const PacketId id = run_.make(kMad, kBytes);
    run_.net.packet(id).priority = priority;
    run_.net.send(0, id);
  }
  void wait(int64_t us) {
    for (const SimTime end = run_.net.now() + SimSpan::us(us); run_.net.now() < end;) {
      run_.net.run_until(std::min(end, dogs_.next()));
      dogs_.look();
    }
  }
  [[nodiscard]] const PauseWatchdogs<Recorder>& dogs() const { return dogs_; }
  [[nodiscard]] size_t arrived() const { return run_.arrivals.size(); }

 private:
  static NetworkConfig config() {
    Topology topology = chain(1, port_of(40, SimSpan::us(1)));
    topology.pfc.on = true;
    topology.pfc.pause_bytes = 1'000'000;
    topology.pfc.mtu_bytes = kBytes;
    return config_of(topology);
  }

  Recorder run_;
  PauseWatchdogs<Recorder> dogs_;
};

TEST(PauseWatchdogsTest, APauseThatLastsIsEndedAtTheNic) {
  Watched watched({.nic = kPatience, .at_switch = {}});
  watched.pause(true);
  watched.send();
  watched.wait(900);
  EXPECT_EQ(watched.arrived(), 0U);
  watched.wait(500);
  EXPECT_EQ(watched.dogs().nic_trips(), 1U);
  EXPECT_EQ(watched.arrived(), 1U);
}

TEST(PauseWatchdogsTest, ManyShortPausesAreNotOne) {
  Watched watched({.nic = kPatience, .at_switch = kPatience});
  for (int i = 0; i < 100; ++i) {
    watched.pause(true);
    watched.send();
    watched.wait(62);  // so that each look, one in 250 us, sees a pause
    watched.pause(false);
    watched.wait(1);
  }
  EXPECT_EQ(watched.dogs().nic_trips() + watched.dogs().switch_trips(), 0U);
}

TEST(PauseWatchdogsTest, TheSwitchGivesTheHostUpAndTakesItBackWhenItHasNotPausedForAsLong) {
  Watched watched({.nic = {}, .at_switch = kPatience});
  watched.pause(true);
  watched.send();
  watched.wait(1500);
  EXPECT_TRUE(watched.dogs().given_up(kMad));
  watched.pause(false);
  watched.wait(500);
  watched.send();
  watched.wait(100);
  EXPECT_EQ(watched.arrived(), 0U) << "the pause may come back";
  watched.wait(1000);
  EXPECT_FALSE(watched.dogs().given_up(kMad));
  watched.send();
  watched.wait(100);
  EXPECT_EQ(watched.arrived(), 1U);
}

TEST(PauseWatchdogsTest, TheSwitchGivesUpNoHostThatStopsNobody) {
  Watched watched({.nic = {}, .at_switch = kPatience});
  watched.pause(true);
  watched.send(kLossyPriority);
  watched.wait(5000);
  EXPECT_EQ(watched.dogs().switch_trips(), 0U);
  EXPECT_EQ(watched.arrived(), 1U) << "what is not lossless is not stopped";
}

}  // namespace
}  // namespace mprdma::switchsim
