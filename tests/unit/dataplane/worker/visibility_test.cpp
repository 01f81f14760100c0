// An application that polls on the last bytes of a WRITE, and then reads those in front of them,
// reads that WRITE: the worker stores the last bytes last, whether it copies the payload from a
// frame or reads it in the sender's memory. A plain memcpy often keeps that order by chance; the
// thread sanitizer, under which this test runs too, reports the race that it is.
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>

#include "tests/unit/dataplane/worker/engines_on_memory.hpp"

namespace mprdma::dataplane {
namespace {

using testing::EnginesOnMemory;
using testing::kSegment;

// An application's thread. It waits for values, 1 first, at the end of a range of bytes, and counts
// those in front of it that have not come with them.
class Poller {
 public:
  Poller(const unsigned char* at, uint32_t bytes)
      : at_(at), bytes_(bytes), thread_([this] { run(); }) {}
  ~Poller() {
    stop_.store(true);
    thread_.join();
  }
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // The values that came.
  [[nodiscard]] uint32_t seen() const { return seen_.load(std::memory_order_acquire); }
  // Of all values, bytes that were missing.
  [[nodiscard]] uint64_t missing() const { return missing_.load(std::memory_order_relaxed); }

 private:
  void run() {
    for (uint32_t value = 1; wait_for(static_cast<unsigned char>(value)); ++value) {
      // From the end, where the newest bytes would be missing.
      uint64_t missing = 0;
      for (uint32_t i = bytes_ - 1; i-- > 0;) missing += at_[i] != (value & 0xff) ? 1 : 0;
      missing_.fetch_add(missing, std::memory_order_relaxed);
      seen_.store(value, std::memory_order_release);
    }
  }
  bool wait_for(unsigned char value) {
    for (uint32_t tries = 1; last() != value; ++tries) {
      if (stop_.load(std::memory_order_relaxed)) return false;
      if (tries % 4096 == 0) sched_yield();
    }
    return true;
  }
  // The last byte, read in the access that stored it: a word if that is aligned. To the thread
  // sanitizer two accesses of different addresses are no pair.
  [[nodiscard]] unsigned char last() const {
    const unsigned char* const end = at_ + bytes_;
    if (bytes_ >= sizeof(uint64_t) && reinterpret_cast<uintptr_t>(end) % sizeof(uint64_t) == 0) {
      const uint64_t word =
          __atomic_load_n(reinterpret_cast<const uint64_t*>(end) - 1, __ATOMIC_ACQUIRE);
      return static_cast<unsigned char>(word >> 56);
    }
    return __atomic_load_n(end - 1, __ATOMIC_ACQUIRE);
  }

  const unsigned char* at_;
  uint32_t bytes_;
  std::atomic<bool> stop_ = false;
  std::atomic<uint32_t> seen_ = 0;
  std::atomic<uint64_t> missing_ = 0;
  std::thread thread_;
};

class Visibility : public EnginesOnMemory {
 protected:
  // Rounds of a WRITE whose bytes all have the value that the poller waits for.
  void expect_last_bytes_last(uint32_t bytes, size_t to) {
    expect_last_bytes_last(bytes, to, [&] { write(bytes, 0, to); });
  }
  // The same of a WRITE of two pieces, which is copied, however long it is.
  void expect_last_bytes_last_of_two_pieces(uint32_t bytes, size_t to) {
    expect_last_bytes_last(bytes, to, [&] {
      const uint32_t first = bytes / 3;
      auto& wqe = a.begin_send(
          *qp_a, MPRDMA_ABI_WRITE, ++posted,
          {{source.addr(), first, source.key}, {source.addr() + first, bytes - first, source.key}});
      wqe.remote_addr = mr_b->addr() + to;
      wqe.rkey = mr_b->key;
      a.end_send(*qp_a);
    });
  }

 private:
  template <class Write>
  void expect_last_bytes_last(uint32_t bytes, size_t to, Write&& post) {
    SCOPED_TRACE(bytes);
    SCOPED_TRACE(to);
    constexpr uint32_t kRounds = 300;
    std::memset(mr_b->bytes.data() + to, 0, bytes);
    const Poller poller(mr_b->bytes.data() + to, bytes);
    for (uint32_t value = 1; value <= kRounds; ++value) {
      std::memset(source.data(), static_cast<int>(value & 0xff), bytes);
      post();
      ASSERT_TRUE(completes(posted));
      ASSERT_TRUE(testing::until([&] { return poller.seen() == value; }));
    }
    EXPECT_EQ(poller.missing(), 0u);
  }
};

TEST_F(Visibility, OfACopiedPayloadTheLastBytesComeLast) {
  expect_last_bytes_last(8'000, 0);
  expect_last_bytes_last(8'001, 64);
  expect_last_bytes_last(100, 4);
  expect_last_bytes_last(40, 3);
  EXPECT_EQ(counters().payload_bytes_pulled, 0u);
}

TEST_F(Visibility, OfACopiedSegmentTheLastBytesComeLastAtAnyOffset) {
  for (const size_t to : {1u, 2u, 6u, 7u}) expect_last_bytes_last_of_two_pieces(kSegment, to);
  EXPECT_EQ(counters().payload_bytes_pulled, 0u);
}

TEST_F(Visibility, OfAPayloadInTheSendersMemoryTheLastBytesComeLast) {
  expect_last_bytes_last(kSegment, 0);
  expect_last_bytes_last(2 * kSegment + 10'001, 5);
  expect_last_bytes_last(3 * kSegment, 8);
  EXPECT_GT(counters().payload_bytes_pulled, 0u);
}

}  // namespace
}  // namespace mprdma::dataplane
