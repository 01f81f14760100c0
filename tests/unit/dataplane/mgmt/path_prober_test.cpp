// Path probes at the side that asks: whose answer counts, and how a question ends without one.
#include "dataplane/mgmt/path_prober.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "base/ipv4.hpp"

namespace mprdma::dataplane {
namespace {

constexpr Ipv4 kPeer{0x0a490002};
constexpr uint32_t kClient = 9;
constexpr Time kStart = Time::from_ns(5'000'000'000);

ProbeQuestion question() {
  ProbeQuestion out;
  out.serial = 1;
  out.peer = kPeer;
  out.sequence = 101;
  out.source_port = 49'500;
  out.bytes = out.answer_bytes = 256;
  return out;
}

class PathProberTest : public ::testing::Test {
 protected:
  wire::ProbeMad asked() {
    PathProber::Open* open = prober_.ask(kClient, question(), kStart);
    EXPECT_NE(open, nullptr);
    return PathProber::send(*open, kStart);
  }
  bool answered_by(Ipv4 peer, const wire::ProbeMad& answer) {
    wire::DecodedFrame decoded;
    decoded.address.src_ip = wire::map_ipv4(peer);
    return prober_.on_answer(answer, decoded, kStart + Duration::us(40));
  }
  // The errors of the results; 0 is an answer.
  std::vector<int> errors() {
    std::vector<int> out;
    prober_.drain_results([&](const PathProber::Result& r) { out.push_back(r.outcome.error); });
    return out;
  }

  PathProber prober_{77};
};

TEST_F(PathProberTest, OnlyWhoWasAskedAnswersAndOnlyOnce) {
  const wire::ProbeMad answer = asked();
  EXPECT_FALSE(answered_by(Ipv4(kPeer.value() + 1), answer));
  wire::ProbeMad other = answer;
  ++other.sequence;
  EXPECT_FALSE(answered_by(kPeer, other));
  EXPECT_TRUE(errors().empty());
  EXPECT_TRUE(answered_by(kPeer, answer));
  EXPECT_FALSE(answered_by(kPeer, answer));
  EXPECT_EQ(errors(), std::vector<int>{0});
}

TEST_F(PathProberTest, AQuestionEndsWithoutAnAnswer) {
  asked();
  prober_.ask(kClient, question(), kStart);  // not sent: its neighbour is not known
  prober_.expire(kStart + PathProber::kTimeout - Duration::ns(1));
  EXPECT_TRUE(errors().empty());
  EXPECT_EQ(prober_.next_deadline(), kStart + PathProber::kTimeout);
  prober_.expire(kStart + PathProber::kTimeout);
  EXPECT_EQ(errors(), (std::vector<int>{ETIMEDOUT, EHOSTUNREACH}));
  EXPECT_TRUE(prober_.next_deadline().is_never());
}

TEST(PathProber, AsksOnlyASingleHost) {
  EXPECT_EQ(PathProber::check(question()), 0);
  for (const uint32_t nobody : {0U, 0xe0000001U, 0xffffffffU}) {
    ProbeQuestion bad = question();
    bad.peer = Ipv4(nobody);
    EXPECT_EQ(PathProber::check(bad), EINVAL) << nobody;
  }
}

}  // namespace
}  // namespace mprdma::dataplane
