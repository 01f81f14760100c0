// Rules of the standard's responder about the order of its answers and its resources; dialogues
// about single requests are in tests/conformance.
#include "transport/roce/roce_responder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/roce_pair.hpp"
#include "tests/support/wire.hpp"

namespace mprdma::transport {
namespace {

using wire::Opcode;

constexpr uint64_t kBase = RoceHost::kBase;

std::vector<Opcode> opcodes_of(const std::vector<RoceParcel>& parcels) {
  std::vector<Opcode> opcodes;
  for (const RoceParcel& parcel : parcels) opcodes.push_back(parcel.header.opcode);
  return opcodes;
}

// A NAK behind a READ must not overtake its data, which the peer would take for lost.
TEST(RoceResponder, NakWaitsForTheDataBeforeIt) {
  RocePair pair;
  pair.a.post(WorkOpcode::kRead, kBase, 2048, kBase + 8192);
  pair.a.post(WorkOpcode::kSend, kBase, 10);  // no receive is posted
  pair.b.receive(pair.a.send());
  const auto answers = pair.b.send();
  EXPECT_EQ(opcodes_of(answers), (std::vector{Opcode::kRcReadResponseFirst,
                                              Opcode::kRcReadResponseLast, Opcode::kRcAck}));
  EXPECT_EQ(answers[2].header.aeth.kind(), wire::AethKind::kRnrNak);
  EXPECT_EQ(answers[2].header.psn, Psn(102));
}

// The NAK still leaves when it has put the queue pair into the error state.
TEST(RoceResponder, RefusalIsSaidAfterTheDataBeforeIt) {
  RocePair pair;
  pair.a.post(WorkOpcode::kRead, kBase, 2048, kBase + 8192);
  pair.a.post(WorkOpcode::kWrite, kBase, 10, 0);  // not registered
  pair.b.receive(pair.a.send());
  EXPECT_EQ(pair.b.qp->state(), QpState::kErr);
  EXPECT_TRUE(pair.b.qp->wants_to_send());
  pair.exchange();
  EXPECT_FALSE(pair.b.qp->wants_to_send());
  const auto completions = pair.a.completions();
  ASSERT_EQ(completions.size(), 2u);
  EXPECT_EQ(completions[0].status, WcStatus::kSuccess);
  EXPECT_EQ(completions[1].status, WcStatus::kRemoteAccessError);
  EXPECT_EQ(pair.b.qp->poll_event(), QpEvent::kAccessError);
}

// The memory of a READ is closed while the refusal of a later request waits: the NAK names the
// READ, and the queue pair has failed once.
TEST(RoceResponder, SecondRefusalIsNotAnotherError) {
  RocePair pair;
  pair.a.post(WorkOpcode::kRead, kBase, 2048, kBase + 8192);
  pair.a.post(WorkOpcode::kWrite, kBase, 10, 0);  // not registered
  pair.b.receive(pair.a.send());
  pair.b.regions.remove(pair.b.key);
  const RoceParcel answer = pair.b.send_one();
  EXPECT_EQ(answer.header.psn, Psn(100));
  EXPECT_EQ(answer.header.aeth.syndrome, wire::nak_syndrome(wire::NakCode::kRemoteAccessError));
  EXPECT_EQ(pair.b.counters.errors_remote, 1u);
  EXPECT_EQ(pair.b.qp->poll_event(), QpEvent::kAccessError);
  EXPECT_EQ(pair.b.qp->poll_event(), QpEvent::kNone);
}

// A NAK that has not left when the missing packet comes is out of date.
TEST(RoceResponder, ExpectedPacketTakesBackANakThatHasNotLeft) {
  RocePair pair;
  pair.a.post(WorkOpcode::kWrite, kBase, 3 * 1024);
  const auto sent = pair.a.send();
  pair.b.receive(sent[1]);
  pair.b.receive(sent[0]);
  pair.b.receive(sent[1]);
  pair.b.receive(sent[2]);
  const RoceParcel answer = pair.b.send_one();
  EXPECT_EQ(answer.header.aeth.syndrome, wire::kAckSyndrome);
  EXPECT_EQ(answer.header.psn, sent[2].header.psn);
}

// An ACK behind a response has nothing to say; and one with the PSN of an atomic would complete it
// at a Soft-RoCE peer that has lost the response, without a result.
TEST(RoceResponder, ResponseIsTheOnlyAcknowledgementOfItsRequest) {
  RocePair pair;
  pair.b.post_recv(kBase, 64);
  pair.a.post(WorkOpcode::kSend, kBase, 10);
  pair.a.atomic(WorkOpcode::kFetchAdd, kBase, kBase + 64, 1);
  const auto sent = pair.a.send();
  pair.b.receive(sent);
  EXPECT_EQ(opcodes_of(pair.b.send()), (std::vector{Opcode::kRcAtomicAck}));
  pair.b.receive(sent[0]);
  const RoceParcel again = pair.b.send_one();
  EXPECT_EQ(again.header.opcode, Opcode::kRcAck);
  EXPECT_EQ(again.header.psn, sent[0].header.psn);
}

// A peer that never asks still gets an acknowledgement now and then.
TEST(RoceResponder, AcknowledgesUnaskedNowAndThen) {
  RocePair pair;
  pair.a.post(WorkOpcode::kWrite, kBase, 64 * 1024);
  uint32_t acks = 0;
  for (RoceParcel& parcel : pair.a.send()) {
    parcel.header.ack_req = false;
    pair.b.receive(parcel);
    acks += static_cast<uint32_t>(pair.b.send().size());
  }
  EXPECT_EQ(acks, 2u);
}

// 9.7.5.1.5: what an atomic found is kept for as many requests as may be open, whatever came since.
TEST(RoceResponder, ResourcesOutliveTheirAnswersUntilTheirPlaceIsNeeded) {
  RoceOptions options;
  options.attributes.max_rd_atomic = options.attributes.max_dest_rd_atomic = 2;
  RocePair pair(options);
  pair.a.atomic(WorkOpcode::kFetchAdd, kBase, kBase + 64, 1);
  const RoceParcel first = pair.a.send_one();
  pair.b.receive(first);
  const RoceParcel answer = pair.b.send_one();
  pair.a.receive(answer);
  pair.a.post(WorkOpcode::kRead, kBase, 10, kBase + 64);
  pair.exchange();
  pair.b.receive(first);
  EXPECT_EQ(pair.b.send_one().header, answer.header);
  pair.a.post(WorkOpcode::kRead, kBase, 10, kBase + 64);
  pair.exchange();
  pair.b.receive(first);
  EXPECT_TRUE(pair.b.send().empty()) << "two requests are newer: it cannot be needed";
  EXPECT_EQ(pair.b.word(kBase + 64), 1u);
}

// 9.7.4.1.7: such a queue pair has nothing to remember a READ by.
TEST(RoceResponder, WithoutResourcesAReadIsAnInvalidRequest) {
  RoceOptions options;
  options.attributes.max_dest_rd_atomic = 0;
  RocePair pair(options);
  pair.a.post(WorkOpcode::kRead, kBase, 10, kBase + 64);
  pair.exchange();
  const auto completions = pair.a.completions();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, WcStatus::kRemoteInvalidRequestError);
}

// A stale duplicate of a READ that has its answer must not make the next one look like too many.
TEST(RoceResponder, RevivedReadGivesWayToANewOne) {
  RocePair pair;
  pair.a.post(WorkOpcode::kRead, kBase, 1024, kBase + 8192);
  const RoceParcel first = pair.a.send_one();
  pair.b.receive(first);
  pair.a.receive(pair.b.send());
  pair.a.post(WorkOpcode::kRead, kBase, 1024, kBase + 8192);
  const RoceParcel second = pair.a.send_one();
  pair.b.receive(first);  // again, by the network
  pair.b.receive(second);
  EXPECT_EQ(pair.b.send_one().header.psn, second.header.psn);
  EXPECT_EQ(pair.b.qp->state(), QpState::kRts);
}

// The network repeats a READ whose memory was closed because the READ was done: no harm. The first
// time it would be refused.
TEST(RoceResponder, RepeatedReadOfMemoryThatIsClosedByNowIsDropped) {
  RocePair pair;
  pair.a.post(WorkOpcode::kRead, kBase, 1024, kBase + 8192);
  const RoceParcel read = pair.a.send_one();
  pair.b.receive(read);
  pair.a.receive(pair.b.send());
  pair.b.regions.remove(pair.b.key);
  pair.b.receive(read);
  EXPECT_TRUE(pair.b.send().empty());
  EXPECT_EQ(pair.b.qp->state(), QpState::kRts);
  EXPECT_EQ(pair.b.counters.reads_again, 1u);
}

// A READ asked for again while its data is under way: from where the peer says, at once.
TEST(RoceResponder, ReadAskedForAgainInTheMiddleStartsThere) {
  RocePair pair;
  pair.a.post(WorkOpcode::kRead, kBase, 4096, kBase + 8192);
  RoceParcel request = pair.a.send_one();
  pair.b.receive(request);
  TxPacket out;
  ASSERT_TRUE(pair.b.qp->poll_packet(pair.b.now, out));
  request.header.psn += 2;
  request.header.reth.va += 2048;
  request.header.reth.dma_len -= 2048;
  pair.b.receive(request);
  const auto answers = pair.b.send();
  EXPECT_EQ(opcodes_of(answers),
            (std::vector{Opcode::kRcReadResponseFirst, Opcode::kRcReadResponseLast}));
  EXPECT_EQ(answers[0].header.psn, request.header.psn);
}

}  // namespace
}  // namespace mprdma::transport
