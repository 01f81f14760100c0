// Which peers an engine asks for the mode, and which it believes: silent ones, peers of the
// standard, the same device; datagrams that answer nothing.
#include "tests/unit/dataplane/mgmt/negotiation_support.hpp"
#include "wire/frame.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Bytes;
using testing::Host;
using testing::is_mad;
using testing::mad_of;
using testing::make_frame;
using testing::Node;
using testing::WorkerNegotiationTest;

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

void replug(Node& node) {
  for (const bool up : {false, true}) {
    node.host.port().up = up;
    node.host.worker->service(node.host.now);
  }
}

// Both sides took the other for one of the standard: new queue pairs do not wait, but ask before
// they send, and those that have done nothing yet ask on.
TEST_F(WorkerNegotiationTest, APeerThatIsBackSpeaksMpAtOnce) {
  make();
  bool away = true;
  wire->on_frame = [&](int, const Bytes& frame) { return !away || !is_mad(frame); };
  ::testing::internal::CaptureStderr();
  connect_a();
  connect_b();
  run(Duration::ms(600));
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("10.73.0.2 does not answer the question for the mode"), std::string::npos)
      << said;
  ASSERT_EQ(a->mode(), MPRDMA_ABI_MODE_ROCE);
  ASSERT_EQ(b->mode(), MPRDMA_ABI_MODE_ROCE);

  away = false;
  const auto second_a = a->host.make_qp(*a->cq);
  const auto second_b = b->host.make_qp(*b->cq);
  connect(*a, *second_a, Host::ip(1), second_b->qpn);
  connect(*b, *second_b, Host::ip(0), second_a->qpn);
  EXPECT_EQ(a->mode(*second_a), MPRDMA_ABI_MODE_ROCE) << "nothing waits";
  auto& wqe =
      a->host.begin_send(*second_a, MPRDMA_ABI_WRITE, 1, {{a->mr->addr(), 3000, a->mr->key}});
  wqe.remote_addr = b->mr->addr() + 8192;
  wqe.rkey = b->mr->key;
  a->host.end_send(*second_a);
  run(Duration::ms(20));
  EXPECT_EQ(a->mode(*second_a), MPRDMA_ABI_MODE_MP);
  EXPECT_EQ(b->mode(*second_b), MPRDMA_ABI_MODE_MP);
  EXPECT_TRUE(completed(*a));
  EXPECT_TRUE(arrived());
  run(Duration::ms(1000), Duration::us(100));
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_MP) << "the first ones, too";
  EXPECT_EQ(b->mode(), MPRDMA_ABI_MODE_MP);
}

TEST_F(WorkerNegotiationTest, ALinkThatComesUpMayLeadToAPeerThatAnswers) {
  make();
  wire->on_frame = [](int, const Bytes& frame) { return !is_mad(frame); };
  connect_a();
  run(Duration::s(20), Duration::ms(1));
  ASSERT_EQ(a->mode(), MPRDMA_ABI_MODE_ROCE);
  const uint64_t asked = a->counters().pair_questions_sent;
  run(Duration::s(20), Duration::ms(1));
  EXPECT_EQ(a->counters().pair_questions_sent, asked) << "not without end";
  wire->on_frame = nullptr;
  replug(*a);
  run(Duration::ms(5));
  EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_MP);
}

TEST_F(WorkerNegotiationTest, ALinkThatComesUpEndsTheMemoryOfSilence) {
  make();
  wire->on_frame = [](int, const Bytes& frame) { return !is_mad(frame); };
  connect_a();
  run(Duration::ms(600));
  ASSERT_EQ(a->counters().pair_peers_silent, 1u);
  replug(*a);
  run(Duration::ms(5));
  const auto second = a->host.make_qp(*a->cq);
  a->host.connect(*second, Host::ip(1), b->qp->qpn + 1);
  EXPECT_EQ(a->mode(*second), MPRDMA_ABI_MODE_DEFAULT) << "it asks, and waits";
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

// A process that had no processor while its work waited: the transport keeps its half of what the
// verbs allow (8 times 67 ms), whichever mode the wait ends in. Nobody answers its data.
TEST_F(WorkerNegotiationTest, TimeWithoutAProcessorIsNotTakenFromTheTransportsPart) {
  for (const bool answered : {false, true}) {
    make();
    Bytes answer;
    wire->on_frame = [&](int from, const Bytes& frame) {
      if (from == 0 || !is_mad(frame)) return true;
      answer = frame;
      return false;
    };
    connect_a();
    a->write(*b);
    run(Duration::ms(1));
    ASSERT_FALSE(answer.empty());
    a->host.now = b->host.now = a->host.now + Duration::s(2);
    if (answered) wire->inject(0, answer);
    run(Duration::ms(200));
    EXPECT_EQ(a->mode(), answered ? MPRDMA_ABI_MODE_MP : MPRDMA_ABI_MODE_ROCE);
    mprdma_abi_cqe cqe;
    EXPECT_FALSE(a->cq->poll(&cqe)) << "given up early, " << (answered ? "mp" : "roce");
    run(Duration::s(2));
    ASSERT_TRUE(a->cq->poll(&cqe));
    EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_RETRY_EXC_ERR);
    wire->on_frame = nullptr;
  }
}

TEST_F(WorkerNegotiationTest, WhoDoesNotKnowTheQuestionIsOfTheStandard) {
  make();
  // Answers as a kernel does: the question comes back with response bit and status.
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
  // No datagram gets through: the peer is no mprdma device, and speaks first.
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

// A packet of a stranger, or of a former life of the queue pair: only its PSN gives it away.
TEST_F(WorkerNegotiationTest, AStalePacketOfTheStandardDecidesNothing) {
  for (const bool tentative : {false, true}) {
    make();
    Bytes question;
    wire->on_frame = [&](int, const Bytes& frame) {
      if (is_mad(frame)) question = frame;
      return !is_mad(frame);
    };
    connect_b();
    connect_a();
    run(Duration::ms(tentative ? 600 : 1));
    const uint32_t mode = tentative ? MPRDMA_ABI_MODE_ROCE : MPRDMA_ABI_MODE_DEFAULT;
    ASSERT_EQ(a->mode(), mode);
    wire::DecodedFrame decoded;
    ASSERT_EQ(wire::decode_frame(question, decoded, true), wire::DropReason::kNone);
    if (decoded.address.dst_ip != wire::map_ipv4(Host::ip(0))) {
      std::swap(decoded.address.src_ip, decoded.address.dst_ip);
      std::swap(decoded.address.src_mac, decoded.address.dst_mac);
    }
    wire::Packet stale;
    stale.opcode = wire::Opcode::kRcWriteOnly;
    stale.vp = decoded.packet.vp;
    stale.dest_qpn = Qpn(a->qp->qpn);
    stale.payload_len = 4;
    stale.reth = {.va = a->mr->addr(), .rkey = Key(a->mr->key), .dma_len = 4};
    for (const uint32_t psn : {99u, 5000u}) {  // 100 is due
      stale.psn = Psn(psn);
      wire->inject(0, make_frame(decoded.address, stale, Bytes(4)));
      run(Duration::us(100));
      EXPECT_EQ(a->mode(), mode) << psn;
    }
    const auto& counters = a->host.worker->transport_counters();
    EXPECT_EQ(counters.drop_undecided, tentative ? 0u : 2u);
    wire->on_frame = nullptr;
    run(Duration::ms(1500), Duration::us(100));
    EXPECT_EQ(a->mode(), MPRDMA_ABI_MODE_MP);
    EXPECT_EQ(b->mode(), MPRDMA_ABI_MODE_MP);
  }
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

// A queue pair that took the question for its own device's would wait for ever for a decision that
// nobody makes.
TEST_F(WorkerNegotiationTest, AQuestionInOurOwnNameIsNotThatOfOurOwnDevice) {
  make();
  const auto other = a->host.make_qp(*a->cq);
  wire::PairMad mad;
  mad.info.abilities = 1u << MPRDMA_ABI_MODE_MP | 1u << MPRDMA_ABI_MODE_ROCE;
  mad.info.window_slots = 128;
  mad.info.sender_qpn = Qpn(other->qpn);
  mad.info.receiver_qpn = Qpn(a->qp->qpn);
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

TEST_F(WorkerNegotiationTest, PacketsOfIrnAreToldFromThoseOfRoceAndMp) {
  for (const transport::Params& other :
       {transport::Params::mp_paper(), transport::Params::roce()}) {
    make(pin(transport::Params::irn()), pin(other));
    connect_a();
    connect_b();
    ::testing::internal::CaptureStderr();
    a->write(*b);
    run(Duration::ms(20));
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("sends packets of mode irn"), std::string::npos) << said;
    EXPECT_FALSE(completed(*a));
  }
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
  EXPECT_EQ(mad_of(question).info.sender_qpn, Qpn(a->qp->qpn));
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
