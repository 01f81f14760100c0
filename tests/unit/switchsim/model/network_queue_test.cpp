// Queues: waiting, dropped and marked packets.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "switchsim/model/network.hpp"
#include "tests/unit/switchsim/model/support.hpp"

namespace mprdma::switchsim {
namespace {

constexpr uint32_t kBytes = 1000;
constexpr PortId kNic = 0;

std::vector<uint32_t> contents(const std::vector<Arrival>& arrivals) {
  std::vector<uint32_t> result;
  for (const Arrival& arrival : arrivals) result.push_back(arrival.contents);
  return result;
}

std::vector<uint32_t> marked(const std::vector<Arrival>& arrivals) {
  std::vector<uint32_t> result;
  for (const Arrival& arrival : arrivals) {
    if (arrival.ce) result.push_back(arrival.contents);
  }
  return result;
}

TEST(NetworkQueue, TailDropKeepsExactlyWhatFits) {
  PortConfig port = port_of(40, SimSpan::us(1));
  port.queue_bytes_max = 5 * kBytes;
  Recorder run(config_of(chain(1, port)));
  for (uint32_t i = 0; i < 10; ++i) run.send(0, 1, kBytes, i);
  EXPECT_EQ(run.net.queue_bytes(kNic), 5 * kBytes);
  run.run_checked();
  EXPECT_EQ(contents(run.arrivals), (std::vector<uint32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(run.dropped, (std::vector<uint32_t>{6, 7, 8, 9}));
  EXPECT_EQ(run.net.counters(kNic).drop_queue, 4U);
  EXPECT_EQ(run.net.counters(kNic).packets, 6U);
  EXPECT_EQ(run.net.queue_bytes_peak(kNic), 5 * kBytes);
  EXPECT_EQ(run.net.packets_in_use(), 0U);
}

TEST(NetworkQueue, OneByteTooFewDropsAndASmallerPacketStillFits) {
  PortConfig port = port_of(40, SimSpan::us(1));
  port.queue_bytes_max = 2 * kBytes - 1;
  Recorder run(config_of(chain(1, port)));
  for (uint32_t i = 0; i < 3; ++i) run.send(0, 1, kBytes, i);
  run.send(0, 1, kBytes - 1, 3);
  run.run_checked();
  EXPECT_EQ(contents(run.arrivals), (std::vector<uint32_t>{0, 1, 3}));
}

TEST(NetworkQueue, AnIdlePortTakesAPacketLongerThanItsQueue) {
  PortConfig port = port_of(40, SimSpan::us(1));
  port.queue_bytes_max = 0;
  Recorder run(config_of(chain(3, port)));
  run.send(0, 1, kBytes);
  run.run_checked();
  EXPECT_EQ(run.arrivals.size(), 1U);
}

TEST(NetworkQueue, FlowsThatMeetStayInOrderAndBytesAreConserved) {
  PortConfig port = port_of(40, SimSpan::us(1));
  port.queue_bytes_max = 20'000;
  Recorder run(config_of(star(6, port)));
  Prng prng(3);
  constexpr uint32_t kPackets = 40;
  for (uint32_t i = 0; i < kPackets; ++i) {
    for (NodeId from = 1; from < 6; ++from) {
      run.send(from, 0, static_cast<uint32_t>(prng.range(64, 1500)), from * 1000 + i);
    }
  }
  run.run_checked();
  std::vector<uint32_t> last(6);
  for (const Arrival& arrival : run.arrivals) {
    EXPECT_GE(arrival.contents % 1000, last[arrival.contents / 1000]);
    last[arrival.contents / 1000] = arrival.contents % 1000;
  }
  EXPECT_EQ(run.arrivals.size() + run.dropped.size(), 5 * kPackets);
  EXPECT_GT(run.net.counters(1).drop_queue, 0U);  // at the port to host 0: the test means something
}

TEST(NetworkQueue, TheSharedBufferLimitsAllPortsOfASwitchTogether) {
  Topology topology = star(6, port_of(40, SimSpan::us(1)));
  topology.switch_buffer_bytes = 4 * kBytes;
  Recorder run(config_of(topology));
  // Two ports of the switch, 1 (to host 0) and 3 (to host 1), with two senders each.
  for (uint32_t i = 0; i < 20; ++i) {
    for (const NodeId from : {2U, 3U}) run.send(from, 0, kBytes, i);
    for (const NodeId from : {4U, 5U}) run.send(from, 1, kBytes, i);
  }
  run.run_checked();
  EXPECT_EQ(run.net.buffer(6).bytes_peak(), 4 * kBytes);
  EXPECT_EQ(run.net.buffer(6).bytes(), 0U);
  EXPECT_LE(run.net.queue_bytes_peak(1) + run.net.queue_bytes_peak(3), 8 * kBytes);
  const uint64_t drops = run.net.counters(1).drop_buffer + run.net.counters(3).drop_buffer;
  // Each pair offers 40 packets in the time of 20; the first of a port leaves at once.
  EXPECT_EQ(run.arrivals.size() + drops, 80U);
  EXPECT_GE(drops, 30U);
  EXPECT_GT(run.net.counters(1).drop_buffer, 0U);
  EXPECT_GT(run.net.counters(3).drop_buffer, 0U);
}

// A burst of ten: packet 0 leaves at once, packet i leaves 9 - i behind it, and found i - 1.
std::vector<uint32_t> marks_of_burst(bool on_enqueue, bool ect = true) {
  PortConfig port = port_of(40, SimSpan::us(1));
  Topology topology = chain(1, port);
  topology.links[0].ab.red = {3 * kBytes, 3 * kBytes, 1'000'000, on_enqueue};
  Recorder run(config_of(topology));
  for (uint32_t i = 0; i < 10; ++i) {
    const PacketId id = run.make(1, kBytes, i);
    run.net.packet(id).ect = ect;
    run.net.send(0, id);
  }
  run.run_checked();
  EXPECT_EQ(run.arrivals.size(), 10U);
  EXPECT_EQ(run.net.counters(kNic).marked, marked(run.arrivals).size());
  return marked(run.arrivals);
}

TEST(NetworkQueue, AStepMarksByTheQueueThatAPacketLeavesBehind) {
  EXPECT_EQ(marks_of_burst(false), (std::vector<uint32_t>{1, 2, 3, 4, 5}));
}

TEST(NetworkQueue, OnEnqueueAStepMarksByTheQueueThatAPacketFinds) {
  EXPECT_EQ(marks_of_burst(true), (std::vector<uint32_t>{5, 6, 7, 8, 9}));
}

TEST(NetworkQueue, APacketThatIsNotEcnCapableIsNeitherMarkedNorDroppedByRed) {
  EXPECT_TRUE(marks_of_burst(false, false).empty());
  EXPECT_TRUE(marks_of_burst(true, false).empty());
}

TEST(Red, ProbabilityRisesFromKminToPmaxAtKmaxAndIsOneAbove) {
  const RedConfig red{20'000, 100'000, 800'000, false};
  Prng prng(5);
  EXPECT_FALSE(red_marks(red, 20'000, prng));
  for (const uint64_t queue : {21'000U, 30'000U, 60'000U, 99'000U, 100'000U}) {
    constexpr int kDraws = 400'000;
    int marks = 0;
    for (int i = 0; i < kDraws; ++i) marks += red_marks(red, queue, prng) ? 1 : 0;
    const double p = 0.8 * static_cast<double>(queue - 20'000) / 80'000;
    EXPECT_NEAR(marks, p * kDraws, 4 * std::sqrt(kDraws * p * (1 - p))) << queue;
  }
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(red_marks(red, 100'001, prng));
}

TEST(Red, AStepDrawsNothing) {
  const RedConfig step{20'000, 20'000, 1'000'000, false};
  Prng prng(5);
  Prng untouched(5);
  EXPECT_FALSE(red_marks(step, 20'000, prng));
  EXPECT_TRUE(red_marks(step, 20'001, prng));
  EXPECT_EQ(prng.next_u64(), untouched.next_u64());
}

// Poisson arrivals at a port of fixed service time: the mean wait of M/D/1 in service times is
// rho / (2 (1 - rho)).
class PoissonHost {
 public:
  PoissonHost(const NetworkConfig& config, double rho, int packets)
      : net(config, *this), left_(packets), prng_(17) {
    service_ps_ = config.topology.links[0].ab.rate.time_of(kBytes).count_ps();
    mean_gap_ps_ = static_cast<double>(service_ps_) / rho;
    net.set_timer(0, SimTime());
  }
  void on_packet(NodeId, PacketId id) {
    const SimTime sent = sent_[net.packet(id).contents % kSlots];
    waited_ps += (net.now() - sent).count_ps() - 2 * service_ps_;
    ++arrived;
    net.release(id);
  }
  bool pull(NodeId) { return false; }
  void on_timer(TimerId) {
    const PacketId id = net.allocate();
    NetPacket& packet = net.packet(id);
    packet.destination = 1;
    packet.wire_bytes = kBytes;
    packet.contents = next_++;
    sent_[packet.contents % kSlots] = net.now();
    net.send(0, id);
    if (--left_ == 0) return;
    const double uniform = (static_cast<double>(prng_.next_u64() >> 11) + 1) * 0x1p-53;
    const auto gap = static_cast<int64_t>(-std::log(uniform) * mean_gap_ps_);
    net.set_timer(0, net.now() + SimSpan::ps(gap));
  }
  [[nodiscard]] double mean_wait() const {
    return static_cast<double>(waited_ps) / static_cast<double>(arrived * service_ps_);
  }

  static constexpr uint32_t kSlots = 4096;
  Network<PoissonHost> net;
  int64_t waited_ps = 0;
  int64_t arrived = 0;

 private:
  int left_;
  uint32_t next_ = 0;
  Prng prng_;
  int64_t service_ps_ = 0;
  double mean_gap_ps_ = 0;
  std::vector<SimTime> sent_ = std::vector<SimTime>(kSlots);
};

TEST(NetworkQueue, WaitingTimesAreThoseOfMD1) {
  for (const double rho : {0.3, 0.5, 0.7, 0.9}) {
    NetworkConfig config = config_of(chain(1, port_of(40, SimSpan())));
    config.timers = 1;
    PoissonHost host(config, rho, 400'000);
    host.net.run_until(SimTime::never());
    EXPECT_EQ(host.arrived, 400'000);
    const double expected = rho / (2 * (1 - rho));
    // At a load of 0.9 waits are correlated over hundreds of packets: the mean of this many is
    // known to some 3 %.
    EXPECT_NEAR(host.mean_wait(), expected, (rho < 0.9 ? 0.03 : 0.08) * expected) << rho;
  }
}

}  // namespace
}  // namespace mprdma::switchsim
