// The receiver's half against traces of the IRN authors' own simulator (an incast at 40 Gb/s): each
// packet that came, and what their receiver answered. Their file has no licence that allows a copy
// here, so that it is read from MPRDMA_IRN_TRACES or from beside the checkout.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "tests/unit/transport/stream/lone_receiver.hpp"

namespace mprdma::transport {
namespace {

constexpr uint32_t kSlots = 128;  // of the authors' maps
// Frames that may wait: a receiver has a share of them, which is to be all that it ever needs.
constexpr uint32_t kFrames = 16 * kSlots;

std::filesystem::path traces() {
  if (const char* set = std::getenv("MPRDMA_IRN_TRACES"); set != nullptr) return set;
  return std::filesystem::path(MPRDMA_SOURCE_ROOT) / "../shared/data/irn-traces";
}

struct Answer {
  int syndrome = 0;  // 1: something before the packet is missing
  int expected = 0;  // the next PSN
  int sack = 0;
};

TEST(IrnTraces, EachAnswerIsThatOfTheAuthorsReceiver) {
  std::ifstream packets(traces() / "recvInput-40Gbps-incast.txt");
  std::ifstream answers(traces() / "recvOutput-40Gbps-incast.txt");
  if (!packets || !answers) GTEST_SKIP() << "no traces in " << traces();
  size_t lines = 0;
  packets >> lines;
  std::map<int, Receiver> receivers;
  size_t early = 0;
  for (size_t line = 0; line < lines; ++line) {
    int qp = 0;
    int opcode = 0;
    int psn = 0;
    ASSERT_TRUE(packets >> qp >> opcode >> psn) << "line " << line;
    Answer theirs;
    int msn = 0;
    int completions = 0;
    ASSERT_TRUE(answers >> theirs.syndrome >> theirs.expected >> theirs.sack >> msn >> completions);
    ASSERT_EQ(opcode, 1) << "SEND Middle, all of them, so that no message ends";
    ASSERT_EQ(msn, 0);
    ASSERT_EQ(completions, 0);
    Receiver& receiver = receivers.try_emplace(qp, kSlots, kFrames, Psn(0)).first->second;
    receiver.take(psn);
    receiver.executed.clear();
    ASSERT_TRUE(receiver.actions.has_ack);
    ASSERT_EQ(receiver.nack(), wire::NackCode::kNone);
    ASSERT_EQ(receiver.aack(), theirs.expected) << "line " << line << ", queue pair " << qp;
    ASSERT_EQ(receiver.sack(), theirs.sack) << "line " << line << ", queue pair " << qp;
    ASSERT_EQ(receiver.sack() >= receiver.aack(), theirs.syndrome == 1) << "line " << line;
    if (theirs.syndrome == 1) ++early;
  }
  EXPECT_GT(early, lines / 2) << "most packets of the trace come out of order";
}

}  // namespace
}  // namespace mprdma::transport
