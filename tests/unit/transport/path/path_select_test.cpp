// What a path policy is told, and that the sender of a stream tells it.
#include "transport/path/path_select.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "base/alternatives.hpp"
#include "tests/unit/transport/stream/many_path_sender.hpp"

namespace mprdma::transport {
namespace {

constexpr uint16_t kFixed = 50'000;

// Its next path is a code for the last thing that it was told.
class Listener {
 public:
  static constexpr std::string_view kName = "listener";
  static constexpr bool kClocked = false;

  void reset(uint16_t fixed_vp) { vp_ = fixed_vp; }
  uint16_t next(Time, Prng&) const { return vp_; }
  void on_ack(const PathSample& sample) { vp_ = sample.vp; }
  void on_loss(uint16_t vp) { vp_ = vp; }
  void on_timeout(Time) { vp_ = 1; }
  void on_round(bool congested) { vp_ = congested ? 3 : 2; }

 private:
  uint16_t vp_ = 0;
};
static_assert(PathChoice<Listener> && Listener::kName == "listener");

// A member that would never be called is refused.
class Misheard : public Listener {
 public:
  void on_loss(Time, uint16_t) {}
};
static_assert(!PathChoice<Misheard>);

enum class Which : uint8_t { kDeaf, kListener };
using Selector = BasicPathSelector<Alternatives<void, SinglePath, Listener>>;

Selector make(Which which) {
  Selector paths(which);
  paths.reset(kFixed, Prng(1));
  return paths;
}

TEST(PathSelector, APolicyHearsWhatItHasMembersFor) {
  Selector paths = make(Which::kListener);
  const Time now = Time::from_ns(1'000);
  EXPECT_EQ(paths.draw(now), kFixed);
  paths.on_ack({.now = now, .vp = 60'000});
  EXPECT_EQ(paths.draw(now), 60'000);
  paths.on_loss(60'001);
  EXPECT_EQ(paths.draw(now), 60'001);
  paths.on_timeout(now);
  EXPECT_EQ(paths.draw(now), 1);
}

TEST(PathSelector, ADeafPolicyIsToldNothing) {
  Selector paths = make(Which::kDeaf);
  const Time now = Time::from_ns(1'000);
  paths.on_ack({.now = now, .vp = 60'000, .ece = true});
  paths.on_loss(60'000);
  paths.on_timeout(now);
  paths.on_round();
  EXPECT_EQ(paths.draw(now), kFixed);
}

TEST(PathSelector, ARoundIsCongestedIfHalfOfItsAcknowledgementsHadAMark) {
  Selector paths = make(Which::kListener);
  const Time now = Time::from_ns(1'000);
  const auto round = [&](int marked, int clean) {
    for (int i = 0; i < marked + clean; ++i) paths.on_ack({.now = now, .congested = i < marked});
    paths.on_round();
    return paths.draw(now) == 3;
  };
  EXPECT_FALSE(round(0, 0)) << "silence is no congestion";
  EXPECT_FALSE(round(1, 2));
  EXPECT_TRUE(round(2, 2));
  EXPECT_FALSE(round(0, 4)) << "each round counts anew";
}

// ---- The sender of a stream tells its policy

using many_paths::Stream;

Stream repathing() {
  Params params = many_paths::clocked_params(8);
  params.path_policy = PathPolicy::kRepath;
  return Stream(params);
}
// The path of the next packet; an acknowledgement has made room for one.
uint16_t next_path(Stream& s) {
  const std::vector<uint16_t> paths = s.send(1);
  return paths.empty() ? 0 : paths[0];
}

TEST(PathSelector, AStreamStaysOnItsPathWhileNothingIsWrong) {
  Stream s = repathing();
  for (const uint16_t vp : s.send()) EXPECT_EQ(vp, kFixed);
  for (int i = 0; i < 20; ++i) {
    s.pass(Duration::us(10));
    s.ack(i + 1, i, kFixed);
    EXPECT_EQ(next_path(s), kFixed);
  }
}

TEST(PathSelector, ALossIsHeardWithThePathThatANackNames) {
  Stream s = repathing();
  s.send();
  s.overflow(0, 7, kFixed);
  EXPECT_NE(next_path(s), kFixed);
}

TEST(PathSelector, ALossByReorderingIsHeardWithThePathOfThePacket) {
  Params params = many_paths::clocked_params(32);
  params.path_policy = PathPolicy::kRepath;
  params.loss_trigger = 8;
  Stream s(params);
  s.send();
  s.overflow(0, 31, kFixed);
  const uint16_t other = next_path(s);  // the copy of 31
  ASSERT_NE(other, kFixed);
  s.ack(0, 9, kFixed);  // 0 and 1 are lost, of the path that it has left
  for (const uint16_t vp : s.send()) EXPECT_EQ(vp, other);
  ASSERT_EQ(s.last.kind, StreamSender::Choice::Kind::kRetransmit);
  for (int i = 2; i < 31; ++i) s.ack(0, i, kFixed);
  for (const uint16_t vp : s.send()) EXPECT_EQ(vp, other) << "new packets";
  s.ack(0, 50, other);  // 31's copy is lost, and new packets
  EXPECT_NE(next_path(s), other);
}

TEST(PathSelector, ATimeoutIsHeard) {
  Stream s = repathing();
  s.send();
  s.time_out();
  EXPECT_NE(next_path(s), kFixed);
}

TEST(PathSelector, ACongestedRoundIsHeard) {
  Stream s = repathing();
  s.send();
  s.pass(Duration::us(10));
  for (int i = 0; i < 6; ++i) s.ack(i + 1, i, kFixed, wire::kMpAckEce);
  for (const uint16_t vp : s.send()) EXPECT_EQ(vp, kFixed) << "the round is not over";
  s.pass(Duration::us(20));
  s.ack(7, 6, kFixed);
  EXPECT_NE(next_path(s), kFixed);
}

TEST(PlbPath, LeavesAPathAfterTwelveCongestedRoundsInARow) {
  PlbPath plb;
  Prng prng(1);
  const auto next = [&] { return plb.next(Time(), prng); };
  plb.reset(kFixed);
  for (int i = 0; i < 11; ++i) plb.on_round(true);
  EXPECT_EQ(next(), kFixed);
  plb.on_round(false);
  for (int i = 0; i < 11; ++i) plb.on_round(true);
  EXPECT_EQ(next(), kFixed) << "one good round: it counts anew";
  plb.on_round(true);
  const uint16_t other = next();
  EXPECT_NE(other, kFixed);
  EXPECT_EQ(next(), other);
  plb.on_round(true);
  EXPECT_EQ(next(), other);
  plb.on_timeout(Time());
  EXPECT_NE(next(), other);
}

TEST(PlbPath, LeavesAPathAfterThreeCongestedRoundsIfNothingIsInFlight) {
  PlbPath plb;
  Prng prng(1);
  plb.reset(kFixed);
  plb.on_round(true);
  plb.on_round(true);
  plb.on_idle();
  EXPECT_EQ(plb.next(Time(), prng), kFixed);
  plb.on_round(true);
  EXPECT_EQ(plb.next(Time(), prng), kFixed) << "packets are in flight";
  plb.on_idle();
  EXPECT_NE(plb.next(Time(), prng), kFixed);
}

TEST(PathSelector, APolicyIsToldWhenNothingIsOutstanding) {
  for (const bool idle : {true, false}) {
    Params params = many_paths::clocked_params(32);
    params.path_policy = PathPolicy::kPlb;
    params.limit_growth = false;  // a mark leaves room for two packets, too
    Stream s(params);
    if (!idle) s.send(1);  // from here on two are outstanding, then one
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(next_path(s), kFixed) << "the third round is not over";
      s.pass(Duration::us(20));
      s.ack(i + 1, i, kFixed, wire::kMpAckEce);
    }
    EXPECT_EQ(next_path(s) != kFixed, idle);
  }
}

TEST(RepsPaths, ACopyLeavesOnAnotherPathThanTheLostPacket) {
  RepsPaths reps;
  Prng prng(1);
  reps.reset(kFixed);
  EXPECT_NE(reps.retry(kFixed, 0, prng), 0) << "it knows none";
  for (const uint16_t vp : {60'001, 60'002, 60'003}) reps.on_ack({.vp = vp});
  for (const uint16_t vp : {60'001, 60'003, 60'001}) EXPECT_EQ(reps.retry(60'002, 0, prng), vp);
  EXPECT_NE(reps.retry(60'002, 1, prng), reps.retry(60'002, 1, prng)) << "random ones";
}

TEST(RepsPaths, UsesEachUnmarkedPathOnceTheOldestFirst) {
  RepsPaths reps;
  Prng prng(1);
  reps.reset(kFixed);
  const auto hear = [&](uint16_t vp, bool ece) { reps.on_ack({.vp = vp, .ece = ece}); };
  for (uint16_t vp = 60'001; vp <= 60'011; ++vp) hear(vp, vp % 2 == 0);
  for (uint16_t vp = 60'001; vp <= 60'011; vp += 2) EXPECT_EQ(reps.next(Time(), prng), vp);
  EXPECT_NE(reps.next(Time(), prng), reps.next(Time(), prng)) << "random ones";
  for (uint16_t vp = 60'020; vp < 60'120; ++vp) hear(vp, false);
  for (uint16_t vp = 60'112; vp < 60'120; ++vp) EXPECT_EQ(reps.next(Time(), prng), vp);
}

TEST(RepsPaths, UsesItsLastPathsInTurnForATimeAfterATimeout) {
  RepsPaths reps;
  Prng prng(1);
  reps.reset(kFixed);
  constexpr Time kNow = Time::from_ns(5'000);
  const auto hear = [&](uint16_t vp) { reps.on_ack({.vp = vp}); };
  reps.on_timeout(kNow);
  EXPECT_NE(reps.next(kNow, prng), 0) << "it knows none";
  for (const uint16_t vp : {60'001, 60'002, 60'003}) hear(vp);
  reps.on_timeout(kNow);
  for (const uint16_t vp : {60'001, 60'002, 60'003, 60'001}) EXPECT_EQ(reps.next(kNow, prng), vp);
  hear(60'004);
  EXPECT_EQ(reps.next(kNow, prng), 60'004) << "what works is used first";
  const Time later = kNow + RepsPaths::kFrozen;
  EXPECT_NE(reps.next(later, prng), reps.next(later, prng)) << "random ones";
}

}  // namespace
}  // namespace mprdma::transport
