#include "dataplane/port/tx_batch.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/prng.hpp"

namespace mprdma::dataplane {
namespace {

// A wire that notes the marks of the frames it gets, and checks what becomes of each reservation.
class MarkPort final : public Port {
 public:
  ~MarkPort() override { EXPECT_TRUE(reserved_.empty()) << "a reserved frame did not come back"; }

  [[nodiscard]] PortInfo info() const override { return {}; }
  [[nodiscard]] bool link_up() const override { return true; }
  [[nodiscard]] const char* link_text() const override { return "test"; }
  unsigned tx_reserve(TxFrame* frames, unsigned n) override { return reserve(frames, n, &small); }
  bool tx_tight() override { return tight; }
  [[nodiscard]] bool takes_bare() const override { return bare; }
  [[nodiscard]] uint32_t large_payload() const override { return 16384; }
  unsigned tx_reserve_large(TxFrame* frames, unsigned n) override {
    return reserve(frames, n, &large);
  }
  void tx_commit(const TxFrame* frames, unsigned n) override {
    for (unsigned i = 0; i < n; ++i) {
      EXPECT_EQ(reserved_.erase(frames[i].cookie), 1u) << "sent twice, or never reserved";
      EXPECT_NE(frames[i].frame_bytes, 0u) << "sent before it was filled";
      sent.push_back(frames[i].frame_bytes);
    }
  }
  void tx_abandon(const TxFrame* frames, unsigned n) override {
    for (unsigned i = 0; i < n; ++i) {
      EXPECT_EQ(reserved_.erase(frames[i].cookie), 1u) << "given back twice, or never reserved";
    }
    abandoned += n;
  }
  void flush() override {}
  unsigned rx_burst(RxFrame*, unsigned) override { return 0; }
  void rx_release(const uint64_t*, unsigned) override {}
  [[nodiscard]] int notify_fd() const override { return -1; }
  bool arm() override { return true; }
  void disarm() override {}
  void service(Time) override {}
  void close_after_fork() override {}
  [[nodiscard]] PortCounters stats() const override { return {}; }

  unsigned small = 1000;  // frames that are left
  unsigned large = 1000;
  bool tight = false;
  bool bare = false;
  std::vector<uint32_t> sent;  // marks, in the order of the wire
  unsigned abandoned = 0;
  unsigned given = 0;

 private:
  unsigned reserve(TxFrame* frames, unsigned n, unsigned* left) {
    n = n < *left ? n : *left;
    *left -= n;
    for (unsigned i = 0; i < n; ++i) {
      frames[i] = {nullptr, left == &large ? 16384u : 4096u, 0, 0, ++given};
      reserved_.insert(given);
    }
    return n;
  }

  std::set<uint64_t> reserved_;
};

// Does with a batch what the worker does: `s` fills a small frame, `L` a large one in place of a
// small one; `p` finds nothing to fill it with, `P` neither for a large one; `c` ends a burst.
class Filler {
 public:
  Filler(MarkPort& port, bool keeps) : batch(&port, keeps) {}

  void run(std::string_view script) {
    for (const char c : script) run(c);
  }
  void run(char c) {
    if (c == 'c') {
      EXPECT_EQ(batch.commit(), uncommitted_);
      uncommitted_ = false;
      return;
    }
    const bool large = c == 'L' || c == 'P';
    if (large && !batch.hold_large()) {
      ++refused;
      return;
    }
    TxFrame* frame = batch.next(use);
    if (frame == nullptr) {
      ++refused;
    } else if (c == 'p' || c == 'P') {
      batch.put_back();
    } else {
      if (large) frame = batch.take_large();
      EXPECT_EQ(frame->capacity, large ? 16384u : 4096u);
      frame->frame_bytes = ++filled;
      uncommitted_ = true;
    }
  }

  TxBatch batch;
  TxUse use = TxUse::kAnswers;
  uint32_t filled = 0;  // the last mark
  unsigned refused = 0;

 private:
  bool uncommitted_ = false;
};

std::vector<uint32_t> marks_to(uint32_t last) {
  std::vector<uint32_t> marks;
  for (uint32_t i = 1; i <= last; ++i) marks.push_back(i);
  return marks;
}

TEST(TxBatch, FramesOfBothKindsLeaveInTheOrderInWhichTheyWereFilled) {
  for (const bool keeps : {false, true}) {
    for (const char* script : {"LLL", "LsL", "sss", "sLLs", "sLcsLc", "LpL", "sPsPLs", "PcsL"}) {
      MarkPort port;
      uint32_t filled = 0;
      {
        Filler filler(port, keeps);
        filler.run(script);
        filled = filler.filled;
        EXPECT_EQ(filler.refused, 0u);
        filler.batch.commit();
        EXPECT_EQ(port.sent, marks_to(filled)) << script << ": a commit sends all that is filled";
      }
      EXPECT_EQ(port.sent, marks_to(filled)) << script;
      EXPECT_EQ(port.abandoned, port.given - filled) << script << ": the rest came back";
    }
  }
}

TEST(TxBatch, WhatIsFilledLeavesWithTheBatchAtTheLatest) {
  for (const char* script : {"s", "L", "sL", "Ls"}) {
    MarkPort port;
    Filler(port, false).run(script);
    EXPECT_EQ(port.sent.size(), std::string_view(script).size()) << script;
  }
}

TEST(TxBatch, AKeptBatchReservesForLaterBursts) {
  MarkPort port;
  Filler filler(port, true);
  filler.run("sc");
  const unsigned given = port.given;
  filler.run("scscsc");
  EXPECT_EQ(port.given, given) << "what was reserved and not used served them";
  EXPECT_EQ(port.sent, marks_to(4));
}

TEST(TxBatch, WithoutALargeFrameSmallOnesGoOn) {
  MarkPort port;
  port.large = 1;
  Filler filler(port, true);
  filler.run("sLLsc");
  EXPECT_EQ(filler.refused, 1u);
  EXPECT_EQ(port.sent, marks_to(3));
  port.large = 1;
  filler.run("Lc");
  EXPECT_EQ(port.sent, marks_to(4)) << "asked again as soon as one is back";
}

// A large frame stands in place of a small one, which need not be used up for it.
TEST(TxBatch, OneSmallFrameServesAnyNumberOfLargeOnes) {
  MarkPort port;
  port.small = 1;
  Filler filler(port, true);
  filler.run("LLLsLc");
  EXPECT_EQ(filler.refused, 1u) << "nothing is left to put it in place of";
  EXPECT_TRUE(filler.batch.holds_large()) << "it waits for the next burst";
  EXPECT_EQ(port.sent, marks_to(4));
  port.small = 1;
  filler.run("Lc");
  EXPECT_EQ(port.sent, marks_to(5));
}

TEST(TxBatch, AFullWireIsAskedAgainInTheNextBurst) {
  MarkPort port;
  port.small = 2;
  Filler filler(port, true);
  filler.run("sss");
  EXPECT_EQ(filler.refused, 1u);
  port.small = 5;
  filler.run("s");
  EXPECT_EQ(filler.refused, 2u) << "not within a burst";
  filler.run("csc");
  EXPECT_EQ(port.sent, marks_to(3));
}

TEST(TxBatch, AnswersGoOnWhereDataHasToStop) {
  MarkPort port;
  port.tight = true;
  Filler filler(port, true);
  filler.use = TxUse::kData;
  filler.run("ss");
  EXPECT_EQ(filler.refused, 2u);
  filler.use = TxUse::kAnswers;
  filler.run("sLs");
  EXPECT_EQ(filler.refused, 2u);
  filler.batch.commit();
  EXPECT_EQ(port.sent, marks_to(3));
}

TEST(TxBatch, SaysWhetherThePeerTakesBarePacketsAsOfTheReservation) {
  MarkPort port;
  port.bare = true;
  TxBatch batch(&port, true);
  EXPECT_FALSE(batch.bare());
  batch.next();
  EXPECT_TRUE(batch.bare());
  port.bare = false;
  EXPECT_TRUE(batch.bare()) << "of the frames that are reserved";
  batch.put_back();
}

TEST(TxBatch, NothingIsLostTwiceOrOutOfOrderWhateverIsRefused) {
  for (uint64_t seed = 1; seed <= 2'000; ++seed) {
    Prng prng(seed);
    MarkPort port;
    uint32_t filled = 0;
    {
      Filler filler(port, prng.chance(1, 2));
      const uint64_t steps = prng.range(1, 120);
      for (uint64_t i = 0; i < steps; ++i) {
        port.small = prng.chance(1, 3) ? static_cast<unsigned>(prng.below(4)) : 100;
        port.large = prng.chance(1, 2) ? static_cast<unsigned>(prng.below(2)) : 100;
        port.tight = prng.chance(1, 4);
        filler.use = prng.chance(1, 2) ? TxUse::kData : TxUse::kAnswers;
        filler.run("ssLLpPc"[prng.below(7)]);
      }
      filled = filler.filled;
    }
    ASSERT_EQ(port.sent, marks_to(filled)) << "seed " << seed;
    ASSERT_EQ(port.abandoned, port.given - filled) << "seed " << seed;
  }
}

}  // namespace
}  // namespace mprdma::dataplane
