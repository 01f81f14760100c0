#include "dataplane/worker/cq.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace mprdma::dataplane {
namespace {

struct Client {
  mprdma_abi_client callbacks{};
  std::vector<mprdma_abi_event> events;
  std::atomic<uint64_t> fired{0};
  Client() {
    callbacks.context = this;
    callbacks.on_event = [](void* context, const mprdma_abi_event* event) {
      auto* self = static_cast<Client*>(context);
      self->events.push_back(*event);
      self->fired.fetch_add(1);
    };
  }
};

struct Fixture {
  explicit Fixture(uint32_t entries = 8)
      : ring(entries),
        cq(mprdma_abi_create_cq{reinterpret_cast<uint64_t>(ring.data()),
                                reinterpret_cast<uint64_t>(&dbr), 42, entries, 0},
           &client.callbacks) {}
  bool push(uint64_t wr_id, bool urgent = false, bool failed = false) {
    mprdma_abi_cqe* const entry = cq.reserve(counters);
    if (entry == nullptr) return false;
    entry->wr_id = wr_id;
    entry->status = failed ? MPRDMA_ABI_WC_WR_FLUSH_ERR : MPRDMA_ABI_WC_SUCCESS;
    cq.push(entry, failed, urgent, counters);
    return true;
  }
  void arm(uint32_t kind) { mprdma_abi_store_release(&dbr.arm, ++serial << 2 | kind); }
  bool fired() {
    const size_t before = client.events.size();
    due = cq.fire(now, counters);
    return client.events.size() > before;
  }

  Client client;
  EngineCounters counters;
  std::vector<mprdma_abi_cqe> ring;
  mprdma_abi_cq_dbr dbr{};
  uint32_t serial = 0;
  Time now = Time::from_ns(1'000'000);
  Time due = Time::never();  // time of the pending event
  Cq cq;
};

TEST(Cq, EntryIsValidByItsSequenceAroundTheRing) {
  Fixture f(4);
  for (uint32_t i = 0; i < 40; ++i) {
    EXPECT_EQ(mprdma_abi_peek_cqe(f.ring.data(), 4, i), nullptr);
    ASSERT_TRUE(f.push(i));
    const mprdma_abi_cqe* entry = mprdma_abi_peek_cqe(f.ring.data(), 4, i);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->wr_id, i);
    mprdma_abi_store_release(&f.dbr.consumer, i + 1);
  }
}

TEST(Cq, OverrunIsAnEventOnceAndOverwritesNothing) {
  Fixture f(4);
  for (uint32_t i = 0; i < 4; ++i) ASSERT_TRUE(f.push(i));
  EXPECT_FALSE(f.push(4));
  EXPECT_FALSE(f.push(5));
  ASSERT_EQ(f.client.events.size(), 1u);
  EXPECT_EQ(f.client.events[0].type, uint32_t{MPRDMA_ABI_EVENT_CQ_ERR});
  EXPECT_EQ(f.client.events[0].cookie, 42u);
  EXPECT_EQ(mprdma_abi_peek_cqe(f.ring.data(), 4, 0)->wr_id, 0u);
  EXPECT_EQ(f.counters.cq_overruns, 2u);
  EXPECT_TRUE(f.cq.overrun());
}

TEST(Cq, ModeratedEventWaitsForItsCountOrItsTimeWhicheverComesFirst) {
  Fixture f(32);
  f.cq.moderate(3, 50);
  f.arm(MPRDMA_ABI_ARM_NEXT);
  f.push(1);
  EXPECT_FALSE(f.fired());
  EXPECT_EQ(f.due, f.now + Duration::us(50));
  f.now = f.now + Duration::us(10);
  f.push(2);
  EXPECT_FALSE(f.fired());
  EXPECT_EQ(f.due, f.now + Duration::us(40)) << "the time runs from the first entry";
  f.push(3);
  EXPECT_TRUE(f.fired());
  EXPECT_TRUE(f.due.is_never());
  f.arm(MPRDMA_ABI_ARM_NEXT);
  f.push(4);
  EXPECT_FALSE(f.fired()) << "counted anew";
  f.cq.expire(f.counters);
  EXPECT_EQ(f.client.events.size(), 2u);
  f.cq.expire(f.counters);
  EXPECT_EQ(f.client.events.size(), 2u) << "one event for one arm";
}

TEST(Cq, ModerationKeepsBackNoErrorNothingSolicitedAndNoFullQueue) {
  Fixture f(8);
  f.cq.moderate(1000, 1000);
  f.arm(MPRDMA_ABI_ARM_NEXT);
  f.push(0, false, true);
  EXPECT_TRUE(f.fired());
  f.arm(MPRDMA_ABI_ARM_SOLICITED);
  f.push(1, true);
  EXPECT_TRUE(f.fired());
  f.arm(MPRDMA_ABI_ARM_NEXT);
  for (int i = 0; i < 3; ++i) f.push(2);
  EXPECT_FALSE(f.fired());
  f.push(3);
  EXPECT_TRUE(f.fired()) << "half full";
}

TEST(Cq, WhatWasPolledMeanwhileNeedsNoModeratedEvent) {
  Fixture f;
  f.cq.moderate(3, 50);
  f.arm(MPRDMA_ABI_ARM_NEXT);
  f.push(1);
  EXPECT_FALSE(f.fired());
  mprdma_abi_store_release(&f.dbr.consumer, 1);
  f.arm(MPRDMA_ABI_ARM_NEXT);
  f.cq.expire(f.counters);
  EXPECT_TRUE(f.client.events.empty());
  for (const bool moderated : {true, false}) {
    if (!moderated) f.cq.moderate(0, 0);
    f.push(2);
    EXPECT_EQ(f.fired(), !moderated);
  }
}

// One thread polls, another waits: it was promised an event for what came after the queue was
// armed.
TEST(Cq, ModerationOwesAnEventToWhoeverHasNotArmedAnew) {
  Fixture f;
  f.cq.moderate(3, 50);
  f.arm(MPRDMA_ABI_ARM_NEXT);
  f.push(1);
  EXPECT_FALSE(f.fired());
  mprdma_abi_store_release(&f.dbr.consumer, 1);
  f.cq.expire(f.counters);
  EXPECT_EQ(f.client.events.size(), 1u);
  f.cq.expire(f.counters);
  EXPECT_EQ(f.client.events.size(), 1u) << "once";
}

TEST(Cq, OneEventForOneArm) {
  Fixture f;
  f.push(1);
  EXPECT_FALSE(f.fired()) << "not armed";
  f.arm(MPRDMA_ABI_ARM_NEXT);
  f.push(2);
  EXPECT_TRUE(f.fired());
  f.push(3);
  EXPECT_FALSE(f.fired()) << "once";
  f.arm(MPRDMA_ABI_ARM_NEXT);
  f.push(4);
  EXPECT_TRUE(f.fired());
}

TEST(Cq, SolicitedArmWaitsForASolicitedEntryOrAnError) {
  Fixture f;
  f.arm(MPRDMA_ABI_ARM_SOLICITED);
  f.push(1, false);
  EXPECT_FALSE(f.fired());
  f.push(2, true);
  EXPECT_TRUE(f.fired());
  f.arm(MPRDMA_ABI_ARM_SOLICITED);
  f.push(3, false);
  EXPECT_FALSE(f.fired());
  f.arm(MPRDMA_ABI_ARM_NEXT);
  f.push(4, false);
  EXPECT_TRUE(f.fired());
}

TEST(Cq, ResizeKeepsUnreadEntriesAndThePendingArm) {
  Fixture f(4);
  for (uint32_t i = 0; i < 3; ++i) f.push(i);
  mprdma_abi_store_release(&f.dbr.consumer, 1);
  f.arm(MPRDMA_ABI_ARM_NEXT);
  std::vector<mprdma_abi_cqe> ring(16);
  mprdma_abi_cq_dbr dbr{};
  dbr.arm = f.dbr.arm;
  mprdma_abi_resize_cq command{};
  command.depth = 1;
  command.ring = reinterpret_cast<uint64_t>(ring.data());
  command.dbr = reinterpret_cast<uint64_t>(&dbr);
  EXPECT_EQ(f.cq.resize(command), EINVAL) << "two entries do not fit into one";
  command.depth = 16;
  ASSERT_EQ(f.cq.resize(command), 0);
  EXPECT_EQ(mprdma_abi_peek_cqe(ring.data(), 16, 0)->wr_id, 1u);
  EXPECT_EQ(mprdma_abi_peek_cqe(ring.data(), 16, 1)->wr_id, 2u);
  EXPECT_EQ(mprdma_abi_peek_cqe(ring.data(), 16, 2), nullptr);
  f.push(3);
  EXPECT_EQ(mprdma_abi_peek_cqe(ring.data(), 16, 2)->wr_id, 3u);
  EXPECT_TRUE(f.fired());
}

// The standard's pattern: arm, look once more, sleep. A consumer that sleeps with an entry in the
// ring and no event under way would sleep for ever.
TEST(Cq, NoEntryIsMissedBetweenArmAndSleep) {
  constexpr uint32_t kEntries = 20'000;
  Fixture f(64);
  f.client.events.reserve(kEntries);
  std::atomic<bool> failed{false};
  std::thread consumer([&] {
    uint32_t taken = 0;
    uint64_t events_seen = 0;
    const auto drain = [&] {
      while (mprdma_abi_peek_cqe(f.ring.data(), 64, taken) != nullptr) {
        mprdma_abi_store_release(&f.dbr.consumer, ++taken);
      }
    };
    while (taken < kEntries && !failed) {
      drain();
      if (taken == kEntries) break;
      f.arm(MPRDMA_ABI_ARM_NEXT);
      std::atomic_thread_fence(std::memory_order_seq_cst);
      if (mprdma_abi_peek_cqe(f.ring.data(), 64, taken) != nullptr) continue;
      // The consumer sleeps until the event.
      for (uint64_t spins = 0; f.client.fired.load() == events_seen; ++spins) {
        if (spins > 200'000'000) failed = true;
        if (failed) break;
        std::this_thread::yield();
      }
      events_seen = f.client.fired.load();
    }
  });
  for (uint32_t i = 0; i < kEntries && !failed;) {
    if (i - mprdma_abi_load_acquire(&f.dbr.consumer) >= 64) {
      std::this_thread::yield();
      continue;
    }
    f.push(i++);
    (void)f.cq.fire(f.now, f.counters);
  }
  consumer.join();
  EXPECT_FALSE(failed);
}

}  // namespace
}  // namespace mprdma::dataplane
