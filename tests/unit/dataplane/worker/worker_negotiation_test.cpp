// Two engines agree on the mode of their queue pairs; the work that waits for it is neither lost
// nor stuck.
#include "tests/unit/dataplane/mgmt/negotiation_support.hpp"
#include "wire/frame.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Bytes;
using testing::Host;
using testing::is_mad;
using testing::mad_of;
using testing::Node;
using testing::WorkerNegotiationTest;

TEST_F(WorkerNegotiationTest, TwoOfOursSpeakMpAndPostsWaitForThat) {
  make();
  connect_a();
  connect_b();
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_DEFAULT);
  a->write(*b);
  run(Duration::ms(2));
  EXPECT_TRUE(completed(*a));
  EXPECT_TRUE(arrived());
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_MP);
  EXPECT_EQ(b->mode(), MPRDMA_ABI_MODE_MP);
  EXPECT_LE(a->counters().pair_questions_sent + b->counters().pair_questions_sent, 2u);
}

// While the link is down nobody can be asked; a post does not wait for ever.
TEST_F(WorkerNegotiationTest, PostsDoNotWaitForALinkWithoutEnd) {
  make();
  connect_a();
  a->host.port().up = false;
  a->host.worker->service(a->host.now);
  run(Duration::s(30), Duration::ms(1));
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_DEFAULT) << "without a post nobody is in a hurry";
  a->write(*b);
  run(Duration::s(5), Duration::ms(1));
  mprdma_abi_cqe cqe;
  ASSERT_TRUE(a->cq->poll(&cqe));
  EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_RETRY_EXC_ERR);
}

TEST_F(WorkerNegotiationTest, ALinkThatComesBackInTimeIsAskedOver) {
  make();
  connect_a();
  a->host.port().up = false;
  a->host.worker->service(a->host.now);
  a->write(*b);
  run(Duration::ms(200), Duration::ms(1));
  connect_b();
  a->host.port().up = true;
  a->host.worker->service(a->host.now);
  run(Duration::ms(50));
  EXPECT_TRUE(completed(*a));
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_MP);
}

TEST_F(WorkerNegotiationTest, TheSecondSideNeverWaits) {
  make();
  connect_a();
  run(Duration::ms(2));
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_MP) << "answered for a queue pair that is in RESET";
  connect_b();
  EXPECT_EQ(b->mode(), MPRDMA_ABI_MODE_MP) << "the question told it all";
  EXPECT_EQ(b->counters().pair_questions_sent, 0u);
  a->write(*b);
  run(Duration::ms(2));
  EXPECT_TRUE(completed(*a));
}

TEST_F(WorkerNegotiationTest, TheSmallerWindowIsAgreed) {
  make(nullptr, [](WorkerConfig& config) {
    config.params = transport::Params::mp_figures();  // L = 64
  });
  connect_a();
  connect_b();
  run(Duration::ms(2));
  for (Node* node : {a.get(), b.get()}) {
    const QpContext* qp = node->host.worker->qps().find(Qpn(node->qp->qpn));
    EXPECT_EQ(qp->qp.params().window_slots, 64u);
  }
  a->write(*b);
  run(Duration::ms(2));
  EXPECT_TRUE(completed(*a));
}

// The application's numbers were in range for its own window only.
TEST_F(WorkerNegotiationTest, WhatAQueuePairAsksForFitsIntoThePeersSmallerWindow) {
  make(nullptr, [](WorkerConfig& config) {
    config.params = transport::Params::mp_figures();  // L = 64
  });
  a->qp = a->host.make_qp_with(*a->cq, [](mprdma_abi_create_qp& in) {
    in.transport.initial_window = 100;
    in.transport.reorder_delta = 100;
  });
  connect_a();
  connect_b();
  run(Duration::ms(2));
  const transport::Params& params = a->host.worker->qps().find(Qpn(a->qp->qpn))->qp.params();
  EXPECT_EQ(params.window_slots, 64u);
  EXPECT_EQ(params.initial_window, 64u);
  EXPECT_EQ(params.reorder_delta, 64u);
  a->write(*b);
  run(Duration::ms(2));
  EXPECT_TRUE(completed(*a));
}

// L is the agreed number, whatever the mode that the peer pinned has by itself.
TEST_F(WorkerNegotiationTest, ThePresetOfAPinnedModeDoesNotChangeTheAgreedWindow) {
  make(nullptr, [](WorkerConfig& config) {
    config.agree_modes = false;
    config.params = transport::Params::mp_paper();
    config.params.window_slots = 128;
  });
  connect_a();
  connect_b();
  run(Duration::ms(2));
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_MP_PAPER);
  EXPECT_EQ(a->host.worker->qps().find(Qpn(a->qp->qpn))->qp.params().window_slots, 128u);
}

TEST_F(WorkerNegotiationTest, APinnedModeIsTakenOverByThePeer) {
  make(pin(transport::Params::roce()));
  connect_a();
  connect_b();
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_ROCE);
  a->write(*b);
  run(Duration::ms(2));
  EXPECT_TRUE(completed(*a));
  EXPECT_EQ(b->mode(), MPRDMA_ABI_MODE_ROCE);
  EXPECT_EQ(a->counters().pair_questions_sent, 0u);

  make(nullptr, pin(transport::Params::mp_single()));
  connect_a();
  connect_b();
  a->write(*b);
  run(Duration::ms(2));
  EXPECT_TRUE(completed(*a));
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_MP_SINGLE);
}

TEST_F(WorkerNegotiationTest, TheModeIsThatOfThePresetWhateverItsSwitches) {
  make(pin([] {
    transport::Params params = transport::Params::mp();
    params.recovery = transport::Recovery::kPaper;
    return params;
  }()));
  connect_a();
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_MP);
  make(pin(transport::Params::of(transport::Preset::kMpFigures)));
  connect_a();
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_MP);
}

TEST_F(WorkerNegotiationTest, APinOfOneQueuePairConcernsThatOneOnly) {
  make();
  a->qp = a->host.make_qp_with(
      *a->cq, [](mprdma_abi_create_qp& in) { in.transport.mode = MPRDMA_ABI_MODE_ROCE; });
  connect_a();
  connect_b();
  a->write(*b);
  run(Duration::ms(2));
  EXPECT_TRUE(completed(*a));
  EXPECT_EQ(b->mode(), MPRDMA_ABI_MODE_ROCE);
  const auto qp_a = a->host.make_qp(*a->cq);
  const auto qp_b = b->host.make_qp(*b->cq);
  a->host.connect(*qp_a, Host::ip(1), qp_b->qpn);
  b->host.connect(*qp_b, Host::ip(0), qp_a->qpn);
  run(Duration::ms(2));
  EXPECT_EQ(b->mode(*qp_b), MPRDMA_ABI_MODE_MP);
}

// Its packets come before it can say so, and are no reason to take it for a peer of the standard.
TEST_F(WorkerNegotiationTest, ASideThatIsPinnedToIrnIsFollowed) {
  make();
  bool deaf = true;
  wire->on_frame = [&](int, const Bytes& frame) { return !deaf || !is_mad(frame); };
  a->qp = a->host.make_qp_with(
      *a->cq, [](mprdma_abi_create_qp& in) { in.transport.mode = MPRDMA_ABI_MODE_IRN; });
  connect_a();
  connect_b();
  a->write(*b);
  run(Duration::ms(2));
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_IRN);
  EXPECT_EQ(b->mode(), MPRDMA_ABI_MODE_DEFAULT) << "undecided";
  deaf = false;
  run(Duration::ms(100), Duration::us(100));
  EXPECT_EQ(b->mode(), MPRDMA_ABI_MODE_IRN);
  EXPECT_TRUE(completed(*a));
  EXPECT_TRUE(arrived());
}

TEST_F(WorkerNegotiationTest, ADecisionThatHadNoEffectIsTakenBackWithoutLosingWork) {
  make();
  bool deaf = true;
  wire->on_frame = [&](int, const Bytes& frame) { return !deaf || !is_mad(frame); };
  connect_a();
  a->write(*b);
  run(Duration::ms(600), Duration::us(100));
  ASSERT_EQ(a->mode(), MPRDMA_ABI_MODE_ROCE) << "nobody answered";
  deaf = false;
  connect_b();  // asks, and is answered
  run(Duration::ms(200));
  EXPECT_EQ(a->mode(), b->mode());
  EXPECT_TRUE(completed(*a));
  EXPECT_TRUE(arrived());
}

// The mode roce has one path. If that path is dead, only another question finds out.
TEST_F(WorkerNegotiationTest, WorkOnADeadSinglePathMovesToAllPaths) {
  make();
  int left = 6;
  wire->on_frame = [&](int from, const Bytes& frame) {
    wire::DecodedFrame decoded;
    if (wire::decode_frame(frame, decoded, false) != wire::DropReason::kNone) return true;  // ARP
    if (is_mad(frame)) return mad_of(frame).response || (from == 0 && left-- <= 0);
    return decoded.packet.info().transport == wire::TransportService::kMp;
  };
  connect_b();
  connect_a();
  a->write(*b);
  run(Duration::ms(300), Duration::us(100));
  ASSERT_EQ(a->mode(), MPRDMA_ABI_MODE_ROCE);
  run(Duration::ms(300), Duration::us(100));
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_MP);
  EXPECT_TRUE(completed(*a));
  EXPECT_TRUE(arrived());
}

TEST_F(WorkerNegotiationTest, CrossingSilencesEndInOneMode) {
  make();
  bool deaf = true;
  // The wire carries neither datagrams nor packets, only ARP.
  wire->on_frame = [&](int, const Bytes& frame) {
    return !deaf || (frame[12] == 0x08 && frame[13] == 0x06);
  };
  connect_a();
  connect_b();
  a->write(*b);
  run(Duration::ms(600), Duration::us(100));
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_ROCE);
  EXPECT_EQ(b->mode(), MPRDMA_ABI_MODE_ROCE);
  deaf = false;
  run(Duration::ms(100));
  EXPECT_EQ(a->mode(), b->mode());
}

TEST_F(WorkerNegotiationTest, AResetQueuePairAgreesAnew) {
  make();
  connect_a();
  connect_b();
  run(Duration::ms(2));
  ASSERT_EQ(a->mode(), MPRDMA_ABI_MODE_MP);
  ASSERT_EQ(a->host.move_to(*a->qp, MPRDMA_ABI_QPS_RESET), 0);
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_DEFAULT);
  ASSERT_EQ(b->host.move_to(*b->qp, MPRDMA_ABI_QPS_RESET), 0);
  a->qp->sq = {};
  connect_a();
  connect_b();
  a->write(*b);
  run(Duration::ms(2));
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_MP);
  EXPECT_TRUE(completed(*a));
}

TEST_F(WorkerNegotiationTest, WorkThatWaitsForTheModeIsFlushedInTheErrorState) {
  make();
  wire->on_frame = [](int, const Bytes& frame) { return !is_mad(frame); };
  connect_a();
  a->write(*b);
  run(Duration::ms(1));
  ASSERT_EQ(a->host.move_to(*a->qp, MPRDMA_ABI_QPS_ERR), 0);
  run(Duration::ms(1));
  mprdma_abi_cqe cqe;
  ASSERT_TRUE(a->cq->poll(&cqe));
  EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_WR_FLUSH_ERR);
  run(Duration::ms(600), Duration::us(500));
  EXPECT_FALSE(a->cq->poll(&cqe));
}

// The engine acts by itself: no post and no command rings a doorbell.
TEST_F(WorkerNegotiationTest, WorkThatWaitsForTheModeIsFlushedWhenTheEngineFailsTheQueuePair) {
  make();
  wire->on_frame = [](int, const Bytes& frame) { return !is_mad(frame); };
  connect_a();
  a->write(*b);
  run(Duration::ms(1));
  QpContext* qp = a->host.worker->qps().find(Qpn(a->qp->qpn));
  qp->completion_lost = true;
  a->host.worker->mark_dirty(*qp);
  run(Duration::ms(1));
  mprdma_abi_cqe cqe;
  ASSERT_TRUE(a->cq->poll(&cqe));
  EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_WR_FLUSH_ERR);
}

TEST_F(WorkerNegotiationTest, ConflictingPinsAreCountedDropsAndSaidOnce) {
  make(pin(transport::Params::roce()), pin(transport::Params::mp()));
  connect_a();
  connect_b();
  ::testing::internal::CaptureStderr();
  a->write(*b);
  run(Duration::ms(20));
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("10.73.0.1 sends packets of mode roce"), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_GT(b->host.worker->transport_counters().drop_wrong_mode, 0u);
}

}  // namespace
}  // namespace mprdma::dataplane
