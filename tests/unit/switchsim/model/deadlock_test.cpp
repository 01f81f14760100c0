#include "switchsim/model/deadlock.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "switchsim/model/packet_pool.hpp"
#include "switchsim/model/pause.hpp"

namespace mprdma::switchsim {
namespace {

// Three switches in a ring and a host; what waits where is said by hand. Ports: 0, 2 and 4 lead
// round, 6 to the host.
class Ring {
 public:
  Ring() {
    topology_.hosts = 1;
    topology_.switches = 3;
    for (const auto& [a, b] : {std::pair(1U, 2U), {2U, 3U}, {3U, 1U}, {1U, 0U}}) {
      LinkConfig link;
      link.a = a;
      link.b = b;
      topology_.links.push_back(link);
    }
  }
  // So many bytes that came by `ingress` wait in front of `port`.
  void wait(PortId ingress, PortId port, uint32_t bytes, uint8_t priority = kLosslessPriority) {
    NetPacket packet;
    packet.priority = priority;
    packet.ingress = ingress;
    packet.wire_bytes = bytes;
    waiting_[port].push_back(packet);
  }
  void pause(PortId port) { stopped_.insert(port); }
  // A threshold of what is free of so many bytes in each switch, in place of 1000 bytes.
  void share(uint64_t bytes) { memory_ = bytes; }

  [[nodiscard]] const Topology& topology() const { return topology_; }
  [[nodiscard]] bool stopped(PortId port) const { return stopped_.contains(port); }
  [[nodiscard]] static bool lossless(const NetPacket& packet) {
    return packet.priority == kLosslessPriority;
  }
  [[nodiscard]] static uint64_t shared_of(PortId /*port*/, uint64_t stuck) { return stuck; }
  [[nodiscard]] bool would_resume(PortId /*port*/, uint64_t stuck, uint64_t shared) const {
    return stuck <= (memory_ == 0 ? 1000 : memory_ - shared);
  }
  template <class Look>
  void for_each_waiting(PortId port, Look&& look) const {
    const auto found = waiting_.find(port);
    if (found == waiting_.end()) return;
    for (const NetPacket& packet : found->second) look(packet);
  }

 private:
  Topology topology_;
  std::set<PortId> stopped_;
  uint64_t memory_ = 0;
  std::map<PortId, std::vector<NetPacket>> waiting_;
};

Ring full_ring() {
  Ring ring;
  for (const PortId port : {0U, 2U, 4U}) ring.pause(port);
  ring.wait(0, 2, 2000);
  ring.wait(2, 4, 2000);
  ring.wait(4, 0, 2000);
  return ring;
}

TEST(Deadlock, IsACircleOfPortsThatWaitForEachOther) {
  EXPECT_EQ(DeadlockSearch::find(full_ring()), (std::vector<PortId>{0, 2, 4}));
}

TEST(Deadlock, WhatIsNotLosslessDoesNotCount) {
  Ring ring;
  for (const PortId port : {0U, 2U, 4U}) ring.pause(port);
  ring.wait(0, 2, 2000);
  ring.wait(2, 4, 2000);
  ring.wait(4, 0, 2000, kLossyPriority);
  EXPECT_TRUE(DeadlockSearch::find(ring).empty());
}

TEST(Deadlock, AThresholdOfWhatIsFreeCountsAllThatIsStuck) {
  Ring ring = full_ring();
  ring.share(5000);
  EXPECT_TRUE(DeadlockSearch::find(ring).empty()) << "2000 bytes of 5000 leave 3000";
  Ring fuller = ring;
  // Of ingresses that pause nobody.
  fuller.wait(7, 0, 1001);
  fuller.wait(3, 2, 1001);
  fuller.wait(5, 4, 1001);
  EXPECT_EQ(DeadlockSearch::find(fuller), (std::vector<PortId>{0, 2, 4})) << "3001 leave 1999";
  ring.share(3999);
  EXPECT_EQ(DeadlockSearch::find(ring), (std::vector<PortId>{0, 2, 4})) << "2000 leave 1999";
}

TEST(Deadlock, ThereIsNoneWhereOnePortIsNotPaused) {
  Ring ring;
  ring.pause(0);
  ring.pause(2);
  ring.wait(0, 2, 2000);
  ring.wait(2, 4, 2000);
  ring.wait(4, 0, 2000);
  EXPECT_TRUE(DeadlockSearch::find(ring).empty());
}

TEST(Deadlock, WhatCanLeaveElsewhereEndsThePause) {
  Ring ring;
  for (const PortId port : {0U, 2U, 4U}) ring.pause(port);
  ring.wait(0, 2, 2000);
  ring.wait(2, 4, 2000);
  ring.wait(4, 0, 1000);  // the resume threshold: the rest goes to the host
  ring.wait(4, 6, 2000);
  EXPECT_TRUE(DeadlockSearch::find(ring).empty());
}

TEST(Deadlock, AHostThatPausesIsNone) {
  Ring ring;
  ring.pause(4);
  ring.pause(6);
  ring.wait(4, 6, 2000);
  EXPECT_TRUE(DeadlockSearch::find(ring).empty());
}

TEST(Deadlock, NothingPausedIsNone) {
  EXPECT_TRUE(DeadlockSearch::find(Ring()).empty());
}

}  // namespace
}  // namespace mprdma::switchsim
