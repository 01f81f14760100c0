// What leaves at a timeout while nothing has ever come back (D19).
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/print.hpp"
#include "tests/unit/transport/stream/many_path_sender.hpp"

namespace mprdma::transport {
namespace {

using many_paths::clocked_params;
using many_paths::Stream;
using Paths = std::vector<uint16_t>;

Params with_tries(uint32_t window = 40) {
  Params p = clocked_params(window);  // half of it is left after a timeout
  p.path_policy = PathPolicy::kRecycled;
  p.tail_probe = true;
  return p;
}

// What leaves at the n-th timeout of a silence.
Paths at_timeout(Stream& s, uint32_t n) {
  while (s.sender.timeouts_in_a_row() < n) {
    s.time_out();
    if (s.sender.timeouts_in_a_row() < n) s.sends(1000, false);
  }
  return s.send(1000, false);
}

// Where few pairs of ways work, a short message has as many tries as a long one, and so has one
// that the window does not let leave.
TEST(TimeoutTries, ATimeoutTriesSixteenPathsIfNothingHasEverComeBack) {
  for (const uint32_t window : {4U, 16U, 40U}) {
    for (const int length : {1, 2, 3, 9, 15, 16}) {
      Stream s(with_tries(window));
      s.backlog = false;
      s.sends(length);
      EXPECT_EQ(at_timeout(s, 1).size(), 16U) << window << " " << length;
    }
  }
  Stream s(with_tries());
  s.backlog = false;
  s.sends(17);
  EXPECT_EQ(at_timeout(s, 1).size(), 17U);
}

TEST(TimeoutTries, TheTriesOfATimeoutTakeRandomPathsUntilThePeerSeemsGone) {
  for (const PathPolicy policy : {PathPolicy::kRecycled, PathPolicy::kReps}) {
    Params p = with_tries();
    p.path_policy = policy;
    Stream s(p);
    s.backlog = false;
    s.sends(1);
    Paths paths = at_timeout(s, 7);
    std::sort(paths.begin(), paths.end());
    EXPECT_GE(std::unique(paths.begin(), paths.end()) - paths.begin(), 14);
    EXPECT_EQ(at_timeout(s, 8).size(), 1U);
  }
}

TEST(TimeoutTries, ATimeoutSendsWhatIsLostToAPeerThatWasHeard) {
  const auto after = [](auto hears) {
    Stream s(with_tries());
    s.backlog = false;
    s.sends(2);
    hears(s);
    return at_timeout(s, 2).size();
  };
  EXPECT_EQ(after([](Stream& s) { s.ack(1, 0); }), 1U);
  EXPECT_EQ(after([](Stream& s) { s.sender.on_implied_ack(s.now, s.psn(1)); }), 1U);
  EXPECT_EQ(after([](Stream& s) { s.ack(0, 0, 60'000, 0, wire::NackCode::kRnr); }), 2U);
  EXPECT_EQ(after([](Stream& s) {
              s.echo_age = Duration::s(100);  // of another clock: no sample
              s.ack(1, 0);
            }),
            1U);
}

TEST(TimeoutTries, ATimeoutHasNoTriesWherePathsAreNotLookedFor) {
  Params without = with_tries();
  without.tail_probe = false;
  Params clocked = with_tries();
  clocked.path_policy = PathPolicy::kAckClocked;
  Params one = with_tries();
  one.timeout_tries = 1;
  for (const Params& p : {without, clocked, one}) {
    Stream s(p);
    s.backlog = false;
    s.sends(1);
    EXPECT_EQ(at_timeout(s, 1).size(), 1U);
  }
}

}  // namespace
}  // namespace mprdma::transport
