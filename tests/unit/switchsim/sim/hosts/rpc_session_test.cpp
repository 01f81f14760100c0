// The session of RPCs by itself: credits, order, and going back.
#include "switchsim/sim/hosts/rpc_session.hpp"

#include <gtest/gtest.h>

namespace mprdma::switchsim {
namespace {

constexpr SimSpan kTimeout = SimSpan::ms(5);

SimTime at_us(int64_t us) {
  return SimTime() + SimSpan::us(us);
}

// A client whose `posted` requests are sent as far as the credits allow, at time 0.
RpcClient client_of(uint32_t credits, uint32_t posted) {
  RpcClient client(credits, kTimeout);
  for (uint32_t i = 0; i < posted; ++i) client.post();
  while (client.may_send()) client.send(at_us(0));
  return client;
}

TEST(RpcClient, SpendsACreditForEachRequestAndGetsItBackWithTheResponse) {
  RpcClient client = client_of(3, 5);
  EXPECT_EQ(client.in_flight(), 3U);
  EXPECT_EQ(client.on_response(at_us(6), 0), RpcVerdict::kTaken);
  ASSERT_TRUE(client.may_send());
  EXPECT_EQ(client.next(), 3U);
  client.send(at_us(6));
  EXPECT_FALSE(client.may_send());
}

TEST(RpcClient, SendsNothingThatWasNotPosted) {
  RpcClient client = client_of(8, 2);
  EXPECT_EQ(client.in_flight(), 2U);
  EXPECT_FALSE(client.may_send());
  client.post();
  EXPECT_TRUE(client.may_send());
}

TEST(RpcClient, DropsResponsesOutOfOrder) {
  RpcClient client = client_of(4, 4);
  EXPECT_EQ(client.on_response(at_us(6), 1), RpcVerdict::kAhead);
  EXPECT_EQ(client.on_response(at_us(6), 0), RpcVerdict::kTaken);
  EXPECT_EQ(client.on_response(at_us(6), 0), RpcVerdict::kCopy);
  EXPECT_EQ(client.in_flight(), 3U);
}

TEST(RpcClient, DropsTheResponseToWhatItNeverSent) {
  RpcClient client(8, kTimeout);
  EXPECT_EQ(client.on_response(at_us(1), 0), RpcVerdict::kAhead);
  client.post();
  EXPECT_EQ(client.on_response(at_us(1), 0), RpcVerdict::kAhead);
  EXPECT_TRUE(client.may_send());
}

TEST(RpcClient, GoesBackToTheOldestWithoutAResponse) {
  RpcClient client = client_of(4, 8);
  EXPECT_EQ(client.on_response(at_us(6), 0), RpcVerdict::kTaken);
  client.send(at_us(6));
  client.on_deadline(at_us(5'005));  // a us before it is time
  EXPECT_EQ(client.timeouts(), 0U);
  EXPECT_EQ(client.deadline(), at_us(5'006));
  client.on_deadline(at_us(5'006));
  EXPECT_EQ(client.timeouts(), 1U);
  EXPECT_EQ(client.next(), 1U);
  EXPECT_EQ(client.in_flight(), 0U);
  while (client.may_send()) client.send(at_us(5'006));
  EXPECT_EQ(client.resent(), 4U);
  EXPECT_EQ(client.deadline(), at_us(10'006));
}

TEST(RpcClient, CountsTheTimeoutFromTheLastProgress) {
  RpcClient client = client_of(2, 2);
  EXPECT_EQ(client.deadline(), at_us(5'000));
  EXPECT_EQ(client.on_response(at_us(4'000), 0), RpcVerdict::kTaken);
  EXPECT_EQ(client.deadline(), at_us(9'000));
  EXPECT_EQ(client.on_response(at_us(4'100), 1), RpcVerdict::kTaken);
  EXPECT_TRUE(client.deadline().is_never());
  client.post();
  client.send(at_us(8'000));  // after a pause, not from the response before it
  EXPECT_EQ(client.deadline(), at_us(13'000));
}

// The response to an original that was late: what it answers is not sent again.
TEST(RpcClient, TakesALateResponseAfterItWentBack) {
  RpcClient client = client_of(2, 3);
  client.on_deadline(at_us(5'000));
  EXPECT_EQ(client.on_response(at_us(5'001), 0), RpcVerdict::kTaken);
  EXPECT_EQ(client.first(), 1U);
  EXPECT_EQ(client.next(), 1U);
  EXPECT_EQ(client.in_flight(), 0U);
}

TEST(RpcServer, TakesInOrderAnswersCopiesAndDropsWhatIsAhead) {
  RpcServer server;
  EXPECT_EQ(server.on_request(1), RpcVerdict::kAhead);
  EXPECT_EQ(server.on_request(0), RpcVerdict::kTaken);
  EXPECT_EQ(server.on_request(0), RpcVerdict::kCopy);
  EXPECT_EQ(server.on_request(1), RpcVerdict::kTaken);
  EXPECT_EQ(server.ahead_of(2), 0);
  EXPECT_EQ(server.ahead_of(5), 3);
  EXPECT_EQ(server.ahead_of(UINT32_MAX), -3);
}

}  // namespace
}  // namespace mprdma::switchsim
