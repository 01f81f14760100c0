// Receives of a shared queue on their way through a queue pair.
#include "transport/work/receive_queue.hpp"

#include <gtest/gtest.h>

namespace mprdma::transport {
namespace {

bool take(void* host, RecvRequest* out, Sge* sges) {
  const uint64_t number = ++*static_cast<uint64_t*>(host);
  sges[0] = {.addr = number, .length = 8, .lkey = Key(1)};
  *out = {};
  out->wr_id = number;
  out->sges = {sges, 1};
  return true;
}

TEST(ReceiveQueue, AWindowOfMessagesTakesSharedReceivesBeforeTheHostPolls) {
  uint64_t taken = 0;
  const SharedReceives shared{.host = &taken, .pd = 1, .take = &take, .room = nullptr};
  ReceiveQueue queue(0, 1, true);
  for (uint64_t i = 1; i <= kWindowSlotsMax; ++i) {
    ASSERT_TRUE(queue.ready(&shared)) << i;
    ASSERT_EQ(queue.current_sges()[0].addr, i);
    queue.complete_plain(8, false);
  }
  Completion completion;
  for (uint64_t i = 1; i <= kWindowSlotsMax; ++i) {
    ASSERT_TRUE(queue.poll(false, completion));
    ASSERT_EQ(completion.wr_id, i);
  }
  EXPECT_FALSE(queue.poll(false, completion));
}

}  // namespace
}  // namespace mprdma::transport
