// The requester half of a queue pair, in dialogue with a real responder or with the test.
#include "transport/mp/requester.hpp"

#include <gtest/gtest.h>

#include "tests/support/endpoint_pair.hpp"
#include "tests/support/print.hpp"

namespace mprdma::transport {
namespace {

constexpr uint64_t kLocal = Endpoint::kBase;
constexpr uint64_t kRemote = Endpoint::kBase + 0x10000;

PairOptions options_with(uint8_t timeout, uint8_t retry_cnt) {
  PairOptions options;
  options.attributes.timeout = timeout;
  options.attributes.retry_cnt = retry_cnt;
  return options;
}

wire::Packet ack_for(const Endpoint& to, Psn aack, wire::NackCode nack = wire::NackCode::kNone,
                     uint8_t detail = 0) {
  wire::Packet ack;
  ack.opcode = wire::Opcode::kMpAck;
  ack.dest_qpn = to.qp->qpn();
  ack.psn = aack;
  ack.mp_ack.flags = wire::kMpAckSackValid;
  ack.mp_ack.nack = nack;
  ack.mp_ack.detail = detail;
  ack.mp_ack.sack = nack == wire::NackCode::kNone ? aack - 1 : aack;
  return ack;
}

TEST(Requester, AMessageBecomesFullPacketsWithOffsetsAndOneImmediate) {
  EndpointPair pair;
  pair.a.fill(kLocal, 2500, 3);
  ASSERT_EQ(pair.a.post(WorkOpcode::kWriteImm, kLocal, 2500, kRemote), PostResult::kOk);
  const auto packets = pair.a.send();
  ASSERT_EQ(packets.size(), 3u);
  EXPECT_EQ(packets[0].header.opcode, wire::Opcode::kMpWriteFirst);
  EXPECT_EQ(packets[1].header.opcode, wire::Opcode::kMpWriteMiddle);
  EXPECT_EQ(packets[2].header.opcode, wire::Opcode::kMpWriteLastImm);
  EXPECT_EQ(packets[2].header.payload_len, 2500u - 2048u);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(packets[i].header.psn, Psn(100 + i));
    EXPECT_EQ(packets[i].header.mp_data.offset, i * 1024);
    EXPECT_EQ(packets[i].header.reth.va, kRemote);
    EXPECT_EQ(packets[i].header.reth.dma_len, 2500u);
  }
}

TEST(Requester, CompletionsComeInPostingOrderAndUnsignaledOnesAreSilent) {
  EndpointPair pair;
  pair.a.post(WorkOpcode::kWrite, kLocal, 8, kRemote, 0);
  pair.a.post(WorkOpcode::kRead, kLocal, 4000, kRemote);
  pair.a.post(WorkOpcode::kWrite, kLocal + 8192, 8, kRemote + 8192);
  pair.run();
  const auto completions = pair.a.take_completions();
  ASSERT_EQ(completions.size(), 3u);
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(completions[i].wr_id, i + 1);
    EXPECT_EQ(completions[i].status, WcStatus::kSuccess);
    EXPECT_EQ(completions[i].emit, i != 0);
  }
  EXPECT_EQ(pair.a.counters.packets_retransmitted, 0u);
}

TEST(Requester, AWriteBehindAReadWaitsWithItsCompletionNotWithItsData) {
  EndpointPair pair;
  pair.a.post(WorkOpcode::kRead, kLocal, 64, kRemote);
  pair.a.post(WorkOpcode::kWrite, kLocal, 64, kRemote + 4096);
  const auto packets = pair.a.send();
  ASSERT_EQ(packets.size(), 2u);
  for (const Parcel& packet : packets) pair.a.receive(*pair.b.receive(packet));
  EXPECT_TRUE(pair.a.take_completions().empty());
  pair.exchange();
  EXPECT_EQ(pair.a.take_completions().size(), 2u);
}

TEST(Requester, AFenceWaitsForTheDataOfEarlierReads) {
  EndpointPair pair;
  pair.a.post(WorkOpcode::kRead, kLocal, 64, kRemote);
  pair.a.post(WorkOpcode::kWrite, kLocal, 64, kRemote, kSignaled | kFence);
  const auto first = pair.a.send();
  ASSERT_EQ(first.size(), 1u);
  pair.a.receive(*pair.b.receive(first[0]));
  EXPECT_TRUE(pair.a.send().empty()) << "acknowledged, but its data is under way";
  for (const Parcel& data : pair.b.send()) pair.a.receive(data);
  EXPECT_EQ(pair.a.send().size(), 1u);
}

TEST(Requester, NoMoreReadsAreOpenThanNegotiated) {
  PairOptions options;
  options.attributes.max_rd_atomic = 2;
  options.attributes.max_dest_rd_atomic = 2;
  EndpointPair pair(options);
  for (int i = 0; i < 4; ++i) pair.a.post(WorkOpcode::kRead, kLocal, 64, kRemote);
  EXPECT_EQ(pair.a.send().size(), 2u);
  EXPECT_EQ(pair.a.qp->mp()->requester().reads_outstanding(), 2u);
}

// The acknowledgement of a request is lost where its path is dead on the way back; the answer says
// only that the request has come.
TEST(Requester, WithoutAcknowledgementsAnswersAndRequestsTakeEachOthersPaths) {
  for (const WorkOpcode opcode : {WorkOpcode::kRead, WorkOpcode::kFetchAdd}) {
    EndpointPair pair;
    uint16_t expected = 0;
    for (uint16_t i = 0; i < 5; ++i) {
      pair.a.post(opcode, kLocal, 8, kRemote);
      auto request = pair.a.send();
      ASSERT_EQ(request.size(), 1u);
      EXPECT_TRUE(i == 0 || request[0].header.vp == expected) << i;
      const auto came_by = static_cast<uint16_t>(60'000 + i);
      request[0].header.vp = came_by;
      pair.b.receive(request[0]);  // the acknowledgement is lost
      auto answer = pair.b.send();
      ASSERT_EQ(answer.size(), 1u);
      EXPECT_EQ(answer[0].header.vp, came_by);
      expected = answer[0].header.vp = static_cast<uint16_t>(61'000 + i);
      pair.a.receive(answer[0]);  // and so is this one
      ASSERT_EQ(pair.a.take_completions().size(), 1u);
    }
  }
}

TEST(Requester, APortThatIsNoPathIsNotTaken) {
  EndpointPair pair;
  pair.a.post(WorkOpcode::kRead, kLocal, 64, kRemote);
  auto request = pair.a.send();
  request[0].header.vp = 4791;
  pair.b.receive(request[0]);
  EXPECT_GE(pair.b.send()[0].header.vp, wire::kVirtualPathMin);
}

TEST(Requester, ASilentPeerEndsInRetryExceededAfterTimeoutTimesRetries) {
  EndpointPair pair(options_with(12, 3));  // 16.8 ms, four times
  pair.a.post(WorkOpcode::kWrite, kLocal, 8, kRemote);
  pair.a.post(WorkOpcode::kWrite, kLocal, 8, kRemote);
  const Time start = pair.a.now;
  std::vector<Completion> completions;
  while (completions.empty() && pair.a.now < start + Duration::s(1)) {
    pair.a.send();  // lost
    pair.advance(Duration::us(100));
    completions = pair.a.take_completions();
  }
  ASSERT_EQ(completions.size(), 2u);
  EXPECT_EQ(completions[0].status, WcStatus::kRetryExceeded);
  EXPECT_EQ(completions[1].status, WcStatus::kFlushError);
  const Duration total = Duration::ns(4096) * 4096 * 7;  // 1.75 times what was asked for
  EXPECT_GE(pair.a.now - start, total);
  EXPECT_LE(pair.a.now - start, total + Duration::us(200));
  EXPECT_EQ(pair.a.qp->state(), QpState::kErr);
}

// The peer may have answered. A host that is always late tells its program all the same.
TEST(Requester, NobodyGivesUpBehindALateTurnForAMinute) {
  EndpointPair pair(options_with(12, 3));  // given up after 117 ms
  pair.a.post(WorkOpcode::kWrite, kLocal, 8, kRemote);
  pair.a.send();  // lost
  std::vector<Completion> completions;
  const Time start = pair.a.now;
  while (completions.empty() && pair.a.now < start + Duration::s(100)) {
    pair.a.qp->listen_since(pair.a.now);
    pair.advance(Duration::ms(10));
    pair.a.send();
    completions = pair.a.take_completions();
  }
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, WcStatus::kRetryExceeded);
  EXPECT_GE(pair.a.now - start, Duration::s(60));
  EXPECT_LE(pair.a.now - start, Duration::s(61));
}

// Retries are tries. With back-off alone fewer fit into their time (7 x 33.6 ms), too few where one
// of the paths is dead. READ data is retransmitted by the responder.
TEST(Requester, SomethingIsSentAgainForEachRetry) {
  for (const WorkOpcode opcode : {WorkOpcode::kWrite, WorkOpcode::kRead}) {
    EndpointPair pair(options_with(12, 7));
    pair.a.post(opcode, kLocal, 8, kRemote);
    const bool reads = opcode == WorkOpcode::kRead;
    if (reads) pair.a.receive(*pair.b.receive(pair.a.send()[0]));
    uint32_t sent = 0;
    while (pair.a.take_completions().empty() && sent < 1000) {
      for (const Parcel& parcel : pair.a.send()) {  // lost, but for what wakes the responder
        if (reads) pair.b.receive(parcel);
        sent += reads ? 0 : 1;
      }
      for (const Parcel& parcel : pair.b.send()) {
        EXPECT_EQ(parcel.header.opcode, wire::Opcode::kMpReadResponseOnly);
        ++sent;
      }
      pair.advance(Duration::us(100));
    }
    EXPECT_EQ(pair.a.qp->state(), QpState::kErr);
    EXPECT_GE(sent, 1u + 7);
    EXPECT_LE(sent, reads ? 320u : 160u)
        << "sixteen paths at a timeout; each request wakes the answer";
  }
}

// ibv_modify_qp sets it on the way to RTS, when the responder is connected already, or in SQD.
TEST(Requester, TheTimeoutThatIsSetLateLimitsBothStreams) {
  EndpointPair pair(options_with(0, 7));
  const auto base = [&] {
    const MpConnection* mp = pair.a.qp->mp();
    return std::pair{mp->requester().sender().base_rto(),
                     mp->responder().response_sender().base_rto()};
  };
  pair.a.post(WorkOpcode::kWrite, kLocal, 8, kRemote);
  pair.b.post(WorkOpcode::kRead, kLocal, 8, kRemote);
  pair.run(Duration::ms(100));  // one way
  EXPECT_GT(base().first, Duration::ms(200));
  EXPECT_GT(base().second, Duration::ms(200));
  pair.a.attributes.timeout = 14;  // 67 ms
  pair.a.qp->set_attributes(pair.a.attributes);
  EXPECT_LT(base().first, Duration::ms(68));
  EXPECT_LT(base().second, Duration::ms(68));
}

TEST(Requester, RetriesCountTheAbsenceOfProgressNotRetransmissions) {
  EndpointPair pair(options_with(12, 0));
  for (int i = 0; i < 20; ++i) pair.a.post(WorkOpcode::kWrite, kLocal, 8, kRemote);
  // One acknowledgement every 10 ms: slow, but the peer lives.
  for (uint32_t i = 0; i < 20; ++i) {
    pair.a.send();
    const Time next = pair.a.now + Duration::ms(10);
    while (pair.a.now < next) {
      pair.advance(next - pair.a.now);
      pair.a.send();
    }
    pair.a.receive({ack_for(pair.a, Psn(101 + i)), {}});
  }
  const auto completions = pair.a.take_completions();
  ASSERT_EQ(completions.size(), 20u);
  EXPECT_EQ(completions.back().status, WcStatus::kSuccess);
}

TEST(Requester, AnUnreadyPeerIsLeftAloneForItsTimerAndThenAskedAgain) {
  EndpointPair pair;
  pair.a.post(WorkOpcode::kSend, kLocal, 8);
  pair.a.send();
  pair.a.receive({ack_for(pair.a, Psn(100), wire::NackCode::kRnr, 13), {}});  // 0.96 ms
  const Time start = pair.a.now;
  while (pair.a.now < start + Duration::us(959)) {
    pair.advance(start + Duration::us(959) - pair.a.now);
    ASSERT_TRUE(pair.a.send().empty());
  }
  pair.advance(Duration::us(2));
  ASSERT_EQ(pair.a.send().size(), 1u);
}

TEST(Requester, RnrRetriesAreCountedForOneMessage) {
  PairOptions options;
  options.attributes.rnr_retry = 2;
  EndpointPair pair(options);
  pair.a.post(WorkOpcode::kSend, kLocal, 8);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(pair.a.take_completions().empty()) << i;
    pair.a.send();
    pair.a.receive({ack_for(pair.a, Psn(100), wire::NackCode::kRnr, 1), {}});
    pair.advance(Duration::us(20));
  }
  const auto completions = pair.a.take_completions();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, WcStatus::kRnrRetryExceeded);
}

TEST(Requester, ATerminalNakFailsTheRequestThatItNamesAndFlushesTheRest) {
  EndpointPair pair;
  for (int i = 0; i < 3; ++i) pair.a.post(WorkOpcode::kWrite, kLocal, 8, kRemote);
  pair.a.send();
  pair.a.receive({ack_for(pair.a, Psn(101), wire::NackCode::kRemoteAccessError), {}});
  const auto completions = pair.a.take_completions();
  ASSERT_EQ(completions.size(), 3u);
  EXPECT_EQ(completions[0].status, WcStatus::kSuccess);
  EXPECT_EQ(completions[1].status, WcStatus::kRemoteAccessError);
  EXPECT_EQ(completions[2].status, WcStatus::kFlushError);
}

TEST(Requester, ATerminalNakForAnotherPsnThanTheOldestIsIgnored) {
  EndpointPair pair;
  for (int i = 0; i < 3; ++i) pair.a.post(WorkOpcode::kWrite, kLocal, 8, kRemote);
  pair.a.send();
  pair.a.receive({ack_for(pair.a, Psn(99), wire::NackCode::kRemoteAccessError), {}});
  pair.a.receive({ack_for(pair.a, Psn(104), wire::NackCode::kRemoteAccessError), {}});
  EXPECT_TRUE(pair.a.take_completions().empty());
}

TEST(Requester, AClosedLocalMemoryFailsInItsTurn) {
  EndpointPair pair;
  pair.a.post(WorkOpcode::kWrite, kLocal, 8, kRemote);
  pair.a.post(WorkOpcode::kWrite, Endpoint::kBase + Endpoint::kMemoryBytes - 4, 8, kRemote);
  pair.a.post(WorkOpcode::kWrite, kLocal, 8, kRemote);
  pair.exchange();
  const auto completions = pair.a.take_completions();
  ASSERT_EQ(completions.size(), 3u);
  EXPECT_EQ(completions[0].status, WcStatus::kSuccess);
  EXPECT_EQ(completions[1].status, WcStatus::kLocalProtectionError);
  EXPECT_EQ(completions[2].status, WcStatus::kFlushError);
}

}  // namespace
}  // namespace mprdma::transport
