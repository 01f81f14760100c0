// A LocalPort against a peer that breaks the rules: the worst is a counted drop or link down.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <new>
#include <set>
#include <span>
#include <string>

#include "base/prng.hpp"
#include "dataplane/port/local_port_message.hpp"
#include "tests/support/descriptors.hpp"
#include "tests/unit/dataplane/port/hostile_peer.hpp"

namespace mprdma::dataplane {
namespace {

using local::Descriptor;
using local::Geometry;
using testing::HostilePeer;
using testing::HostilePeerTest;
using testing::kGoodSeals;
using testing::now;
using testing::until;

TEST_F(HostilePeerTest, ARegionThatIsNotWhatItClaimsIsRefused) {
  using Claim = HostilePeer::Claim;
  const size_t good = Geometry{256, local::kStrideDefault}.bytes();
  const Claim claims[] = {
      {.seals = 0},
      {.seals = kGoodSeals & ~F_SEAL_SHRINK},
      {.seals = kGoodSeals & ~F_SEAL_FUTURE_WRITE},
      {.file_bytes = good - 1},
      {.file_bytes = 4096},
      {.file_bytes = 8},
      {.magic = 1},
      {.version = 99},
      {.slots = 0},
      {.slots = 255},
      {.slots = 128},
      {.slots = 1U << 20},
      {.stride = 0},
      {.stride = 4353},
      {.stride = 0xffffffc0, .file_bytes = good},
      {.large_slots = 257, .large_stride = local::kLargeStride},
      {.large_slots = 0xffffffff, .large_stride = local::kLargeStride},
      {.large_slots = 16, .large_stride = 0},
      {.large_slots = 16, .large_stride = local::kLargeStride + 1},
      {.large_slots = 16, .large_stride = local::kLargeStrideMax + 64},
      {.large_slots = 0, .large_stride = local::kLargeStride},
      {.file_bytes = good, .large_slots = 16, .large_stride = local::kLargeStride},
  };
  for (const Claim& claim : claims) {
    peer_ = std::make_unique<HostilePeer>(directory_.wire());
    Claim c = claim;
    if (!c.geometry().sane() && c.file_bytes == 0) c.file_bytes = good;
    const uint64_t before = port_->stats().rx_malformed;
    peer_->hello(c);
    EXPECT_TRUE(until([&] {
      port_->service(now());
      return port_->stats().rx_malformed > before;
    })) << &claim - claims;
    EXPECT_FALSE(port_->link_up());
  }
  expect_next_peer_works();
}

TEST_F(HostilePeerTest, ADescriptorThatIsNoMemoryFileIsRefused) {
  const int fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
  peer_->send_hello(fd);
  close(fd);
  EXPECT_TRUE(until([&] {
    port_->service(now());
    return port_->stats().rx_malformed == 1;
  }));
  EXPECT_FALSE(port_->link_up());
  expect_next_peer_works();
}

TEST_F(HostilePeerTest, GarbageOnTheSocketEndsTheHandshake) {
  peer_->send_bytes("nonsense", 8, 0);
  for (int i = 0; i < 3; ++i) port_->service(now());
  EXPECT_FALSE(port_->link_up());
  expect_next_peer_works();
}

TEST_F(HostilePeerTest, IsWokenByItsEventfdAndByAMessageWithoutOne) {
  const int waker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  attach({}, waker);
  wake_peer();
  uint64_t wakes = 0;
  EXPECT_EQ(read(waker, &wakes, sizeof wakes), ssize_t{sizeof wakes});
  EXPECT_FALSE(peer_->wake_message_came());
  close(waker);

  peer_ = std::make_unique<HostilePeer>(directory_.wire());  // of an earlier version
  ASSERT_TRUE(until([&] {
    port_->service(now());
    return !port_->link_up();
  }));
  attach();
  wake_peer();
  EXPECT_TRUE(peer_->wake_message_came());
}

// Whoever writes to an eventfd that is full may block; whoever writes to a pipe that nobody reads
// gets a signal.
TEST_F(HostilePeerTest, ADescriptorThatMayBlockOrIsNoEventfdWakesNobody) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  attach({}, ends[1]);
  close(ends[1]);
  wake_peer();
  EXPECT_TRUE(peer_->wake_message_came());
  char byte = 0;
  EXPECT_EQ(read(ends[0], &byte, 1), 0) << "the port has closed it";
  close(ends[0]);

  peer_ = std::make_unique<HostilePeer>(directory_.wire());
  ASSERT_TRUE(until([&] {
    port_->service(now());
    return !port_->link_up();
  }));
  const int blocks = eventfd(0, EFD_CLOEXEC);
  attach({}, blocks);
  wake_peer();
  EXPECT_TRUE(peer_->wake_message_came());
  close(blocks);
}

TEST_F(HostilePeerTest, NoDescriptorOfAHelloStaysOpen) {
  const size_t before = open_descriptors();
  const int waker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  attach({}, waker);
  peer_->send_hello(waker, waker);  // out of turn: the link goes down
  ASSERT_TRUE(until([&] {
    port_->service(now());
    return !port_->link_up();
  }));
  peer_ = std::make_unique<HostilePeer>(directory_.wire());
  peer_->hello({.seals = 0}, waker);  // refused
  ASSERT_TRUE(until([&] {
    port_->service(now());
    return port_->stats().rx_malformed > 0;
  }));
  close(waker);
  peer_ = std::make_unique<HostilePeer>(directory_.wire());
  EXPECT_EQ(open_descriptors(), before);
}

// It could make the descriptor block later. Nor does it get one of ours.
TEST_F(HostilePeerTest, AStrangerExchangesNoEventfds) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  port_ = LocalPort::open({.path = "",
                           .slots = 256,
                           .role = local::Role::kAdopted,
                           .socket = ends[0],
                           .stranger = true})
              .port;
  ASSERT_NE(port_, nullptr);
  peer_ = std::make_unique<HostilePeer>(ends[1]);
  uint32_t message[4] = {};
  PassedFds passed;
  ASSERT_EQ(receive_with_fds(ends[1], message, sizeof message, &passed), ssize_t{sizeof message});
  EXPECT_EQ(passed.count, 1U) << "its memory";
  close_rest(&passed, [](int fd) { close(fd); });

  const int waker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  attach({}, waker);
  wake_peer();
  EXPECT_TRUE(peer_->wake_message_came());
  uint64_t wakes = 0;
  EXPECT_LT(read(waker, &wakes, sizeof wakes), 0);
  close(waker);

  // Nor does it say on which core our helper runs.
  EXPECT_TRUE(local::send_message(ends[1], local::MessageType::kWake, local::Refusal::kNone, 1));
  port_->service(now());
  EXPECT_TRUE(port_->link_up());
  EXPECT_EQ(port_->take_costly_waker(), -1);
}

TEST_F(HostilePeerTest, APeerThatNeverSpeaksIsDroppedAfterTheTimeout) {
  Time t = now();
  port_->service(t);
  auto next = open_port("local:" + directory_.wire() + ",role=dial").port;
  EXPECT_TRUE(until([&] {
    t += Duration::ms(100);  // the port's clock is what it is told
    port_->service(t);
    next->service(t);
    return next->link_up() && port_->link_up();
  }));
}

TEST_F(HostilePeerTest, BadDescriptorsAreCountedAndGoodOnesBetweenThemArrive) {
  attach();
  const Descriptor bad[] = {
      {.slot = 256, .length = 100, .offset = 64, .sequence = 0},
      {.slot = 0xffff, .length = 100, .offset = 64, .sequence = 0},
      {.slot = 1, .length = 13, .offset = 64, .sequence = 0},
      {.slot = 2, .length = 0, .offset = 0, .sequence = 0},
      {.slot = 3, .length = 4352, .offset = 1, .sequence = 0},
      {.slot = 4, .length = 0xffff, .offset = 0xffff, .sequence = 0},
  };
  uint16_t position = 0;
  for (const Descriptor& descriptor : bad) peer_->put(position++, descriptor);
  peer_->put(position++, {.slot = 9, .length = 4352, .offset = 0, .sequence = 0});
  // The peer sends the same slot while we hold it.
  peer_->put(position++, {.slot = 9, .length = 100, .offset = 0, .sequence = 0});
  RxFrame frames[kBurst];
  ASSERT_EQ(port_->rx_burst(frames, kBurst), 1u);
  EXPECT_EQ(frames[0].length, 4352u);
  EXPECT_EQ(port_->stats().rx_malformed, 7u);
  EXPECT_TRUE(port_->link_up());
  port_->rx_release(&frames[0].cookie, 1);
  expect_next_peer_works();
}

TEST_F(HostilePeerTest, ACursorThatJumpsTakesTheLinkDown) {
  attach();
  peer_->header().newest.descriptor.store(Descriptor{0, 64, 0, 257}.pack());
  RxFrame frames[kBurst];
  EXPECT_EQ(port_->rx_burst(frames, kBurst), 0u);
  EXPECT_FALSE(port_->link_up());
  EXPECT_FALSE(port_->arm());
  port_->service(now());
  EXPECT_EQ(port_->stats().link_downs, 1u);
  expect_next_peer_works();
}

TEST_F(HostilePeerTest, FramesReturnedTwiceOrNeverSentAreIgnored) {
  attach();
  ASSERT_EQ(testing::send_patterns(*port_, 0, kBurst), kBurst);
  ASSERT_EQ(testing::send_patterns(*port_, 0, kBurst), kBurst);
  ASSERT_EQ(testing::send_patterns(*port_, 0, kBurst), kBurst);
  // We hold the slots 0..95.
  const uint16_t returned[] = {5, 5, 200, 0xffff, 5, 6};
  for (uint16_t i = 0; i < 6; ++i) peer_->return_ring()[i].store(returned[i]);
  peer_->header().returned.store(6);
  uint64_t sent = 0;
  std::set<uint64_t> slots;
  TxFrame frames[kBurst];
  while (const unsigned n = port_->tx_reserve(frames, kBurst)) {
    for (unsigned i = 0; i < n; ++i) {
      EXPECT_TRUE(slots.insert(frames[i].cookie).second) << "a frame handed out twice";
      testing::write_pattern(&frames[i], i);
    }
    port_->tx_commit(frames, n);
    sent += n;
  }
  EXPECT_EQ(sent, 256u - 96 + 2);
  EXPECT_EQ(port_->stats().rx_malformed, 4u);
  peer_->header().returned.store(6 + 257);
  EXPECT_EQ(port_->tx_reserve(frames, 1), 0u);
  EXPECT_FALSE(port_->link_up());
  expect_next_peer_works();
}

TEST_F(HostilePeerTest, NoGarbageInTheRegionDoesHarm) {
  attach();
  Prng prng(42);
  uint64_t taken_total = 0;
  uint16_t position = 0;
  uint32_t returned = 0;
  for (int round = 0; round < 20'000; ++round) {
    if (!port_->link_up()) {
      port_->service(now());
      peer_ = std::make_unique<HostilePeer>(directory_.wire());
      attach();
      position = 0;
      returned = 0;
    }
    // Values are often nearly right, so that every check is reached.
    for (int i = 0; i < 8; ++i) {
      const auto d = Descriptor::unpack(prng.next_u64());
      peer_->put(position++,
                 {static_cast<uint16_t>(d.slot & 511), static_cast<uint16_t>(d.length & 8191),
                  static_cast<uint16_t>(d.offset & 255), 0});
      peer_->return_ring()[returned++ % 256].store(static_cast<uint16_t>(prng.next_u64() & 511));
    }
    peer_->header().returned.store(returned);
    if (prng.below(256) == 0) peer_->header().newest.descriptor.store(prng.next_u64());
    if (prng.below(256) == 0) peer_->header().returned.store(static_cast<uint32_t>(position) * 77);
    RxFrame frames[kBurst];
    uint64_t sum = 0;
    const unsigned taken = port_->rx_burst(frames, kBurst);
    for (unsigned i = 0; i < taken; ++i) {
      for (uint32_t k = 0; k < frames[i].length; k += 64) sum += frames[i].data[k];
      sum += frames[i].data[frames[i].length - 1];
      port_->rx_release(&frames[i].cookie, 1);
    }
    EXPECT_EQ(sum, 0u);
    taken_total += taken;
    testing::send_patterns(*port_, 0, 4);
  }
  EXPECT_GT(taken_total, 0u);
  expect_next_peer_works();
}

}  // namespace
}  // namespace mprdma::dataplane
