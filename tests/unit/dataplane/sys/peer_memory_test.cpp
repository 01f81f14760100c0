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
  const uint64_t value = 0x1234;
  // This process plays the peer.
  const MemoryOwner owner{static_cast<uint64_t>(getpid()), reinterpret_cast<uint64_t>(&value),
                          value};
  PeerMemory memory;
};

TEST_F(PeerMemoryTest, IsReadAfterItsOwnerHasBeenRecognised) {
  EXPECT_FALSE(read(owner.address)) << "not yet";
  ASSERT_TRUE(memory.open(owner));
  EXPECT_TRUE(read(owner.address));
  memory.close();
  EXPECT_FALSE(read(owner.address));
}

TEST_F(PeerMemoryTest, OfAnotherProcessIsNotRead) {
  std::array<MemoryOwner, 5> others;
  others.fill(owner);
  others[0].pid = 0;
  others[1].pid = 1ULL << 40 | owner.pid;  // no process number
  others[2].pid = 0x3fffffff;              // above what Linux hands out
  others[3].address = 0;
  others[4].value = value + 1;  // the number means another process here
  for (const MemoryOwner& other : others) {
    EXPECT_FALSE(memory.open(other));
    EXPECT_FALSE(memory.is_open());
    EXPECT_FALSE(read(owner.address));
  }
}

TEST_F(PeerMemoryTest, IsNotReadAnyMoreOnceItWasNotThere) {
  ASSERT_TRUE(memory.open(owner));
  std::array<uint64_t, 2> words{};
  const iovec to{words.data(), sizeof words};
  const std::array from{iovec{reinterpret_cast<void*>(owner.address), 8}, iovec{nullptr, 8}};
  EXPECT_FALSE(memory.read({&to, 1}, from, sizeof words)) << "half of it";
  EXPECT_FALSE(read(owner.address));
}

}  // namespace
}  // namespace mprdma::dataplane
