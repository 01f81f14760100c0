// Rules of the standard's requester that concern its own clocks, its window and its host; dialogues
// about what it makes of packets are in tests/conformance.
#include "transport/roce/roce_requester.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/roce_pair.hpp"
#include "tests/support/wire.hpp"
#include "wire/rnr_timer.hpp"

namespace mprdma::transport {
namespace {

constexpr uint64_t kBase = RoceHost::kBase;

RoceOptions with_window(uint32_t packets) {
  RoceOptions options;
  options.params.window_max = packets;
  return options;
}

RoceParcel ack(uint32_t psn, uint8_t syndrome = wire::kAckSyndrome) {
  RoceParcel parcel;
  parcel.header.opcode = wire::Opcode::kRcAck;
  parcel.header.psn = Psn(psn);
  parcel.header.aeth.syndrome = syndrome;
  return parcel;
}

std::vector<uint32_t> psns_of(const std::vector<RoceParcel>& parcels) {
  std::vector<uint32_t> psns;
  for (const RoceParcel& parcel : parcels) psns.push_back(parcel.header.psn.value());
  return psns;
}

std::vector<uint32_t> asking(const std::vector<RoceParcel>& parcels) {
  std::vector<uint32_t> psns;
  for (const RoceParcel& parcel : parcels) {
    if (parcel.header.ack_req) psns.push_back(parcel.header.psn.value());
  }
  return psns;
}

// C9-84: a long message must not wait for its end, nor a full window for ever.
TEST(RoceRequester, AsksForAcksAtTheEndEverySixteenAndWhenTheWindowIsFull) {
  RocePair pair(with_window(40));
  pair.a.post(WorkOpcode::kWrite, kBase, 60 * 1024);
  const auto sent = pair.a.send();
  EXPECT_EQ(sent.size(), 40u);
  EXPECT_EQ(asking(sent), (std::vector<uint32_t>{115, 131, 139}));
  pair.a.receive(ack(139));
  EXPECT_EQ(asking(pair.a.send()), (std::vector<uint32_t>{155, 159}));
}

// A READ is one packet of the window, however long its response is.
TEST(RoceRequester, WindowCountsPacketsThatLeave) {
  RoceOptions options = with_window(2);
  options.attributes.max_rd_atomic = 4;
  RocePair pair(options);
  for (int i = 0; i < 3; ++i) pair.a.post(WorkOpcode::kRead, kBase, 4096);
  EXPECT_EQ(psns_of(pair.a.send()), (std::vector<uint32_t>{100, 104}));
}

// ---- A window control in place of the fixed window

RoceOptions with_control(cc::WindowControl which, uint32_t initial) {
  RoceOptions options = with_window(16);
  options.params.window_control = which;
  options.params.initial_window = initial;
  return options;
}

// One packet more in a round trip in which the window was in use. Each packet asks for an
// acknowledgement: the window may shrink below what is in flight, and no other would leave.
TEST(RoceRequester, AControlledWindowGrowsWithWhatIsAcknowledged) {
  RocePair pair(with_control(cc::WindowControl::kAimd, 2));
  pair.a.post(WorkOpcode::kWrite, kBase, 60 * 1024);
  EXPECT_EQ(asking(pair.a.send()), (std::vector<uint32_t>{100, 101}));
  pair.a.receive(ack(100));
  EXPECT_EQ(asking(pair.a.send()), (std::vector<uint32_t>{102}));
  pair.a.receive(ack(101));
  pair.a.receive(ack(102));
  EXPECT_EQ(asking(pair.a.send()), (std::vector<uint32_t>{103, 104, 105}));
}

TEST(RoceRequester, AControlledWindowThatIsNotInUseStays) {
  RocePair pair(with_control(cc::WindowControl::kAimd, 2));
  for (uint32_t psn = 100; psn < 110; ++psn) {
    pair.a.post(WorkOpcode::kWrite, kBase, 10);
    EXPECT_EQ(pair.a.send().size(), 1u);
    pair.a.receive(ack(psn));
  }
  EXPECT_EQ(pair.a.qp->request_stats().window_raw, 2u << 16);
}

// What has to be sent again waits for the window like anything else.
TEST(RoceRequester, ALossShrinksAControlledWindowAndARepetitionKeepsToIt) {
  RocePair pair(with_control(cc::WindowControl::kAimd, 8));
  pair.a.post(WorkOpcode::kWrite, kBase, 60 * 1024);
  EXPECT_EQ(pair.a.send().size(), 8u);
  pair.a.receive(ack(100, wire::nak_syndrome(wire::NakCode::kPsnSequenceError)));
  EXPECT_EQ(asking(pair.a.send()), (std::vector<uint32_t>{100, 101, 102, 103}));
  pair.a.receive(ack(101));
  EXPECT_EQ(psns_of(pair.a.send()), (std::vector<uint32_t>{104, 105}));
  ASSERT_TRUE(pair.wait()) << "the transport timer, after which AIMD has one packet";
  EXPECT_EQ(psns_of(pair.a.send()), (std::vector<uint32_t>{102}));
}

// The others repeat it: a peer that is away for a while is no congestion.
TEST(RoceRequester, OfASilenceTheFirstTimeoutShrinksAControlledWindow) {
  RocePair pair(with_control(cc::WindowControl::kSwift, 8));
  pair.a.post(WorkOpcode::kWrite, kBase, 60 * 1024);
  pair.a.send();
  for (int timeouts = 0; timeouts < 3; ++timeouts) {
    ASSERT_TRUE(pair.wait());
    EXPECT_EQ(pair.a.send().size(), 4u);
  }
}

// The response is the peer's to send.
TEST(RoceRequester, AReadThatLacksItsResponseTakesNoControlledWindow) {
  RocePair pair(with_control(cc::WindowControl::kAimd, 8));
  pair.a.post(WorkOpcode::kRead, kBase, 4096);
  pair.a.send();
  ASSERT_TRUE(pair.wait());
  EXPECT_EQ(pair.a.send().size(), 1u);
  EXPECT_EQ(pair.a.qp->request_stats().window_raw, 8u << 16);
}

// Swift hears of round trips: a long one takes window, without any loss.
TEST(RoceRequester, ASwiftWindowFollowsTheDelay) {
  RoceOptions options = with_control(cc::WindowControl::kSwift, 8);
  options.params.base_rtt = Duration::us(10);
  options.params.target_delay = Duration::us(1);
  RocePair pair(options);
  pair.a.post(WorkOpcode::kWrite, kBase, 60 * 1024);
  EXPECT_EQ(pair.a.send().size(), 8u);
  pair.a.now += Duration::us(10);
  pair.a.receive(ack(100));
  EXPECT_GT(pair.a.qp->request_stats().window_raw, 8u << 16);
  pair.a.now += Duration::us(90);
  pair.a.receive(ack(101));
  EXPECT_EQ(pair.a.qp->request_stats().window_raw >> 16, 4u) << "half of it at most";
}

// 9.9.2.1.1: an expiry lies between one and four of the verbs' timeouts; retry_cnt of them, then
// the oldest work request fails and the rest is flushed.
TEST(RoceRequester, GivesUpAfterItsRetriesAndKeepsTheTimersRange) {
  RoceOptions options;
  options.attributes.timeout = 14;
  options.attributes.retry_cnt = 3;
  RocePair pair(options);
  const Duration timeout = Duration::ns(4096) * (1 << 14);
  pair.a.post(WorkOpcode::kWrite, kBase, 10);
  pair.a.post(WorkOpcode::kWrite, kBase, 10);
  EXPECT_EQ(pair.a.send().size(), 2u);
  for (int retry = 0; retry < 3; ++retry) {
    const Time before = pair.a.now;
    ASSERT_TRUE(pair.wait());
    EXPECT_GE(pair.a.now - before, timeout);
    EXPECT_LE(pair.a.now - before, timeout * 4);
    EXPECT_EQ(psns_of(pair.a.send()), (std::vector<uint32_t>{100, 101}));
    EXPECT_TRUE(pair.a.completions().empty());
  }
  ASSERT_TRUE(pair.wait());
  const auto completions = pair.a.completions();
  ASSERT_EQ(completions.size(), 2u);
  EXPECT_EQ(completions[0].status, WcStatus::kRetryExceeded);
  EXPECT_EQ(completions[1].status, WcStatus::kFlushError);
  EXPECT_EQ(pair.a.qp->state(), QpState::kErr);
  EXPECT_EQ(pair.a.qp->request_stats().retransmitted_rto, 6u);
  EXPECT_EQ(pair.a.qp->request_stats().rto_expired, 4u);
}

TEST(RoceRequester, ATimeoutOfTheVerbsBelowTheFloorTakesTheFloor) {
  RoceOptions options;
  options.attributes.timeout = 1;
  options.params.rto_floor = Duration::ms(3);
  RocePair pair(options);
  pair.a.post(WorkOpcode::kWrite, kBase, 10);
  pair.a.send();
  const Time before = pair.a.now;
  ASSERT_TRUE(pair.wait());
  EXPECT_EQ(pair.a.now - before, Duration::ms(3));
}

// The next silence is measured from the start again.
TEST(RoceRequester, TimerBeginsAnewAfterProgress) {
  RoceOptions options;
  options.attributes.timeout = 14;
  RocePair pair(options);
  for (int i = 0; i < 3; ++i) pair.a.post(WorkOpcode::kWrite, kBase, 10);
  pair.a.send();
  std::vector<Duration> waits;
  for (const uint32_t acked : {99u, 99u, 100u, 101u}) {
    pair.a.receive(ack(acked));
    const Time before = pair.a.now;
    ASSERT_TRUE(pair.wait());
    waits.push_back(pair.a.now - before);
    pair.a.send();
  }
  EXPECT_GT(waits[1], waits[0]);
  EXPECT_EQ(waits[2], waits[0]);
  EXPECT_EQ(waits[3], waits[0]);
}

// A receiver that is not ready lives: no retry is used up, however long its time is.
TEST(RoceRequester, TransportTimerRestsDuringAnRnrWait) {
  RoceOptions options;
  options.attributes.timeout = 8;
  RocePair pair(options);
  pair.a.post(WorkOpcode::kSend, kBase, 10);
  pair.a.send();
  const Time before = pair.a.now;
  pair.a.receive(ack(100, wire::rnr_nak_syndrome(0)));
  ASSERT_TRUE(pair.wait());
  EXPECT_EQ(pair.a.now - before, wire::rnr_timer(0));
  EXPECT_EQ(pair.a.counters.rto_expired, 0u);
  EXPECT_EQ(psns_of(pair.a.send()), (std::vector<uint32_t>{100}));
}

// A NAK that was overtaken by what came of the repetition holds nothing up.
TEST(RoceRequester, ProgressEndsAnRnrWait) {
  RocePair pair;
  pair.a.post(WorkOpcode::kSend, kBase, 10);
  pair.a.post(WorkOpcode::kSend, kBase, 10);
  pair.a.send();
  pair.a.receive(ack(100, wire::rnr_nak_syndrome(0)));
  EXPECT_FALSE(pair.a.qp->wants_to_send());
  pair.a.receive(ack(101, wire::nak_syndrome(wire::NakCode::kPsnSequenceError)));
  EXPECT_EQ(psns_of(pair.a.send()), (std::vector<uint32_t>{101}));
}

// A packet that the wire did not take was not sent: no retry is used up.
TEST(RoceRequester, TimeoutsWhileTheWireTakesNothingCostNoRetry) {
  RoceOptions options;
  options.attributes.retry_cnt = 1;
  RocePair pair(options);
  pair.a.post(WorkOpcode::kWrite, kBase, 10);
  EXPECT_EQ(pair.a.send().size(), 1u);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(pair.wait());
  EXPECT_EQ(pair.a.send().size(), 1u);
  EXPECT_TRUE(pair.a.completions().empty());
  pair.a.receive(ack(100));
  EXPECT_EQ(pair.a.completions().size(), 1u);
  EXPECT_TRUE(pair.a.qp->next_deadline().is_never());
}

// Requests that were sent before a locally failing one are recovered before its error is reported.
TEST(RoceRequester, LocalErrorWaitsForWhatWasSentBeforeIt) {
  RocePair pair;
  pair.a.post(WorkOpcode::kWrite, kBase, 10);
  pair.a.post(WorkOpcode::kWrite, kBase - 8, 10);  // not registered
  pair.a.post(WorkOpcode::kWrite, kBase, 10);
  EXPECT_EQ(pair.a.send().size(), 1u);
  EXPECT_TRUE(pair.a.completions().empty());
  ASSERT_TRUE(pair.wait());  // the first packet was lost
  EXPECT_EQ(psns_of(pair.a.send()), (std::vector<uint32_t>{100}));
  pair.a.receive(ack(100));
  const auto completions = pair.a.completions();
  ASSERT_EQ(completions.size(), 3u);
  EXPECT_EQ(completions[0].status, WcStatus::kSuccess);
  EXPECT_EQ(completions[1].status, WcStatus::kLocalProtectionError);
  EXPECT_EQ(completions[2].status, WcStatus::kFlushError);
}

// Memory that was closed while a packet had to be sent again: an error, not an endless loop.
TEST(RoceRequester, MemoryClosedBeforeARepetitionIsALocalError) {
  RocePair pair;
  pair.a.post(WorkOpcode::kWrite, kBase, 10);
  EXPECT_EQ(pair.a.send().size(), 1u);
  pair.a.regions.remove(pair.a.key);
  ASSERT_TRUE(pair.wait());
  TxPacket out;
  EXPECT_TRUE(pair.a.qp->wants_to_send());
  EXPECT_FALSE(pair.a.qp->poll_packet(pair.a.now, out));
  EXPECT_FALSE(pair.a.qp->wants_to_send());
  EXPECT_EQ(pair.a.completions()[0].status, WcStatus::kLocalProtectionError);
}

TEST(RoceRequester, AtomicNeedsRoomForItsResult) {
  RocePair pair;
  SendRequest request;
  request.opcode = WorkOpcode::kFetchAdd;
  request.rkey = pair.a.key;
  request.remote_addr = kBase;
  pair.a.post(request, kBase, 4);
  EXPECT_TRUE(pair.a.send().empty());
  EXPECT_EQ(pair.a.completions()[0].status, WcStatus::kLocalLengthError);
}

TEST(RoceRequester, AtomicWithoutAPlaceForItsResultDoesNotLeave) {
  RocePair pair;
  pair.a.atomic(WorkOpcode::kFetchAdd, kBase - 8, kBase, 1);
  EXPECT_TRUE(pair.a.send().empty());
  EXPECT_EQ(pair.a.completions()[0].status, WcStatus::kLocalProtectionError);
}

// 10.6.7.2: a bind takes effect before what is posted behind it leaves; an invalidation as well.
TEST(RoceRequester, BindsAndInvalidatesInItsTurn) {
  RocePair pair;
  const Key window = MemoryTable::make_key(2, 1);
  pair.b.regions.set({.pd = RoceHost::kPd, .key = window, .kind = MemoryKind::kWindow2});
  pair.b.post(WorkOpcode::kRead, kBase, 100);
  SendRequest bind;
  bind.opcode = WorkOpcode::kBindMw;
  bind.flags = kSignaled | kFence;
  bind.rkey = window;
  bind.imm_or_rkey = MemoryTable::make_key(2, 9).value();
  bind.swap = pair.b.key.value();
  bind.remote_qkey = kRemoteWrite;
  bind.remote_addr = kBase;
  bind.compare_add = 64;
  pair.b.post(bind, 0, 0);
  EXPECT_TRUE(pair.b.completions().empty()) << "the fence holds it";
  pair.exchange();
  ASSERT_EQ(pair.b.completions().size(), 2u);

  SendRequest write;
  write.opcode = WorkOpcode::kWrite;
  write.flags = kSignaled;
  write.rkey = Key(bind.imm_or_rkey);
  write.remote_addr = kBase;
  pair.a.fill(kBase + 512, 64, 3);
  pair.a.post(write, kBase + 512, 64);
  pair.exchange();
  EXPECT_EQ(pair.a.completions()[0].status, WcStatus::kSuccess);
  EXPECT_TRUE(pair.a.same(kBase + 512, pair.b, kBase, 64));

  // A SEND with invalidate closes the window, and the receive reports the key.
  pair.b.post_recv(kBase + 4096, 64);
  write.opcode = WorkOpcode::kSendInvalidate;
  write.imm_or_rkey = bind.imm_or_rkey;
  pair.a.post(write, kBase + 512, 64);
  pair.exchange();
  const auto received = pair.b.completions();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_TRUE(received[0].invalidated);
  EXPECT_EQ(received[0].imm, bind.imm_or_rkey);
  EXPECT_EQ(pair.a.completions().size(), 1u);
  write.opcode = WorkOpcode::kWrite;
  pair.a.post(write, kBase + 512, 64);
  pair.exchange();
  EXPECT_EQ(pair.a.completions()[0].status, WcStatus::kRemoteAccessError);
}

TEST(RoceRequester, InvalidationOfWhatIsNoWindowFails) {
  RocePair pair;
  SendRequest request;
  request.opcode = WorkOpcode::kLocalInvalidate;
  request.imm_or_rkey = pair.a.key.value();
  pair.a.post(request, 0, 0);
  EXPECT_EQ(pair.a.completions()[0].status, WcStatus::kMwBindError);
}

TEST(RoceRequester, WorkHeldBackByAFenceBeginsWithTheResponse) {
  RocePair pair;
  pair.a.post(WorkOpcode::kRead, kBase, 1024, kBase + 8192);
  pair.a.post(WorkOpcode::kWrite, kBase, 10, kBase, kSignaled | kFence);
  const RoceParcel read = pair.a.send_one();
  pair.b.receive(read);
  pair.a.receive(pair.b.send_one());
  EXPECT_EQ(psns_of(pair.a.send()), (std::vector<uint32_t>{101}));
}

}  // namespace
}  // namespace mprdma::transport
