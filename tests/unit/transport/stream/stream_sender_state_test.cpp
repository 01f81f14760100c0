// What a sender keeps for a connection, by its parts: docs/algorithms.md has the table.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/page.hpp"
#include "transport/stream/stream_sender.hpp"

namespace mprdma::transport {
namespace {

// The parts that have an owner of their own; the rest are the sender's single members.
#define MPRDMA_SENDER_PARTS(X)                                                                \
  X(Params, "parameters")                                                                     \
  X(cc::Window, "congestion window, of whatever control")                                     \
  X(PathSelector, "paths: the ends of the bank, stragglers, paths of other policies")         \
  X(StreamGate, "unused credits with their paths, or what the window lets through")           \
  X(Scoreboard, "eight maps of the packets in flight, and the packets that are held back")    \
  X(LossRecovery, "loss detection: send times, and what other detectors keep in their place") \
  X(RttEstimator, "smoothed round trip, its variance, the largest ones of late")              \
  X(RetransmissionTimer, "retransmission timer")                                              \
  X(TimeoutUndo, "what a timeout that was none takes back")                                   \
  X(LateAcks, "credit of the own acknowledgement (D14)")                                      \
  X(StreamStats, "statistics")

// A failure prints the rows that the page should hold.
TEST(StreamSender, ItsStateIsItemisedInTheDocument) {
  Page page("algorithms.md");
  size_t sum = 0;
#define ROW(type, what)                                                           \
  page.want("| `" #type "` | " + std::to_string(sizeof(type)) + " | " what " |"); \
  sum += sizeof(type);
  MPRDMA_SENDER_PARTS(ROW)
#undef ROW
  ASSERT_LT(sum, sizeof(StreamSender));
  page.want("| single members | " + std::to_string(sizeof(StreamSender) - sum) +
            " | among them the paths of the 64 newest packets (128) |");
  page.want("| **all of `StreamSender`** | **" + std::to_string(sizeof(StreamSender)) + "** | |");
  EXPECT_EQ(page.missing(), "");
}

}  // namespace
}  // namespace mprdma::transport
