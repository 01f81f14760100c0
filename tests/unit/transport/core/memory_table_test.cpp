#include "transport/core/memory_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "base/prng.hpp"

namespace mprdma::transport {
namespace {

constexpr Key kKey = MemoryTable::make_key(3, 0x42);

MemoryTable table_with(const MemoryRegion& region) {
  MemoryTable table(8);
  table.set(region);
  return table;
}

MemoryRegion region_of(uint64_t iova, uint64_t length) {
  return {.iova = iova,
          .addr = 0x7000,
          .length = length,
          .pd = 1,
          .access = kRemoteRead | kLocalWrite,
          .key = kKey};
}

bool opens(const MemoryTable& table, uint64_t iova, uint64_t length, uint32_t access = kRemoteRead,
           Key key = kKey, uint32_t pd = 1) {
  uint64_t addr = 0;
  return table.translate(key, pd, iova, length, access, &addr);
}

TEST(MemoryTable, TranslatesExactlyTheRegion) {
  const MemoryTable table = table_with(region_of(0x1000, 0x100));
  uint64_t addr = 0;
  ASSERT_TRUE(table.translate(kKey, 1, 0x1010, 0x10, kRemoteRead, &addr));
  EXPECT_EQ(addr, 0x7010u);
  EXPECT_TRUE(opens(table, 0x1000, 0x100));
  EXPECT_TRUE(opens(table, 0x10ff, 1));
  EXPECT_FALSE(opens(table, 0x0fff, 1));
  EXPECT_FALSE(opens(table, 0x1100, 1));
  EXPECT_FALSE(opens(table, 0x1001, 0x100));
  EXPECT_FALSE(opens(table, 0x1000, 0x101));
}

TEST(MemoryTable, NoSumOfAddressAndLengthWrapsRound) {
  const MemoryTable table = table_with(region_of(UINT64_MAX - 0xff, 0x100));
  EXPECT_TRUE(opens(table, UINT64_MAX - 0xff, 0x100));
  EXPECT_TRUE(opens(table, UINT64_MAX, 1));
  EXPECT_FALSE(opens(table, UINT64_MAX, 2));
  EXPECT_FALSE(opens(table, UINT64_MAX - 1, UINT64_MAX));
  EXPECT_FALSE(opens(table, 0, 1));
}

TEST(MemoryTable, EveryRightThatIsAskedForMustBeThere) {
  const MemoryTable table = table_with(region_of(0x1000, 0x100));
  EXPECT_TRUE(opens(table, 0x1000, 1, kRemoteRead | kLocalWrite));
  EXPECT_FALSE(opens(table, 0x1000, 1, kRemoteWrite));
  EXPECT_FALSE(opens(table, 0x1000, 1, kRemoteRead | kRemoteWrite));
}

TEST(MemoryTable, KeyByteAndProtectionDomainMustMatch) {
  const MemoryTable table = table_with(region_of(0x1000, 0x100));
  EXPECT_FALSE(opens(table, 0x1000, 1, kRemoteRead, Key(kKey.value() ^ 1)));
  EXPECT_FALSE(opens(table, 0x1000, 1, kRemoteRead, kKey, 2));
  EXPECT_FALSE(opens(table, 0x1000, 1, kRemoteRead, Key(0)));
  EXPECT_FALSE(opens(table, 0x1000, 1, kRemoteRead, Key(UINT32_MAX)));
}

TEST(MemoryTable, AKeyEndsWithItsRegion) {
  MemoryTable table = table_with(region_of(0x1000, 0x100));
  table.remove(kKey);
  EXPECT_FALSE(opens(table, 0x1000, 1));
  MemoryRegion next = region_of(0x1000, 0x100);
  next.key = MemoryTable::make_key(3, 0x43);
  table.set(next);
  EXPECT_FALSE(opens(table, 0x1000, 1));
  EXPECT_TRUE(opens(table, 0x1000, 1, kRemoteRead, next.key));
}

// ---- Windows and the null region (IBTA 10.6.7) -------------------------------------------------

constexpr uint32_t kPd = 1;
constexpr Qpn kQp{0x17};
constexpr Key kLkey = MemoryTable::make_key(2, 1);
constexpr Key kWindow = MemoryTable::make_key(4, 9);
constexpr Key kBound = MemoryTable::make_key(4, 10);

struct Windows {
  explicit Windows(MemoryKind kind, uint32_t region_access = kLocalWrite | kMwBind) : table(8) {
    table.set({.iova = 0x1000,
               .addr = 0x7000,
               .length = 0x100,
               .pd = kPd,
               .access = region_access,
               .key = kLkey});
    table.set({.pd = kPd, .key = kWindow, .kind = kind});
  }
  static WindowBind request() {
    return {.pd = kPd,
            .qpn = kQp,
            .window = kWindow,
            .new_key = kBound,
            .region = kLkey,
            .access = kRemoteRead | kRemoteWrite,
            .addr = 0x1040,
            .length = 0x20};
  }
  BindError bind(const WindowBind& request) { return table.bind(request); }
  [[nodiscard]] bool opens(Key key, uint64_t addr, uint64_t length, uint32_t access, Qpn qpn = kQp,
                           uint32_t pd = kPd) {
    return table.translate_remote(key, pd, qpn, addr, length, access, &host);
  }
  MemoryTable table;
  uint64_t host = 0;
};

TEST(MemoryWindow, OpensItsRangeWithItsOwnRightsOnceBound) {
  Windows w(MemoryKind::kWindow1);
  EXPECT_FALSE(w.opens(kWindow, 0x1040, 1, kRemoteRead)) << "opens something before it is bound";
  ASSERT_EQ(w.bind(Windows::request()), BindError::kNone);
  ASSERT_TRUE(w.opens(kBound, 0x1048, 0x18, kRemoteWrite));
  EXPECT_EQ(w.host, 0x7048u);
  EXPECT_FALSE(w.opens(kBound, 0x1048, 0x19, kRemoteWrite));
  EXPECT_FALSE(w.opens(kBound, 0x103f, 1, kRemoteWrite));
  EXPECT_FALSE(w.opens(kBound, 0x1040, 8, kRemoteAtomic));
  EXPECT_FALSE(w.opens(kBound, 0x1040, 1, kRemoteRead, kQp, kPd + 1));
  EXPECT_FALSE(w.opens(kLkey, 0x1040, 1, kRemoteRead)) << "rights of the window at its region";
}

TEST(MemoryWindow, HasNoLocalKey) {
  Windows w(MemoryKind::kWindow1);
  ASSERT_EQ(w.bind(Windows::request()), BindError::kNone);
  uint64_t addr = 0;
  EXPECT_FALSE(w.table.translate(kBound, kPd, 0x1040, 1, 0, &addr));
}

TEST(MemoryWindow, Type1ServesItsDomainAndMovesWithANewKey) {
  Windows w(MemoryKind::kWindow1);
  ASSERT_EQ(w.bind(Windows::request()), BindError::kNone);
  EXPECT_TRUE(w.opens(kBound, 0x1040, 1, kRemoteRead, Qpn(kQp.value() + 1)))
      << "any queue pair of the domain";
  WindowBind again = Windows::request();
  again.window = kBound;
  EXPECT_EQ(w.bind(again), BindError::kWrongKey) << "the old key would open the new range";
  again.new_key = Key(kBound.value() + 1);
  again.addr = 0x1000;
  ASSERT_EQ(w.bind(again), BindError::kNone);
  EXPECT_FALSE(w.opens(kBound, 0x1040, 1, kRemoteRead));
  EXPECT_FALSE(w.opens(Key(kBound.value() + 1), 0x1040, 1, kRemoteRead));
  EXPECT_TRUE(w.opens(Key(kBound.value() + 1), 0x1000, 0x20, kRemoteRead));
  EXPECT_EQ(w.table.windows_of(kLkey), 1u);
}

TEST(MemoryWindow, Type1IsUnboundByARangeOfLengthZeroAndNothingElse) {
  Windows w(MemoryKind::kWindow1);
  ASSERT_EQ(w.bind(Windows::request()), BindError::kNone);
  EXPECT_FALSE(w.table.invalidate(kBound, kPd, kQp));
  EXPECT_TRUE(w.opens(kBound, 0x1040, 1, kRemoteRead));
  WindowBind unbind = {.pd = kPd, .qpn = kQp, .window = kBound, .new_key = Key(kBound.value() + 1)};
  ASSERT_EQ(w.bind(unbind), BindError::kNone);
  EXPECT_FALSE(w.opens(kBound, 0x1040, 1, kRemoteRead));
  EXPECT_FALSE(w.opens(Key(kBound.value() + 1), 0x1040, 1, kRemoteRead));
  EXPECT_EQ(w.table.windows_of(kLkey), 0u);
  EXPECT_EQ(w.table.key_at(4), Key(kBound.value() + 1));
}

TEST(MemoryWindow, Type2BelongsToTheQueuePairThatBoundIt) {
  Windows w(MemoryKind::kWindow2);
  ASSERT_EQ(w.bind(Windows::request()), BindError::kNone);
  EXPECT_TRUE(w.opens(kBound, 0x1040, 1, kRemoteRead));
  EXPECT_FALSE(w.opens(kBound, 0x1040, 1, kRemoteRead, Qpn(kQp.value() + 1)));
  EXPECT_FALSE(w.opens(kBound, 0x1040, 1, kRemoteRead, kQp, kPd + 1));
  EXPECT_FALSE(w.table.invalidate(kBound, kPd, Qpn(kQp.value() + 1)));
  EXPECT_TRUE(w.opens(kBound, 0x1040, 1, kRemoteRead));
}

TEST(MemoryWindow, Type2IsBoundAgainOnlyOnceItIsInvalid) {
  Windows w(MemoryKind::kWindow2);
  ASSERT_EQ(w.bind(Windows::request()), BindError::kNone);
  WindowBind again = Windows::request();
  again.new_key = Key(kBound.value() + 1);
  EXPECT_EQ(w.bind(again), BindError::kStillBound);
  again.length = 0;
  EXPECT_EQ(w.bind(again), BindError::kStillBound);
  EXPECT_FALSE(w.table.invalidate(kWindow, kPd, kQp)) << "the key before";
  EXPECT_TRUE(w.table.invalidate(kBound, kPd, kQp));
  EXPECT_FALSE(w.opens(kBound, 0x1040, 1, kRemoteRead));
  EXPECT_EQ(w.table.windows_of(kLkey), 0u);
  EXPECT_EQ(w.bind(again), BindError::kZeroLength);
  again.length = 1;
  EXPECT_EQ(w.bind(again), BindError::kNone);
  EXPECT_TRUE(w.opens(Key(kBound.value() + 1), 0x1040, 1, kRemoteRead));
}

TEST(MemoryWindow, Type2EndsWithItsQueuePair) {
  Windows w(MemoryKind::kWindow2);
  ASSERT_EQ(w.bind(Windows::request()), BindError::kNone);
  w.table.forget_queue_pair(Qpn(kQp.value() + 1));
  EXPECT_TRUE(w.opens(kBound, 0x1040, 1, kRemoteRead));
  w.table.forget_queue_pair(kQp);
  EXPECT_FALSE(w.opens(kBound, 0x1040, 1, kRemoteRead));
  EXPECT_EQ(w.table.windows_of(kLkey), 0u);
}

// Compares the table with a plain list; some queue pairs have numbers that agree in their low bits.
TEST(MemoryWindow, QueuePairTakesItsOwnWindowsOfType2AlongAndNoOthers) {
  constexpr uint32_t kWindows = 24;
  constexpr Qpn kPairs[] = {Qpn(5), Qpn(5 + 1024), Qpn(5 + 4096), Qpn(6)};
  MemoryTable table(kWindows + 2);
  const Key region = MemoryTable::make_key(1, 0);
  table.set(
      {.iova = 0x1000, .addr = 0x7000, .length = 64, .pd = kPd, .access = kMwBind, .key = region});
  for (uint32_t i = 0; i < kWindows; ++i) {
    table.set({.pd = kPd, .key = MemoryTable::make_key(i + 2, 1), .kind = MemoryKind::kWindow2});
  }
  std::array<Qpn, kWindows> owner{};
  Prng prng(3);
  for (int step = 0; step < 5000; ++step) {
    const auto i = static_cast<uint32_t>(prng.below(kWindows));
    const Key key = MemoryTable::make_key(i + 2, 1);
    const Qpn qpn = kPairs[prng.below(std::size(kPairs))];
    switch (prng.below(8)) {
      case 0:
        table.forget_queue_pair(qpn);
        std::ranges::replace(owner, qpn, Qpn());
        break;
      case 1:
        table.remove(key);
        table.set({.pd = kPd, .key = key, .kind = MemoryKind::kWindow2});
        owner[i] = Qpn();
        break;
      case 2:
        if (table.invalidate(key, kPd, qpn) && owner[i] == qpn) owner[i] = Qpn();
        break;
      default: {
        const WindowBind bind{.pd = kPd,
                              .qpn = qpn,
                              .window = key,
                              .new_key = key,
                              .region = region,
                              .access = kRemoteRead,
                              .addr = 0x1000,
                              .length = 1};
        const bool bound = table.bind(bind) == BindError::kNone;
        ASSERT_EQ(bound, owner[i] == Qpn());
        if (bound) owner[i] = qpn;
        break;
      }
    }
    uint64_t addr = 0;
    for (uint32_t w = 0; w < kWindows; ++w) {
      ASSERT_EQ(table.translate_remote(MemoryTable::make_key(w + 2, 1), kPd, owner[w], 0x1000, 1,
                                       kRemoteRead, &addr),
                owner[w] != Qpn())
          << "window " << w << ", step " << step;
    }
    ASSERT_EQ(table.windows_of(region), kWindows - std::ranges::count(owner, Qpn()));
  }
  table.unbind_windows_of(region);
  EXPECT_EQ(table.windows_of(region), 0u);
}

TEST(MemoryWindow, ZeroBasedAddressesCountFromItsStart) {
  Windows w(MemoryKind::kWindow2);
  WindowBind request = Windows::request();
  request.access |= kZeroBased;
  ASSERT_EQ(w.bind(request), BindError::kNone);
  ASSERT_TRUE(w.opens(kBound, 0x1f, 1, kRemoteRead));
  EXPECT_EQ(w.host, 0x705fu);
  EXPECT_FALSE(w.opens(kBound, 0x20, 1, kRemoteRead));
  EXPECT_FALSE(w.opens(kBound, 0x1040, 1, kRemoteRead));
  Windows type1(MemoryKind::kWindow1);
  EXPECT_EQ(type1.bind(request), BindError::kRights);
}

// IBTA 10.6.7.2.4: the consumer owns the low 8 bits; irdma, mlx5 and rdma_rxe look at no others.
TEST(MemoryWindow, Type2TakesTheLowByteOfTheNewKeyWhateverStandsAboveIt) {
  Windows w(MemoryKind::kWindow2);
  WindowBind request = Windows::request();
  request.new_key = Key((~kWindow.value() & ~0xffu) | 0x7b);
  ASSERT_EQ(w.bind(request), BindError::kNone);
  EXPECT_EQ(w.table.key_at(MemoryTable::slot_of(kWindow)), Key((kWindow.value() & ~0xffu) | 0x7b));
}

TEST(MemoryWindow, BindingChecksTheRegion) {
  Windows w(MemoryKind::kWindow2);
  const auto with = [&](auto&& change) {
    WindowBind request = Windows::request();
    change(request);
    return w.bind(request);
  };
  EXPECT_EQ(with([](WindowBind& r) { r.region = Key(kLkey.value() + 1); }), BindError::kNoRegion);
  EXPECT_EQ(with([](WindowBind& r) { r.region = kWindow; }), BindError::kNoRegion);
  EXPECT_EQ(with([](WindowBind& r) { r.addr = 0xfff; }), BindError::kBounds);
  EXPECT_EQ(with([](WindowBind& r) { r.length = 0xc1; }), BindError::kBounds);
  EXPECT_EQ(with([](WindowBind& r) { r.length = UINT64_MAX; }), BindError::kBounds);
  EXPECT_EQ(with([](WindowBind& r) { r.pd = kPd + 1; }), BindError::kNoWindow);
  EXPECT_EQ(with([](WindowBind& r) { r.window = kLkey; }), BindError::kNoWindow);
  EXPECT_EQ(with([](WindowBind& r) { r.window = Key(UINT32_MAX); }), BindError::kNoWindow);
  EXPECT_EQ(w.table.windows_of(kLkey), 0u) << "a refused bind has bound";
  EXPECT_EQ(with([](WindowBind& r) { r.length = 0xc0; }), BindError::kNone);
  Windows closed(MemoryKind::kWindow2, kLocalWrite | kRemoteWrite);
  EXPECT_EQ(closed.bind(Windows::request()), BindError::kNotBindable);
}

TEST(MemoryWindow, LettingAPeerWriteNeedsTheRightToWrite) {
  Windows w(MemoryKind::kWindow2, kMwBind);
  WindowBind request = Windows::request();
  EXPECT_EQ(w.bind(request), BindError::kRights);
  request.access = kRemoteAtomic;
  EXPECT_EQ(w.bind(request), BindError::kRights);
  request.access = kRemoteRead;
  EXPECT_EQ(w.bind(request), BindError::kNone);
}

TEST(MemoryWindow, IsRelaxedAsItsRegionIs) {
  Windows w(MemoryKind::kWindow2, kLocalWrite | kMwBind | kRelaxedOrdering);
  EXPECT_EQ(w.table.relaxed_regions(), 1u);
  ASSERT_EQ(w.bind(Windows::request()), BindError::kNone);
  EXPECT_TRUE(w.opens(kBound, 0x1040, 1, kRemoteWrite | kRelaxedOrdering));
  EXPECT_EQ(w.table.relaxed_regions(), 2u);
  w.table.remove(kBound);
  EXPECT_EQ(w.table.relaxed_regions(), 1u);
}

TEST(MemoryWindow, RemovingItFreesItsRegion) {
  Windows w(MemoryKind::kWindow1);
  ASSERT_EQ(w.bind(Windows::request()), BindError::kNone);
  EXPECT_EQ(w.table.windows_of(kLkey), 1u);
  w.table.remove(kBound);
  EXPECT_EQ(w.table.windows_of(kLkey), 0u);
  EXPECT_FALSE(w.opens(kBound, 0x1040, 1, kRemoteRead));
}

TEST(MemoryTable, RegisteredRegionIsNotInvalidated) {
  MemoryTable table = table_with(region_of(0x1000, 0x100));
  EXPECT_FALSE(table.invalidate(kKey, 1, kQp));
  EXPECT_TRUE(opens(table, 0x1000, 1));
}

TEST(MemoryTable, NullRegionReadsZerosAndDropsWritesForLocalKeysOnly) {
  MemoryTable table(8);
  table.set({.pd = 1, .key = kKey, .kind = MemoryKind::kNull});
  uint64_t from = 0;
  uint64_t to = 0;
  ASSERT_TRUE(table.translate(kKey, 1, UINT64_MAX, MemoryTable::kNullBytesMax, kLocalWrite, &to));
  ASSERT_TRUE(table.translate(kKey, 1, 0, MemoryTable::kNullBytesMax, 0, &from));
  std::memset(reinterpret_cast<void*>(to), 0xff, MemoryTable::kNullBytesMax);
  const auto* bytes = reinterpret_cast<const uint8_t*>(from);
  for (uint64_t i = 0; i < MemoryTable::kNullBytesMax; ++i) ASSERT_EQ(bytes[i], 0) << i;
  EXPECT_FALSE(table.translate_remote(kKey, 1, kQp, 0, 1, 0, &from));
  EXPECT_FALSE(table.translate(kKey, 2, 0, 1, 0, &from));
}

}  // namespace
}  // namespace mprdma::transport
