#include "dataplane/sys/peer_memory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

namespace mprdma::dataplane {
namespace {

class PeerMemoryTest : public ::testing::Test {
 protected:
  bool read(uint64_t address) {
    uint64_t word = 0;
    const iovec to{&word, sizeof word};
    const iovec from{reinterpret_cast<void*>(address), sizeof word};
    return memory.read({&to, 1}, {&from, 1}, sizeof word) && word == value;
  }
  // This process plays the peer.
  uint64_t value = 0x1234;
  const MemoryMark mark{reinterpret_cast<uint64_t>(&value), value};
  PeerMemory memory;
};

TEST_F(PeerMemoryTest, IsReadAfterItsOwnerHasBeenRecognised) {
  EXPECT_FALSE(read(mark.address)) << "not yet";
  ASSERT_TRUE(memory.open(getpid(), mark));
  EXPECT_TRUE(read(mark.address));
  memory.close();
  EXPECT_FALSE(read(mark.address));
}

TEST_F(PeerMemoryTest, OfAnotherProcessIsNotRead) {
  constexpr pid_t kNobody = 0x3fffffff;  // above what Linux hands out
  for (const pid_t pid : {0, -1, kNobody}) EXPECT_FALSE(memory.open(pid, mark));
  EXPECT_FALSE(memory.open(getpid(), {0, value}));
  EXPECT_FALSE(memory.open(getpid(), {mark.address, value + 1})) << "not the process of this mark";
  EXPECT_FALSE(memory.is_open());
  EXPECT_FALSE(read(mark.address));
}

TEST_F(PeerMemoryTest, OfWhichAPartIsNotThereIsNotReadWhole) {
  ASSERT_TRUE(memory.open(getpid(), mark));
  std::array<uint64_t, 2> words{};
  const iovec to{words.data(), sizeof words};
  const std::array from{iovec{reinterpret_cast<void*>(mark.address), 8}, iovec{nullptr, 8}};
  EXPECT_FALSE(memory.read({&to, 1}, from, sizeof words));
  EXPECT_TRUE(read(mark.address)) << "the rest is";
}

// The number means another process by now, or another program.
TEST_F(PeerMemoryTest, WithoutItsMarkIsNotReadAnyMore) {
  ASSERT_TRUE(memory.open(getpid(), mark));
  const uint64_t other = value;
  value = 0;
  uint64_t word = 0;
  const iovec to{&word, sizeof word};
  const iovec from{const_cast<uint64_t*>(&other), sizeof word};
  EXPECT_FALSE(memory.read({&to, 1}, {&from, 1}, sizeof word));
}

}  // namespace
}  // namespace mprdma::dataplane
