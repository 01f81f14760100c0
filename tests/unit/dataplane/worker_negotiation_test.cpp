// Two engines agree on the mode of their queue pairs, or find out that the peer is none of ours.
#include "tests/unit/dataplane/negotiation_support.hpp"
#include "wire/frame.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Bytes;
using testing::Host;
using testing::HostCq;
using testing::HostMr;
using testing::HostQp;
using testing::MemoryWire;
using testing::Node;
using testing::WorkerNegotiationTest;

// What a frame is, as far as these tests care.
bool is_mad(const Bytes& frame) {
  wire::DecodedFrame decoded;
  return wire::decode_frame(frame, decoded, false) == wire::DropReason::kNone &&
         decoded.packet.dest_qpn == wire::kGeneralServicesQpn;
}
wire::PairMad mad_of(const Bytes& frame) {
  wire::DecodedFrame decoded;
  wire::PairMad mad;
  EXPECT_EQ(wire::decode_frame(frame, decoded, false), wire::DropReason::kNone);
  EXPECT_EQ(wire::decode_pair_mad(wire::payload_of(frame, decoded), mad), wire::MadDrop::kNone);
  return mad;
}

Bytes make_frame(const wire::FrameAddress& address, const wire::Packet& packet,
                 const Bytes& payload) {
  Bytes room(wire::kMaxFrameHeaderBytes + payload.size() + wire::kMaxFrameTrailerBytes);
  unsigned char* start = room.data() + wire::kMaxFrameHeaderBytes;
  std::copy(payload.begin(), payload.end(), start);
  const size_t header = wire::encode_frame(address, packet, start);
  const size_t bytes = wire::finish_frame(start - header, header, payload.size(), true);
  return {start - header, start - header + bytes};
}

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

// Nobody can be asked while the link is down; a post does not wait for that without end.
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
    const QpContext* qp = node->host.worker->qps().find(node->qp->qpn);
    EXPECT_EQ(qp->qp.params().window_slots, 64u);
  }
  a->write(*b);
  run(Duration::ms(2));
  EXPECT_TRUE(completed(*a));
}

// The application's own numbers were in range for its own window only.
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
  const transport::Params& params = a->host.worker->qps().find(a->qp->qpn)->qp.params();
  EXPECT_EQ(params.window_slots, 64u);
  EXPECT_EQ(params.initial_window, 64u);
  EXPECT_EQ(params.reorder_delta, 64u);
  a->write(*b);
  run(Duration::ms(2));
  EXPECT_TRUE(completed(*a));
}

// L is what both agreed on, whatever the mode that the peer pinned has by itself.
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
  EXPECT_EQ(a->host.worker->qps().find(a->qp->qpn)->qp.params().window_slots, 128u);
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

TEST_F(WorkerNegotiationTest, SilenceMeansTheStandardAndOnlyTheFirstQueuePairWaits) {
  make();
  wire->on_frame = [](int from, const Bytes& frame) { return from == 0 || !is_mad(frame); };
  connect_a();
  run(Duration::ms(450));
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_DEFAULT);
  run(Duration::ms(100));
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_ROCE);
  EXPECT_EQ(a->counters().pair_questions_sent, 5u);
  EXPECT_EQ(a->counters().pair_peers_silent, 1u);
  const auto second = a->host.make_qp(*a->cq);
  a->host.connect(*second, Host::ip(1), b->qp->qpn + 1);
  EXPECT_EQ(a->mode(*second), MPRDMA_ABI_MODE_ROCE);
}

// Half of what the verbs' timeout and retries allow (8 times 67 ms) is for the question.
TEST_F(WorkerNegotiationTest, WorkWaitsForASilentPeersModeForHalfOfItsPatience) {
  make();
  wire->on_frame = [](int from, const Bytes& frame) { return from == 0 || !is_mad(frame); };
  connect_a();
  a->write(*b);
  run(Duration::ms(260));
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_DEFAULT);
  run(Duration::ms(20));
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_ROCE);
  EXPECT_EQ(a->counters().pair_questions_sent, 5u);
  EXPECT_EQ(a->counters().pair_peers_silent, 1u) << "the next queue pair does not wait";
}

TEST_F(WorkerNegotiationTest, WhoDoesNotKnowTheQuestionIsOfTheStandard) {
  make();
  // As a kernel does: the question comes back with response bit and status.
  wire->on_frame = [&](int from, const Bytes& frame) {
    if (from != 0 || !is_mad(frame)) return true;
    wire::DecodedFrame decoded;
    EXPECT_EQ(wire::decode_frame(frame, decoded, true), wire::DropReason::kNone);
    Bytes payload(frame.begin() + decoded.payload_offset,
                  frame.begin() + decoded.payload_offset + wire::kMadBytes);
    payload[3] |= wire::kMadResponse;
    payload[5] = wire::kMadStatusUnsupportedAttribute;
    std::swap(decoded.address.src_ip, decoded.address.dst_ip);
    std::swap(decoded.address.src_mac, decoded.address.dst_mac);
    wire->deliver(0, make_frame(decoded.address, decoded.packet, payload));
    return false;
  };
  connect_a();
  run(Duration::ms(1));
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_ROCE);
  EXPECT_EQ(a->counters().pair_peers_silent, 0u);
}

TEST_F(WorkerNegotiationTest, AnAnswerOfAnotherQueuePairThanTheAskedOneIsNone) {
  make();
  Bytes true_answer;
  wire->on_frame = [&](int from, const Bytes& frame) {
    if (from != 1 || !is_mad(frame)) return true;
    true_answer = frame;
    return false;
  };
  connect_a();
  run(Duration::ms(1));
  ASSERT_FALSE(true_answer.empty());
  wire::DecodedFrame decoded;
  ASSERT_EQ(wire::decode_frame(true_answer, decoded, true), wire::DropReason::kNone);
  Bytes payload(true_answer.begin() + decoded.payload_offset,
                true_answer.begin() + decoded.payload_offset + wire::kMadBytes);
  payload[55] ^= 1;  // the sender's queue pair
  const uint64_t before = a->counters().drop_bad_mad;
  wire->inject(0, make_frame(decoded.address, decoded.packet, payload));
  run(Duration::us(100));
  EXPECT_EQ(a->counters().drop_bad_mad, before + 1);
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_DEFAULT) << "not decided";
  wire->inject(0, true_answer);
  run(Duration::us(100));
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_MP);
}

TEST_F(WorkerNegotiationTest, APacketOfTheStandardDecidesForIt) {
  make(nullptr, pin(transport::Params::roce()));
  // No datagram gets through: a peer that is none of ours, and speaks first.
  wire->on_frame = [](int, const Bytes& frame) { return !is_mad(frame); };
  connect_a();
  connect_b();
  auto& wqe = b->host.begin_send(*b->qp, MPRDMA_ABI_WRITE, 1, {{b->mr->addr(), 100, b->mr->key}});
  wqe.remote_addr = a->mr->addr();
  wqe.rkey = a->mr->key;
  b->host.end_send(*b->qp);
  run(Duration::ms(2));
  EXPECT_TRUE(completed(*b));
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_ROCE);
}

TEST_F(WorkerNegotiationTest, LostQuestionsAndAnswersOnlyCostTime) {
  for (const int lost_from : {0, 1}) {
    wire->on_frame = nullptr;
    make();
    int left = 2;
    wire->on_frame = [&, lost_from](int from, const Bytes& frame) {
      return from != lost_from || !is_mad(frame) || left-- <= 0;
    };
    connect_a();
    a->write(*b);
    run(Duration::ms(150));
    connect_b();
    run(Duration::ms(700), Duration::us(100));
    EXPECT_TRUE(completed(*a));
    EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_MP);
    EXPECT_EQ(b->mode(), MPRDMA_ABI_MODE_MP);
  }
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

// The mode roce has one path. If that is the dead one, only another question finds out.
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
  // Neither datagrams nor packets, but ARP.
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

// The engine's own doing: no post and no command comes that would ring.
TEST_F(WorkerNegotiationTest, WorkThatWaitsForTheModeIsFlushedWhenTheEngineFailsTheQueuePair) {
  make();
  wire->on_frame = [](int, const Bytes& frame) { return !is_mad(frame); };
  connect_a();
  a->write(*b);
  run(Duration::ms(1));
  QpContext* qp = a->host.worker->qps().find(a->qp->qpn);
  qp->completion_lost = true;
  a->host.worker->touch(*qp);
  run(Duration::ms(1));
  mprdma_abi_cqe cqe;
  ASSERT_TRUE(a->cq->poll(&cqe));
  EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_WR_FLUSH_ERR);
}

TEST_F(WorkerNegotiationTest, OurOwnDeviceIsNotAsked) {
  make();
  const auto other = a->host.make_qp(*a->cq);
  a->host.connect(*a->qp, Host::ip(0), other->qpn);
  a->host.connect(*other, Host::ip(0), a->qp->qpn);
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_MP);
  EXPECT_EQ(a->mode(*other), MPRDMA_ABI_MODE_MP);
  auto& wqe = a->host.begin_send(*a->qp, MPRDMA_ABI_WRITE, 1, {{a->mr->addr(), 100, a->mr->key}});
  wqe.remote_addr = a->mr->addr() + 4096;
  wqe.rkey = a->mr->key;
  a->host.end_send(*a->qp);
  run(Duration::ms(1));
  EXPECT_TRUE(completed(*a));
  EXPECT_EQ(a->counters().pair_questions_sent, 0u);
}

// Or the queue pair would wait for ever for what nobody decides any more.
TEST_F(WorkerNegotiationTest, AQuestionInOurOwnNameIsNotThatOfOurOwnDevice) {
  make();
  const auto other = a->host.make_qp(*a->cq);
  wire::PairMad mad;
  mad.info.abilities = 1u << MPRDMA_ABI_MODE_MP | 1u << MPRDMA_ABI_MODE_ROCE;
  mad.info.window_slots = 128;
  mad.info.sender_qpn = other->qpn;
  mad.info.receiver_qpn = a->qp->qpn;
  Bytes payload(wire::kMadBytes);
  wire::encode_pair_mad(mad,
                        std::span<unsigned char, wire::kMadBytes>(payload.data(), wire::kMadBytes));
  const WorkerConfig& own = a->host.worker->config();
  wire::FrameAddress address;
  address.src_mac = b->host.worker->config().mac;
  address.dst_mac = own.mac;
  address.src_ip = address.dst_ip = a->host.worker->gid(1);
  wire::Packet packet;
  packet.opcode = wire::Opcode::kUdSendOnly;
  packet.vp = wire::kVirtualPathMin;
  packet.dest_qpn = wire::kGeneralServicesQpn;
  packet.payload_len = wire::kMadBytes;
  packet.deth = {.q_key = wire::kGeneralServicesQKey, .src_qpn = wire::kGeneralServicesQpn};
  wire->inject(0, make_frame(address, packet, payload));
  run(Duration::us(100));
  ASSERT_EQ(a->counters().pair_questions_received, 1u);
  a->host.connect(*a->qp, Host::ip(0), other->qpn);
  a->host.connect(*other, Host::ip(0), a->qp->qpn);
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_MP);
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

TEST_F(WorkerNegotiationTest, ModeOfAPeerIsNotGuessedFromItsPackets) {
  make(pin(transport::Params::mp_paper()), pin(transport::Params::roce()));
  connect_a();
  connect_b();
  ::testing::internal::CaptureStderr();
  a->write(*b);
  run(Duration::ms(20));
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("sends packets of a mode mp, mp-single or mp-paper"), std::string::npos)
      << said;
}

TEST_F(WorkerNegotiationTest, StrangeDatagramsAreCountedDrops) {
  make();
  Bytes question;
  wire->on_frame = [&](int from, const Bytes& frame) {
    if (from == 0 && is_mad(frame)) question = frame;
    return true;
  };
  connect_a();
  run(Duration::ms(1));
  ASSERT_FALSE(question.empty());
  EXPECT_EQ(mad_of(question).info.sender_qpn, a->qp->qpn);
  wire::DecodedFrame decoded;
  ASSERT_EQ(wire::decode_frame(question, decoded, true), wire::DropReason::kNone);
  const auto inject = [&](const std::function<void(wire::Packet&, Bytes&)>& change) {
    wire::Packet packet = decoded.packet;
    Bytes payload(question.begin() + decoded.payload_offset,
                  question.begin() + decoded.payload_offset + 256);
    change(packet, payload);
    packet.payload_len = static_cast<uint32_t>(payload.size());
    wire->inject(1, make_frame(decoded.address, packet, payload));
    const uint64_t before = b->counters().drop_bad_mad;
    run(Duration::us(100));
    return b->counters().drop_bad_mad - before;
  };
  EXPECT_EQ(inject([](wire::Packet& packet, Bytes&) { packet.deth.q_key = 1; }), 1u);
  EXPECT_EQ(inject([](wire::Packet& packet, Bytes&) { packet.opcode = wire::Opcode::kRcSendOnly; }),
            1u);
  EXPECT_EQ(inject([](wire::Packet&, Bytes& payload) { payload.resize(100); }), 1u);
  EXPECT_EQ(inject([](wire::Packet&, Bytes& payload) { payload[1] = 0x06; }), 1u);
  EXPECT_EQ(inject([](wire::Packet&, Bytes& payload) { payload[3] = 0x81; }), 1u)
      << "an answer to nothing";
  EXPECT_EQ(inject([](wire::Packet&, Bytes&) {}), 0u);
}

}  // namespace
}  // namespace mprdma::dataplane
