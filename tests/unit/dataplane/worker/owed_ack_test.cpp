// An acknowledgement that waits for the application's answer leaves with it, and before it: so a
// request is complete at its poster before the answer to it is there, as on an adapter. Programs
// that share one completion channel between their queues rely on it.
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/dataplane/engine/engine_host.hpp"
#include "wire/frame.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Bytes;
using testing::Host;
using testing::HostPair;
using wire::PacketStream;

enum class TakenBy { kPost, kBurst };  // who takes the posted answer from the ring

class OwedAck : public ::testing::TestWithParam<TakenBy> {
 protected:
  void SetUp() override {
    pair.settle();
    pair.b.worker->set_ack_patience(Duration::ms(1));
    for (int i = 0; i < 4; ++i) {  // until b's answers are expected
      ask();
      answer();
      pair.settle();
    }
    pair.wire->on_frame = [this](int side, const Bytes& frame) {
      wire::DecodedFrame decoded;
      if (side == 1 && decode_frame(frame, decoded, false) == wire::DropReason::kNone)
        from_b.push_back(decoded.packet.info().stream);
      return true;
    };
  }
  void post_write(Host& host, testing::HostQp& qp, const testing::HostMr& from,
                  const testing::HostMr& to) {
    auto& wqe = host.begin_send(qp, MPRDMA_ABI_WRITE, 1, {{from.addr(), 8, from.key}});
    wqe.remote_addr = to.addr();
    wqe.rkey = to.key;
    host.end_send(qp);
  }
  // A WRITE of a arrives at b.
  void ask() {
    post_write(pair.a, *pair.qp_a, *pair.mr_a, *pair.mr_b);
    pair.step();
  }
  // Posted at b at the same time as ask().
  void answer() {
    post_write(pair.b, *pair.qp_b, *pair.mr_b, *pair.mr_a);
    if (GetParam() == TakenBy::kPost) {
      pair.b.worker->run_sends(pair.qp_b->doorbell, pair.b.now);
    } else {
      pair.b.worker->run(pair.b.now);
    }
  }

  HostPair pair;
  std::vector<PacketStream> from_b;
};

TEST_P(OwedAck, LeavesBeforeTheAnswer) {
  ask();
  ASSERT_TRUE(pair.b.worker->owes_acks());
  ASSERT_TRUE(from_b.empty());
  answer();
  EXPECT_EQ(from_b, (std::vector{PacketStream::kAck, PacketStream::kRequest}));
  EXPECT_EQ(pair.b.worker->counters().acks_owed_late, 0u);
}

INSTANTIATE_TEST_SUITE_P(WhoeverTakesTheAnswer, OwedAck,
                         ::testing::Values(TakenBy::kPost, TakenBy::kBurst));

}  // namespace
}  // namespace mprdma::dataplane
