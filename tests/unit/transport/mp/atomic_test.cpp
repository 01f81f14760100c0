// Atomics in the mode `mp` (IBTA 9.4.5; design 3.3, rule 3), in dialogue.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/support/endpoint_pair.hpp"
#include "tests/support/print.hpp"

namespace mprdma::transport {
namespace {

constexpr uint64_t kLocal = Endpoint::kBase;
constexpr uint64_t kRemote = Endpoint::kBase + 0x10000;

PairOptions with_depth(uint8_t depth) {
  PairOptions options;
  options.attributes.max_rd_atomic = options.attributes.max_dest_rd_atomic = depth;
  return options;
}

PostResult post_add(Endpoint& from, uint64_t add, uint64_t remote = kRemote, uint16_t flags = 0) {
  const Sge sge{kLocal, 8, from.key};
  return from.post({.opcode = WorkOpcode::kFetchAdd,
                    .flags = static_cast<uint16_t>(kSignaled | flags),
                    .rkey = from.key,
                    .remote_addr = remote,
                    .compare_add = add,
                    .sges = {&sge, 1}});
}

PostResult post_swap(Endpoint& from, uint64_t compare, uint64_t swap, uint64_t remote = kRemote) {
  const Sge sge{kLocal, 8, from.key};
  return from.post({.opcode = WorkOpcode::kCompareSwap,
                    .flags = kSignaled,
                    .rkey = from.key,
                    .remote_addr = remote,
                    .compare_add = compare,
                    .swap = swap,
                    .sges = {&sge, 1}});
}

// Takes the only completion.
Completion only_completion(Endpoint& endpoint) {
  const auto completions = endpoint.take_completions();
  EXPECT_EQ(completions.size(), 1u);
  return completions.empty() ? Completion{} : completions.front();
}

TEST(Atomic, FetchAddChangesThereAndReturnsWhatWas) {
  EndpointPair pair;
  pair.b.set_value(kRemote, 40);
  ASSERT_EQ(post_add(pair.a, 2), PostResult::kOk);
  pair.run();
  const Completion done = only_completion(pair.a);
  EXPECT_EQ(done.status, WcStatus::kSuccess);
  EXPECT_EQ(done.opcode, WcOpcode::kFetchAdd);
  EXPECT_EQ(done.byte_len, 8u);
  EXPECT_EQ(pair.b.value(kRemote), 42u);
  EXPECT_EQ(pair.a.value(kLocal), 40u);
  EXPECT_TRUE(pair.b.take_completions().empty()) << "the responder's application sees nothing";
  EXPECT_EQ(pair.a.counters.packets_retransmitted + pair.b.counters.packets_retransmitted, 0u);
}

TEST(Atomic, CompareSwapSwapsOnlyWhatIsEqual) {
  EndpointPair pair;
  pair.b.set_value(kRemote, 7);
  ASSERT_EQ(post_swap(pair.a, 6, 100), PostResult::kOk);
  pair.run();
  EXPECT_EQ(only_completion(pair.a).opcode, WcOpcode::kCompareSwap);
  EXPECT_EQ(pair.b.value(kRemote), 7u);
  EXPECT_EQ(pair.a.value(kLocal), 7u);
  ASSERT_EQ(post_swap(pair.a, 7, 100), PostResult::kOk);
  pair.run();
  EXPECT_EQ(pair.b.value(kRemote), 100u);
  EXPECT_EQ(pair.a.value(kLocal), 7u);
}

TEST(Atomic, RepeatedRequestIsExecutedOnceAndRepeatedAnswerIsTheFirstOne) {
  EndpointPair pair;
  post_add(pair.a, 1);
  const auto request = pair.a.send();
  ASSERT_EQ(request.size(), 1u);
  pair.b.receive(request[0]);
  pair.b.receive(request[0]);
  EXPECT_EQ(pair.b.value(kRemote), 1u);
  const auto answer = pair.b.send();
  ASSERT_EQ(answer.size(), 1u);
  pair.b.set_value(kRemote, 99);  // somebody else changes it
  std::vector<Parcel> again;      // the answer was lost
  while (again.empty()) {
    pair.advance(Duration::ms(1));
    again = pair.b.send();
  }
  EXPECT_EQ(again[0].header.opcode, wire::Opcode::kMpAtomicAck);
  EXPECT_EQ(again[0].header.atomic_original, answer[0].header.atomic_original);
  pair.a.receive(again[0]);
  EXPECT_EQ(only_completion(pair.a).status, WcStatus::kSuccess);
  EXPECT_EQ(pair.a.value(kLocal), 0u);
}

TEST(Atomic, WaitsForItsTurn) {
  EndpointPair pair(with_depth(4));
  post_add(pair.a, 1);
  post_swap(pair.a, 1, 50);
  const auto requests = pair.a.send();
  ASSERT_EQ(requests.size(), 2u);
  pair.b.receive(requests[1]);
  EXPECT_EQ(pair.b.value(kRemote), 0u);
  pair.b.receive(requests[0]);
  EXPECT_EQ(pair.b.value(kRemote), 50u) << "both in one call, the first before the second";
  const auto answers = pair.b.send();
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].header.atomic_original, 0u);
  EXPECT_EQ(answers[1].header.atomic_original, 1u);
  pair.a.receive(answers[1]);
  EXPECT_TRUE(pair.a.take_completions().empty());
  pair.a.receive(answers[0]);
  EXPECT_EQ(pair.a.take_completions().size(), 2u);
}

TEST(Atomic, SharesItsDepthWithReadsAndHoldsAFenceBack) {
  EndpointPair pair(with_depth(2));
  post_add(pair.a, 1);
  pair.a.post(WorkOpcode::kRead, kLocal + 64, 64, kRemote + 64);
  post_add(pair.a, 1);
  EXPECT_EQ(pair.a.send().size(), 2u);
  EndpointPair fenced(with_depth(2));
  post_add(fenced.a, 1);
  fenced.a.post(WorkOpcode::kWrite, kLocal, 8, kRemote + 64, kSignaled | kFence);
  EXPECT_EQ(fenced.a.send().size(), 1u);
  fenced.run();
  EXPECT_EQ(fenced.a.take_completions().size(), 2u);
}

TEST(Atomic, ResultIsScatteredOverTheList) {
  EndpointPair pair;
  pair.b.set_value(kRemote, 0x1122334455667788);
  const Sge sges[] = {
      {kLocal, 3, pair.a.key}, {kLocal + 100, 1, pair.a.key}, {kLocal + 200, 4, pair.a.key}};
  ASSERT_EQ(pair.a.post({.opcode = WorkOpcode::kFetchAdd,
                         .flags = kSignaled,
                         .rkey = pair.a.key,
                         .remote_addr = kRemote,
                         .sges = sges}),
            PostResult::kOk);
  pair.run();
  EXPECT_EQ(only_completion(pair.a).byte_len, 8u);
  std::vector<uint8_t> got(pair.a.at(kLocal), pair.a.at(kLocal) + 3);
  got.push_back(*pair.a.at(kLocal + 100));
  got.insert(got.end(), pair.a.at(kLocal + 200), pair.a.at(kLocal + 204));
  const uint64_t value = 0x1122334455667788;
  EXPECT_EQ(std::memcmp(got.data(), &value, 8), 0);
  EXPECT_EQ(*pair.a.at(kLocal + 204), 0) << "beyond the eight bytes";
}

TEST(Atomic, MisalignedIsAnInvalidRequest) {
  EndpointPair pair;
  post_add(pair.a, 1, kRemote + 4);
  pair.run();
  EXPECT_EQ(only_completion(pair.a).status, WcStatus::kRemoteInvalidRequestError);
  EXPECT_EQ(pair.b.value(kRemote), 0u);
  EXPECT_EQ(pair.b.qp->state(), QpState::kErr);
  EXPECT_EQ(pair.b.qp->poll_event(), QpEvent::kRequestError);
}

TEST(Atomic, RightOfTheRegionAndOfTheQueuePairAreNeeded) {
  EndpointPair pair;
  pair.b.regions.set({.iova = kRemote,
                      .addr = kRemote,
                      .length = 64,
                      .access = kLocalWrite | kRemoteWrite | kRemoteRead,
                      .key = pair.b.key});
  post_add(pair.a, 1);
  pair.run();
  EXPECT_EQ(only_completion(pair.a).status, WcStatus::kRemoteAccessError);
  EXPECT_EQ(pair.b.qp->poll_event(), QpEvent::kAccessError);
  EndpointPair closed;
  closed.b.attributes.access = kRemoteRead | kRemoteWrite;
  closed.b.qp->set_attributes(closed.b.attributes);
  post_add(closed.a, 1);
  closed.run();
  EXPECT_EQ(only_completion(closed.a).status, WcStatus::kRemoteInvalidRequestError);
  EXPECT_EQ(closed.b.value(kRemote), 0u);
}

// An executed atomic cannot be taken back, so the place for its result is checked first.
TEST(Atomic, WithoutAPlaceForTheResultNothingIsSent) {
  for (const bool short_list : {false, true}) {
    EndpointPair pair;
    const Sge sge{kLocal, short_list ? 7u : 8u, Key(pair.a.key.value() + (short_list ? 0 : 1))};
    ASSERT_EQ(pair.a.post({.opcode = WorkOpcode::kFetchAdd,
                           .rkey = pair.a.key,
                           .remote_addr = kRemote,
                           .compare_add = 1,
                           .sges = {&sge, 1}}),
              PostResult::kOk);
    pair.run();
    EXPECT_EQ(only_completion(pair.a).status,
              short_list ? WcStatus::kLocalLengthError : WcStatus::kLocalProtectionError);
    EXPECT_EQ(pair.b.value(kRemote), 0u);
  }
}

TEST(Atomic, AnswerOfTheWrongKindIsABadResponse) {
  EndpointPair pair;
  post_add(pair.a, 1);
  for (const Parcel& request : pair.a.send()) pair.a.receive(*pair.b.receive(request));
  Parcel answer = pair.b.send().at(0);
  answer.header.opcode = wire::Opcode::kMpReadResponseOnly;
  answer.header.payload_len = 8;
  answer.payload.resize(8);
  pair.a.receive(answer);
  EXPECT_EQ(only_completion(pair.a).status, WcStatus::kBadResponseError);
}

}  // namespace
}  // namespace mprdma::transport
