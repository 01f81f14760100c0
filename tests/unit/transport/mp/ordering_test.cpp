// When data becomes visible: placement on arrival, what it may not do, and the synchronise flag, in
// dialogues of two queue pairs over a wire that the test reorders.
#include <gtest/gtest.h>

#include "tests/support/endpoint_pair.hpp"
#include "tests/support/print.hpp"

namespace mprdma::transport {
namespace {

constexpr uint64_t kLocal = Endpoint::kBase;
constexpr uint64_t kRemote = Endpoint::kBase + 0x10000;
constexpr uint64_t kFlagAt = kRemote + 0x8000;
constexpr uint32_t kMtu = 1024;
using List = std::vector<uint64_t>;

void make_relaxed(Endpoint& endpoint) {
  endpoint.regions.set({.iova = Endpoint::kBase,
                        .addr = Endpoint::kBase,
                        .length = Endpoint::kMemoryBytes,
                        .pd = 0,
                        .access = Endpoint::kEverything | kRelaxedOrdering,
                        .key = endpoint.key});
}

// A pair whose memories are both relaxed. No frame may wait: what is not placed at once is dropped.
struct RelaxedPair : EndpointPair {
  explicit RelaxedPair(PairOptions options = without_budget()) : EndpointPair(options) {
    make_relaxed(a);
    make_relaxed(b);
  }
  static PairOptions without_budget() {
    PairOptions options;
    options.held_budget = 0;
    options.attributes.max_rd_atomic = options.attributes.max_dest_rd_atomic = 4;
    return options;
  }
};

// Three packets of data, then a flag of one; what is sent of them.
std::vector<Parcel> send_data_and_flag(EndpointPair& pair, uint16_t flags_of_flag = 0) {
  pair.a.fill(kLocal, 3 * kMtu, 9);
  *pair.a.at(kLocal + 0x4000) = 0xff;
  pair.a.post(WorkOpcode::kWrite, kLocal, 3 * kMtu, kRemote);
  pair.a.post(WorkOpcode::kWrite, kLocal + 0x4000, 1, kFlagAt,
              static_cast<uint16_t>(kSignaled | flags_of_flag));
  return pair.a.send();
}

// ---- WRITE -------------------------------------------------------------------------------------

TEST(Ordering, WriteDataOfRelaxedMemoryIsPlacedAsItArrivesWithoutHoldingFrames) {
  RelaxedPair pair;
  pair.a.fill(kLocal, 3 * kMtu, 9);
  pair.a.post(WorkOpcode::kWrite, kLocal, 3 * kMtu, kRemote);
  const auto packets = pair.a.send();
  pair.b.receive(packets[2]);
  pair.b.receive(packets[0]);
  EXPECT_TRUE(pair.b.frames.empty());
  pair.b.receive(packets[1]);
  EXPECT_EQ(pair.b.placed_at, (List{kRemote + 2 * kMtu, kRemote, kRemote + kMtu}));
  EXPECT_TRUE(pair.b.same(kRemote, pair.a, kLocal, 3 * kMtu));
}

TEST(Ordering, AFlagMayBeSeenBeforeItsDataOnlyInRelaxedMemory) {
  RelaxedPair relaxed;
  const auto packets = send_data_and_flag(relaxed);
  relaxed.b.receive(packets[3]);
  EXPECT_EQ(*relaxed.b.at(kFlagAt), 0xff) << "the stale read that the flag of the MR allows";
  EXPECT_FALSE(relaxed.b.same(kRemote, relaxed.a, kLocal, 3 * kMtu));

  EndpointPair ordered;
  const auto same_packets = send_data_and_flag(ordered);
  ordered.b.receive(same_packets[3]);
  for (const int i : {1, 2}) ordered.b.receive(same_packets[i]);
  EXPECT_EQ(*ordered.b.at(kFlagAt), 0);
  ordered.b.receive(same_packets[0]);
  EXPECT_EQ(*ordered.b.at(kFlagAt), 0xff);
  EXPECT_TRUE(ordered.b.same(kRemote, ordered.a, kLocal, 3 * kMtu));
}

TEST(Ordering, TheDeviceMayForceEitherPolicy) {
  PairOptions options;
  options.params.placement = PlacementPolicy::kRelaxed;
  EndpointPair relaxed(options);
  auto packets = send_data_and_flag(relaxed);
  relaxed.b.receive(packets[3]);
  EXPECT_EQ(*relaxed.b.at(kFlagAt), 0xff);

  options.params.placement = PlacementPolicy::kOrdered;
  EndpointPair ordered(options);
  make_relaxed(ordered.b);
  packets = send_data_and_flag(ordered);
  ordered.b.receive(packets[3]);
  EXPECT_EQ(*ordered.b.at(kFlagAt), 0);
}

TEST(Ordering, ALateCopyDoesNotOverwriteWhatCameAfterIt) {
  RelaxedPair pair;
  *pair.a.at(kLocal) = 1;
  *pair.a.at(kLocal + 1) = 2;
  pair.a.post(WorkOpcode::kWrite, kLocal + 100, 1, kRemote + 100);  // comes last
  pair.a.post(WorkOpcode::kWrite, kLocal, 1, kRemote);
  pair.a.post(WorkOpcode::kWrite, kLocal + 1, 1, kRemote);
  const auto packets = pair.a.send();
  pair.b.receive(packets[1]);
  pair.b.receive(packets[2]);
  EXPECT_EQ(*pair.b.at(kRemote), 2);
  pair.b.receive(packets[1]);
  EXPECT_EQ(*pair.b.at(kRemote), 2) << "placed already";
  pair.b.receive(packets[0]);
  pair.b.receive(packets[1]);
  EXPECT_EQ(*pair.b.at(kRemote), 2) << "long over";
}

TEST(Ordering, AnImmediateTakesItsReceiveInItsTurn) {
  RelaxedPair pair;
  pair.b.post_recv(kRemote + 0x4000, 0);
  pair.a.fill(kLocal, 2 * kMtu, 9);
  pair.a.post(WorkOpcode::kWriteImm, kLocal, 2 * kMtu, kRemote, kSignaled | kSolicited);
  const auto packets = pair.a.send();
  pair.b.receive(packets[1]);
  EXPECT_EQ(pair.b.placed_at.size(), 1u);
  EXPECT_TRUE(pair.b.take_completions().empty());
  pair.b.receive(packets[0]);
  const auto completions = pair.b.take_completions();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].byte_len, 2 * kMtu);
  EXPECT_EQ(completions[0].imm, 0xabcdu);
  EXPECT_TRUE(completions[0].has_imm && completions[0].solicited);
}

TEST(Ordering, AnImmediateWithoutReceiveIsPlacedAndNeedNotComeAgain) {
  RelaxedPair pair;
  pair.a.fill(kLocal, 2 * kMtu, 9);
  pair.a.post(WorkOpcode::kWriteImm, kLocal, 2 * kMtu, kRemote);
  const auto packets = pair.a.send();
  pair.b.receive(packets[1]);
  const auto nack = pair.b.receive(packets[0]);
  ASSERT_TRUE(nack.has_value());
  EXPECT_EQ(nack->header.mp_ack.nack, wire::NackCode::kRnr);
  EXPECT_NE(nack->header.mp_ack.flags & wire::kMpAckHeld, 0);
  EXPECT_TRUE(pair.b.frames.empty());
  const auto ack = pair.b.post_recv(kRemote + 0x4000, 0);
  ASSERT_TRUE(ack.has_value());
  EXPECT_EQ(ack->header.psn, Psn(102));
  EXPECT_EQ(pair.b.take_completions().size(), 1u);
  EXPECT_EQ(pair.b.placed_at.size(), 2u) << "nothing is placed twice";
}

TEST(Ordering, WhatBreaksARuleIsNotPlacedEarlyAndIsJudgedInItsTurn) {
  using Spoil = void (*)(wire::Packet&);
  const Spoil spoils[] = {
      [](wire::Packet& p) { p.reth.rkey = Key(p.reth.rkey.value() ^ 1); },
      [](wire::Packet& p) { p.reth.va = Endpoint::kBase + Endpoint::kMemoryBytes - 10; },
      [](wire::Packet& p) { p.reth.dma_len += 1; },
      [](wire::Packet& p) { p.reth.dma_len = 10; },
      [](wire::Packet& p) { p.mp_data.offset -= 1; },
      [](wire::Packet& p) { p.mp_data.offset = UINT32_MAX - 100; },
      [](wire::Packet& p) { p.opcode = wire::Opcode::kMpWriteMiddle; },
      [](wire::Packet& p) { p.opcode = wire::Opcode::kMpWriteOnly; },
      [](wire::Packet& p) { p.opcode = wire::Opcode::kMpSendLast; },
  };
  for (const Spoil spoil : spoils) {
    EndpointPair pair;
    make_relaxed(pair.b);
    pair.a.post(WorkOpcode::kWrite, kLocal, 2 * kMtu + 100, kRemote);
    auto packets = pair.a.send();
    spoil(packets[2].header);
    const auto ack = pair.b.receive(packets[2]);
    EXPECT_TRUE(pair.b.placed_at.empty());
    EXPECT_EQ(ack->header.mp_ack.nack, wire::NackCode::kNone);
    pair.b.receive(packets[0]);
    const auto nack = pair.b.receive(packets[1]);
    EXPECT_GE(nack->header.mp_ack.nack, wire::NackCode::kInvalidRequest);
    EXPECT_EQ(nack->header.psn, Psn(102));
    EXPECT_EQ(pair.b.placed_at.size(), 2u);
  }
}

TEST(Ordering, AQueuePairThatForbidsWritesPlacesNoneEarly) {
  RelaxedPair pair;
  pair.b.attributes.access = kRemoteRead;
  pair.b.qp->set_attributes(pair.b.attributes);
  const auto packets = send_data_and_flag(pair);
  pair.b.receive(packets[3]);
  EXPECT_TRUE(pair.b.placed_at.empty());
}

TEST(Ordering, ARegionThatGoesAwayRefusesWhatWasPlacedInItsTurn) {
  RelaxedPair pair;
  const auto packets = send_data_and_flag(pair);
  pair.b.receive(packets[1]);
  EXPECT_EQ(pair.b.placed_at.size(), 1u);
  pair.b.regions.remove(pair.b.key);
  const auto nack = pair.b.receive(packets[0]);
  EXPECT_EQ(nack->header.mp_ack.nack, wire::NackCode::kRemoteAccessError);
  EXPECT_EQ(nack->header.psn, Psn(100));
  EXPECT_EQ(pair.b.qp->state(), QpState::kErr);
}

TEST(Ordering, ACompletionMeansThatEverythingBeforeItIsPlaced) {
  RelaxedPair pair;
  const auto packets = send_data_and_flag(pair);
  for (const int i : {3, 2, 1}) pair.a.receive(*pair.b.receive(packets[i]));
  EXPECT_TRUE(pair.a.take_completions().empty()) << "all but the first packet are in memory";
  pair.a.receive(*pair.b.receive(packets[0]));
  EXPECT_EQ(pair.a.take_completions().size(), 2u);
}

// ---- READ --------------------------------------------------------------------------------------

// The data packets of READs that node a has posted.
std::vector<Parcel> read_data(EndpointPair& pair) {
  for (const Parcel& request : pair.a.send()) pair.b.receive(request);
  return pair.b.send();
}

TEST(Ordering, ReadDataIsPlacedAsItArrivesWhereItsMemoryIsRelaxed) {
  RelaxedPair pair;
  pair.b.fill(kRemote, 3 * kMtu, 5);
  pair.a.post(WorkOpcode::kRead, kLocal, 2 * kMtu, kRemote);
  pair.a.post(WorkOpcode::kRead, kLocal + 2 * kMtu, kMtu, kRemote + 2 * kMtu);
  const auto data = read_data(pair);
  ASSERT_EQ(data.size(), 3u);
  for (const int i : {2, 1}) pair.a.receive(data[i]);
  EXPECT_EQ(pair.a.placed_at, (List{kLocal + 2 * kMtu, kLocal + kMtu}));
  EXPECT_TRUE(pair.a.take_completions().empty());
  EXPECT_TRUE(pair.a.frames.empty());
  pair.a.receive(data[2]);
  pair.a.receive(data[0]);
  EXPECT_EQ(pair.a.placed_at.size(), 3u);
  EXPECT_EQ(pair.a.take_completions().size(), 2u);
  EXPECT_TRUE(pair.a.same(kLocal, pair.b, kRemote, 3 * kMtu));
}

TEST(Ordering, ReadDataWaitsIfOnePieceOfItsMemoryIsNotRelaxed) {
  EndpointPair pair;
  const Key relaxed = MemoryTable::make_key(2, 1);
  pair.a.regions.set({.iova = kLocal,
                      .addr = kLocal,
                      .length = 0x10000,
                      .pd = 0,
                      .access = kLocalWrite | kRelaxedOrdering,
                      .key = relaxed});
  const Sge sges[] = {{kLocal, kMtu + 1, relaxed}, {kLocal + 0x8000, 2 * kMtu - 1, pair.a.key}};
  pair.a.qp->post_send(pair.a.now, {.wr_id = 1,
                                    .opcode = WorkOpcode::kRead,
                                    .flags = kSignaled,
                                    .rkey = pair.b.key,
                                    .remote_addr = kRemote,
                                    .sges = sges});
  pair.b.fill(kRemote, 3 * kMtu, 5);
  const auto data = read_data(pair);
  pair.a.receive(data[1]);  // one byte of it goes to the first piece
  EXPECT_TRUE(pair.a.placed_at.empty());
  pair.a.receive(data[0]);
  EXPECT_EQ(pair.a.placed_at, (List{kLocal, kLocal + kMtu, kLocal + 0x8000}));
}

TEST(Ordering, ASynchroniseReadWaitsForTheDataOfThoseBeforeIt) {
  PairOptions options = RelaxedPair::without_budget();
  options.held_budget = 1;
  options.params.sync_alpha = Fixed16();
  RelaxedPair pair(options);
  pair.a.post(WorkOpcode::kRead, kLocal, kMtu, kRemote);
  pair.a.post(WorkOpcode::kRead, kLocal, 2 * kMtu, kRemote + kMtu, kSignaled | kSynchronise);
  const auto data = read_data(pair);
  ASSERT_EQ(data.size(), 3u);
  pair.a.receive(data[1]);
  EXPECT_TRUE(pair.a.placed_at.empty());
  pair.a.receive(data[0]);
  EXPECT_EQ(pair.a.placed_at, (List{kLocal, kLocal}));
  pair.a.receive(data[2]);
  EXPECT_EQ(pair.a.placed_at.size(), 3u);
}

TEST(Ordering, ReadDataThatNamesAnotherReadIsNotPlacedEarly) {
  using Spoil = void (*)(wire::Packet&);
  const Spoil spoils[] = {
      [](wire::Packet& p) { p.mp_data.message_number = 0; },  // the READ before it
      [](wire::Packet& p) { p.mp_data.message_number = 2; },
      [](wire::Packet& p) { p.mp_data.offset = 0; },
      [](wire::Packet& p) { p.mp_data.offset = 64 * kMtu; },
      [](wire::Packet& p) { p.payload_len = 1; },
      [](wire::Packet& p) { p.opcode = wire::Opcode::kMpReadResponseMiddle; },
      [](wire::Packet& p) { p.opcode = wire::Opcode::kMpResponseError; },
  };
  for (const Spoil spoil : spoils) {
    RelaxedPair pair;
    pair.a.post(WorkOpcode::kRead, kLocal, kMtu, kRemote);
    pair.a.post(WorkOpcode::kRead, kLocal + 0x4000, 2 * kMtu, kRemote);
    auto data = read_data(pair);
    spoil(data[2].header);
    pair.a.receive(data[2]);
    EXPECT_TRUE(pair.a.placed_at.empty());
  }
}

// ---- Synchronise, at the receiver --------------------------------------------------------------

PairOptions without_delay() {
  PairOptions options;
  options.params.sync_alpha = Fixed16();
  return options;
}

TEST(Ordering, ASynchroniseFlagIsNeverSeenBeforeItsData) {
  RelaxedPair pair(without_delay());
  const auto packets = send_data_and_flag(pair, kSynchronise);
  ASSERT_EQ(packets.size(), 4u);
  pair.b.receive(packets[1]);
  const auto nack = pair.b.receive(packets[3]);
  EXPECT_EQ(nack->header.mp_ack.nack, wire::NackCode::kSyncTooEarly);
  EXPECT_EQ(nack->header.mp_ack.sack, Psn(103));
  EXPECT_EQ(*pair.b.at(kFlagAt), 0);
  pair.a.receive(*nack);
  for (const int i : {0, 2}) pair.a.receive(*pair.b.receive(packets[i]));
  EXPECT_EQ(*pair.b.at(kFlagAt), 0);
  pair.run();
  EXPECT_EQ(*pair.b.at(kFlagAt), 0xff);
  EXPECT_EQ(pair.a.take_completions().size(), 2u);
  EXPECT_EQ(pair.a.counters.retransmitted_sync, 1u);
  EXPECT_EQ(pair.a.counters.packets_retransmitted, 1u);
}

TEST(Ordering, PacketsOfASynchroniseOperationAreFreeAmongThemselves) {
  RelaxedPair pair(without_delay());
  pair.a.post(WorkOpcode::kWrite, kLocal, kMtu, kRemote + 0x8000);
  pair.a.post(WorkOpcode::kWrite, kLocal, 3 * kMtu, kRemote, kSignaled | kSynchronise);
  const auto packets = pair.a.send();
  ASSERT_EQ(packets.size(), 4u);
  EXPECT_EQ(pair.b.receive(packets[3])->header.mp_ack.nack, wire::NackCode::kSyncTooEarly);
  pair.b.receive(packets[0]);
  for (const int i : {3, 2, 1}) {
    EXPECT_EQ(pair.b.receive(packets[i])->header.mp_ack.nack, wire::NackCode::kNone);
  }
  EXPECT_EQ(pair.b.placed_at,
            (List{kRemote + 0x8000, kRemote + 2 * kMtu, kRemote + kMtu, kRemote}));
}

TEST(Ordering, WhatFollowsASynchroniseOperationMayOvertakeIt) {
  RelaxedPair pair(without_delay());
  pair.a.post(WorkOpcode::kWrite, kLocal, kMtu, kRemote);
  pair.a.post(WorkOpcode::kWrite, kLocal, kMtu, kRemote + kMtu, kSignaled | kSynchronise);
  pair.a.post(WorkOpcode::kWrite, kLocal, kMtu, kRemote + 2 * kMtu);
  const auto packets = pair.a.send();
  pair.b.receive(packets[2]);
  EXPECT_EQ(pair.b.placed_at, (List{kRemote + 2 * kMtu}));
}

TEST(Ordering, ASynchroniseOperationThatWaitsForItsTurnAnywayIsHeldNotRefused) {
  EndpointPair pair(without_delay());
  pair.b.post_recv(kRemote, 64);
  pair.a.post(WorkOpcode::kWrite, kLocal, kMtu, kRemote + 0x8000);
  pair.a.post(WorkOpcode::kWrite, kLocal, kMtu, kRemote + kMtu, kSignaled | kSynchronise);
  pair.a.post(WorkOpcode::kSend, kLocal, 8, 0, kSignaled | kSynchronise);
  const auto packets = pair.a.send();
  for (const int i : {2, 1}) {
    EXPECT_EQ(pair.b.receive(packets[i])->header.mp_ack.nack, wire::NackCode::kNone);
  }
  EXPECT_TRUE(pair.b.placed_at.empty());
  pair.b.receive(packets[0]);
  EXPECT_EQ(pair.b.placed_at.size(), 3u);
}

TEST(Ordering, ASynchroniseOperationBehindAnUnreadyReceiverComesThrough) {
  RelaxedPair pair(RelaxedPair::without_budget());
  pair.a.post(WorkOpcode::kSend, kLocal, 8);
  *pair.a.at(kLocal + 100) = 7;
  pair.a.post(WorkOpcode::kWrite, kLocal + 100, 1, kRemote, kSignaled | kSynchronise);
  for (int i = 0; i < 20; ++i) {
    pair.exchange();
    pair.advance(Duration::us(200));
    ASSERT_EQ(*pair.b.at(kRemote), 0);
  }
  pair.b.post_recv(kRemote + 0x100, 64);
  pair.run();
  EXPECT_EQ(*pair.b.at(kRemote), 7);
  EXPECT_EQ(pair.a.take_completions().size(), 2u);
}

// ---- Synchronise, at the sender ----------------------------------------------------------------

PairOptions with_delay() {
  PairOptions options;
  options.params.initial_rtt = Duration::us(20);
  options.params.reorder_delta = 32;
  options.params.initial_window = 16;  // so a delay of 2 SRTT
  return options;
}

TEST(Ordering, ASynchroniseOperationLeavesTheDelayAfterWhatWasSentBeforeIt) {
  RelaxedPair pair(with_delay());
  const Time start = pair.a.now;
  EXPECT_EQ(send_data_and_flag(pair, kSynchronise).size(), 3u);
  pair.a.post(WorkOpcode::kWrite, kLocal, 8, kRemote);
  EXPECT_TRUE(pair.a.send().empty()) << "work behind it waits, too";
  EXPECT_EQ(pair.a.qp->next_deadline(), start + Duration::us(40));
  pair.a.now = start + Duration::us(39);
  pair.a.on_deadline();
  EXPECT_TRUE(pair.a.send().empty());
  pair.a.now = start + Duration::us(40);
  pair.a.on_deadline();
  const auto packets = pair.a.send();
  ASSERT_EQ(packets.size(), 2u);
  EXPECT_NE(packets[0].header.mp_data.flags & wire::kMpDataSync, 0);
  EXPECT_EQ(packets[1].header.mp_data.flags & wire::kMpDataSync, 0);
  EXPECT_GT(pair.a.qp->next_deadline(), pair.a.now);
}

// The window that an acknowledgement takes while only the delay keeps a packet from leaving.
uint64_t taken_while_waiting(bool wait_is_backlog) {
  PairOptions options = with_delay();
  options.params.sync_wait_is_backlog = wait_is_backlog;
  RelaxedPair pair(options);
  const auto packets = send_data_and_flag(pair, kSynchronise);
  pair.a.now = pair.b.now = pair.a.now + Duration::us(10);
  for (size_t i = 0; i < 2; ++i) pair.a.receive(*pair.b.receive(packets[i]));
  EXPECT_TRUE(pair.a.send().empty());
  return pair.a.counters.window_reductions;
}

TEST(Ordering, TheDelayOfASynchroniseOperationCostsNoWindow) {
  EXPECT_EQ(taken_while_waiting(true), 0U);
  EXPECT_EQ(taken_while_waiting(false), 2U) << "to the letter";
}

// A packet that waits because an operation before it was refused costs no window either.
TEST(Ordering, ARefusedSynchroniseOperationInFrontCostsNoWindow) {
  RelaxedPair pair(with_delay());
  const auto data = send_data_and_flag(pair, kSynchronise);
  pair.a.post(WorkOpcode::kWrite, kLocal, 8, kRemote, kSignaled | kSynchronise);
  pair.a.now = pair.b.now = pair.a.now + Duration::us(40);
  pair.a.on_deadline();
  const auto flag = pair.a.send();
  ASSERT_EQ(flag.size(), 1u);
  pair.a.receive(*pair.b.receive(flag[0]));
  ASSERT_EQ(pair.a.counters.retransmitted_sync, 1u);
  pair.a.receive(*pair.b.receive(data[1]));
  EXPECT_TRUE(pair.a.send().empty());
  EXPECT_EQ(pair.a.counters.window_reductions, 0u);
}

TEST(Ordering, NothingWaitsIfNothingIsOutstanding) {
  RelaxedPair pair(with_delay());
  pair.a.post(WorkOpcode::kWrite, kLocal, kMtu, kRemote, kSignaled | kSynchronise);
  EXPECT_EQ(pair.a.send().size(), 1u);
}

TEST(Ordering, NothingWaitsForAReceiverThatPlacesInOrder) {
  EndpointPair pair(with_delay());
  pair.a.post(WorkOpcode::kWrite, kLocal, kMtu, kRemote);
  pair.run();  // the receiver says so
  EXPECT_EQ(send_data_and_flag(pair, kSynchronise).size(), 4u);
  pair.run();
  // The sender waits again once the receiver reports the opposite.
  make_relaxed(pair.b);
  pair.a.post(WorkOpcode::kWrite, kLocal, kMtu, kRemote);
  pair.run();
  EXPECT_EQ(send_data_and_flag(pair, kSynchronise).size(), 3u);
}

TEST(Ordering, BeforeTheReceiverIsHeardSynchroniseWaits) {
  EndpointPair pair(with_delay());
  EXPECT_EQ(send_data_and_flag(pair, kSynchronise).size(), 3u);
}

TEST(Ordering, StopAndWaitLeavesWhenEverythingBeforeIsComplete) {
  PairOptions options = with_delay();
  options.params.sync_policy = SyncPolicy::kStopAndWait;
  RelaxedPair pair(options);
  pair.a.post(WorkOpcode::kRead, kLocal + 0x6000, 8, kRemote + 0x6000);
  const auto packets = send_data_and_flag(pair, kSynchronise);
  ASSERT_EQ(packets.size(), 4u) << "READ and data";
  pair.a.now += Duration::us(300);
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(pair.a.send().empty());
    pair.a.receive(*pair.b.receive(packets[i]));
  }
  EXPECT_TRUE(pair.a.send().empty()) << "READ data is under way";
  for (const Parcel& data : pair.b.send()) pair.a.receive(data);
  EXPECT_EQ(pair.a.send().size(), 1u);
}

}  // namespace
}  // namespace mprdma::transport
