// Rate controllers that follow the round trip: which acknowledgements give a sample, in both modes.
// Above T_high TIMELY lowers the rate at once, so a late acknowledgement shows as a limit.
#include <gtest/gtest.h>

#include "tests/support/endpoint_pair.hpp"
#include "tests/support/roce_pair.hpp"
#include "tests/support/wire.hpp"
#include "transport/roce/round_trips.hpp"

namespace mprdma::transport {
namespace {

constexpr uint64_t kBase = RoceHost::kBase;
constexpr uint32_t kMtu = 1024;
constexpr uint64_t kLink = 40'000'000'000;
constexpr Duration kLate = Duration::ms(1);
// T_high is 500 us: 0.8 (1 - 500 / 1000) of the rate is taken.
constexpr uint64_t kAfterLate = kLink / 10 * 6;

RocePair timed_pair() {
  RoceOptions options;
  options.params = Params::roce_with(Congestion::kTimely);
  options.params.link_mbps = 40'000;
  return RocePair(options);
}

uint64_t rate_of(const Qp& qp) {
  return qp.request_stats().rate_bps;
}
void expect_limit(const Qp& qp, uint64_t rate) {
  EXPECT_NEAR(static_cast<double>(rate_of(qp)), static_cast<double>(rate), 1e-3 * kLink);
}

TEST(RoundTrip, OfRoceIsFromTheAskingPacketToItsAcknowledgement) {
  RocePair pair = timed_pair();
  pair.a.post(WorkOpcode::kWrite, kBase, 8 * kMtu);
  pair.b.receive(pair.a.send());
  pair.a.now += Duration::us(30);
  pair.a.receive(pair.b.send());
  EXPECT_EQ(rate_of(*pair.a.qp), 0U) << "short";

  pair.a.post(WorkOpcode::kWrite, kBase, 8 * kMtu);
  pair.b.receive(pair.a.send());
  pair.a.now += kLate;
  const auto answers = pair.b.send();
  pair.a.receive(answers);
  expect_limit(*pair.a.qp, kAfterLate);
  pair.a.now += kLate;
  pair.a.receive(answers);
  expect_limit(*pair.a.qp, kAfterLate);  // a duplicate is no sample
}

TEST(RoundTrip, OfRoceIsUnknownForWhatWasSentBeforeARepetition) {
  RocePair pair = timed_pair();
  pair.a.post(WorkOpcode::kWrite, kBase, 2 * kMtu);
  const auto sent = pair.a.send();
  pair.b.receive(sent[1]);
  pair.a.now += kLate;
  pair.a.receive(pair.b.send());  // go back
  pair.b.receive(pair.a.send());
  pair.a.now += kLate;
  pair.a.receive(pair.b.send());
  EXPECT_EQ(pair.a.completions().size(), 1U);
  EXPECT_EQ(rate_of(*pair.a.qp), 0U);
}

TEST(RoundTrip, OfRoceIsNotThatOfAReadNorOfWhatWaitsBehindOne) {
  RocePair pair = timed_pair();
  pair.a.post(WorkOpcode::kRead, kBase, 2 * kMtu, kBase + 0x8000);
  pair.a.post(WorkOpcode::kWrite, kBase, kMtu);
  pair.b.receive(pair.a.send());
  pair.a.now += kLate;
  pair.a.receive(pair.b.send());
  EXPECT_EQ(pair.a.completions().size(), 2U);
  EXPECT_EQ(rate_of(*pair.a.qp), 0U);
}

TEST(RoundTrip, TheNewestPacketThatIsAcknowledgedIsTheSample) {
  RoundTrips trips;
  const Time begin = Time::from_ns(1'000'000);
  const Psn first(0xfffffe);
  for (uint32_t i = 0; i < 20; ++i) trips.note(begin + Duration::us(i), first + i);
  const Time now = begin + Duration::us(100);
  EXPECT_EQ(trips.take(now, first - 1), Duration::zero());
  EXPECT_EQ(trips.take(now, first + 3), Duration::us(97));
  EXPECT_EQ(trips.take(now, first + 3), Duration::zero());
  EXPECT_EQ(trips.take(now, first + 19), Duration::us(85)) << "16 are timed";
  trips.note(now, first + 30);
  trips.forget();
  EXPECT_EQ(trips.take(now, first + 30), Duration::zero());
}

// ---- The mode mp: acknowledgements echo when the copy left

EndpointPair timed_endpoints() {
  PairOptions options;
  options.params.congestion = Congestion::kTimely;
  options.params.link_mbps = 40'000;
  return EndpointPair(options);
}

TEST(RoundTrip, OfMpIsTheEchoOfAnAcknowledgementOfSomethingNew) {
  EndpointPair pair = timed_endpoints();
  pair.a.post(WorkOpcode::kWrite, kBase, kMtu, kBase);
  const auto ack = pair.b.receive(pair.a.send().at(0));
  ASSERT_TRUE(ack);
  pair.a.now = pair.b.now = pair.a.now + kLate;
  pair.a.receive(*ack);
  expect_limit(*pair.a.qp, kAfterLate);
  pair.a.now = pair.b.now = pair.a.now + kLate;
  pair.a.receive(*ack);
  expect_limit(*pair.a.qp, kAfterLate);
}

TEST(RoundTrip, OfMpCountsForResponsesToo) {
  EndpointPair pair = timed_endpoints();
  pair.a.post(WorkOpcode::kRead, kBase, kMtu, kBase);
  pair.b.receive(pair.a.send().at(0));
  const auto responses = pair.b.send();
  ASSERT_EQ(responses.size(), 1U);
  const auto ack = pair.a.receive(responses[0]);
  ASSERT_TRUE(ack);
  pair.a.now = pair.b.now = pair.a.now + kLate;
  pair.b.receive(*ack);
  expect_limit(*pair.b.qp, kAfterLate);
}

}  // namespace
}  // namespace mprdma::transport
