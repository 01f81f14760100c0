#include "dataplane/port/local_port.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dataplane/open_port.hpp"
#include "tests/support/descriptors.hpp"
#include "tests/unit/dataplane/port/peer_process.hpp"
#include "tests/unit/dataplane/port/port_test_support.hpp"

namespace mprdma::dataplane {
namespace {

using testing::kill_peers;
using testing::now;
using testing::read_pattern;
using testing::send_patterns;
using testing::until;
using testing::WireDirectory;

std::unique_ptr<Port> open_end(const WireDirectory& directory, const std::string& options = "") {
  PortResult result = open_port("local:" + directory.wire() + options);
  EXPECT_TRUE(result) << result.status.text;
  return std::move(result.port);
}

// Waits for a condition while the other end serves its wire.
std::unique_ptr<Port> open_second_end(Port& first, const WireDirectory& directory,
                                      const std::string& options = "") {
  auto opened = std::async(std::launch::async, [&] { return open_end(directory, options); });
  while (opened.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    first.service(now());
  }
  return opened.get();
}

bool connect(Port& a, Port& b) {
  return until([&] {
    a.service(now());
    b.service(now());
    return a.link_up() && b.link_up();
  });
}

// Takes all waiting frames; returns their numbers, and the frames to release.
std::vector<uint64_t> receive(Port& port, std::vector<uint64_t>* cookies) {
  std::vector<uint64_t> numbers;
  RxFrame frames[kBurst];
  while (const unsigned taken = port.rx_burst(frames, kBurst)) {
    for (unsigned i = 0; i < taken; ++i) {
      numbers.push_back(read_pattern(frames[i]));
      cookies->push_back(frames[i].cookie);
    }
  }
  return numbers;
}

void release(Port& port, const std::vector<uint64_t>& cookies) {
  port.rx_release(cookies.data(), static_cast<unsigned>(cookies.size()));
  port.flush();
}

bool readable(int fd, int timeout_ms) {
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, timeout_ms) == 1;
}

class LocalPortPair : public ::testing::Test {
 protected:
  void SetUp() override {
    a_ = open_end(directory_, ",slots=256");
    b_ = open_second_end(*a_, directory_, ",slots=512");
    ASSERT_TRUE(connect(*a_, *b_));
  }

  WireDirectory directory_;
  std::unique_ptr<Port> a_;
  std::unique_ptr<Port> b_;
};

TEST_F(LocalPortPair, FramesArriveInOrderAndWholeInBothDirections) {
  uint64_t sent = 0;
  uint64_t received = 0;
  // More frames than the 16-bit cursors count.
  while (received < 150'000) {
    for (auto [from, to] : {std::pair{a_.get(), b_.get()}, std::pair{b_.get(), a_.get()}}) {
      const unsigned n = send_patterns(*from, sent, 1 + static_cast<unsigned>(sent % kBurst));
      std::vector<uint64_t> cookies;
      for (const uint64_t number : receive(*to, &cookies)) ASSERT_EQ(number, received++);
      sent += n;
      ASSERT_EQ(received, sent);
      std::reverse(cookies.begin(), cookies.end());
      release(*to, cookies);
    }
  }
  EXPECT_EQ(a_->stats().rx_malformed + b_->stats().rx_malformed, 0u);
  EXPECT_EQ(a_->stats().tx_frames, b_->stats().rx_frames);
  EXPECT_EQ(a_->stats().tx_bytes, b_->stats().rx_bytes);
}

TEST_F(LocalPortPair, PayloadIsAlignedAndHasRoomForTheLargestPacket) {
  TxFrame frame{};
  ASSERT_EQ(a_->tx_reserve(&frame, 1), 1u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(frame.payload) % 64, 0u);
  EXPECT_GE(frame.capacity, 4096 + kFrameTailroom);
  EXPECT_GE(a_->info().frame_bytes_max, kFrameHeadroom + 4096 + kFrameTailroom);
  a_->tx_abandon(&frame, 1);
}

TEST_F(LocalPortPair, AReaderThatHoldsAllFramesIsBackPressureAndEndsWhenItReleases) {
  uint64_t sent = 0;
  while (const unsigned n = send_patterns(*a_, sent, kBurst)) sent += n;
  EXPECT_EQ(sent, 256u);
  EXPECT_GT(a_->stats().tx_back_pressure, 0u);
  std::vector<uint64_t> cookies;
  EXPECT_EQ(receive(*b_, &cookies).size(), 256u);
  EXPECT_EQ(send_patterns(*a_, sent, 1), 0u);
  release(*b_, {cookies[17]});
  EXPECT_EQ(send_patterns(*a_, sent, kBurst), 1u);
}

TEST_F(LocalPortPair, DataLeavesFramesForAnswersAndGoesOnWhenSomeAreBack) {
  uint64_t sent = 0;
  while (!a_->tx_tight()) sent += send_patterns(*a_, sent, kBurst);
  EXPECT_GE(sent, 128u);
  EXPECT_TRUE(a_->arm()) << "nothing came back, so sleeping is right";
  EXPECT_EQ(send_patterns(*a_, sent, kBurst), kBurst) << "an acknowledgement still has room";
  std::vector<uint64_t> cookies;
  receive(*b_, &cookies);
  EXPECT_TRUE(a_->tx_tight());
  release(*b_, cookies);
  EXPECT_FALSE(a_->arm()) << "there is room again";
  EXPECT_FALSE(a_->tx_tight());
}

TEST_F(LocalPortPair, AbandonedFramesAreNotSentAndNotLost) {
  for (int round = 0; round < 100; ++round) {
    TxFrame frames[kBurst];
    ASSERT_EQ(a_->tx_reserve(frames, kBurst), kBurst);
    a_->tx_abandon(frames, kBurst);
  }
  a_->flush();
  std::vector<uint64_t> cookies;
  EXPECT_TRUE(receive(*b_, &cookies).empty());
}

TEST_F(LocalPortPair, TheFirstFrameAfterArmWakesOnceAndLaterOnesDoNot) {
  ASSERT_TRUE(b_->arm());
  EXPECT_FALSE(readable(b_->notify_fd(), 0));
  send_patterns(*a_, 0, 1);
  send_patterns(*a_, 1, 1);
  EXPECT_TRUE(readable(b_->notify_fd(), 1000));
  EXPECT_EQ(a_->stats().wakeups_sent, 1u);
  b_->service(now());
  EXPECT_FALSE(readable(b_->notify_fd(), 0));
}

TEST_F(LocalPortPair, ArmRefusesWhileFramesWait) {
  send_patterns(*a_, 0, 1);
  EXPECT_FALSE(b_->arm());
  std::vector<uint64_t> cookies;
  EXPECT_EQ(receive(*b_, &cookies).size(), 1u);
  EXPECT_TRUE(b_->arm());
}

TEST_F(LocalPortPair, NobodyIsWokenWhoDidNotAsk) {
  for (uint64_t i = 0; i < 100; ++i) send_patterns(*a_, i, 1);
  ASSERT_FALSE(b_->arm());
  b_->disarm();
  send_patterns(*a_, 100, 1);
  EXPECT_EQ(a_->stats().wakeups_sent, 0u);
}

TEST_F(LocalPortPair, AwaitsAFrameForAsLongAsItIsLet) {
  std::atomic<uint32_t> enough = 0;
  EXPECT_FALSE(b_->await_rx(3, enough).arrived);
  EXPECT_EQ(b_->await_rx(3, enough).made, 3U);
  std::thread sender([this] { send_patterns(*a_, 0, 1); });
  EXPECT_TRUE(b_->await_rx(UINT32_MAX, enough).arrived);
  sender.join();
  EXPECT_TRUE(b_->await_rx(1, enough).arrived) << "it has not been taken";
  std::vector<uint64_t> cookies;
  EXPECT_EQ(receive(*b_, &cookies).size(), 1U);
  EXPECT_FALSE(b_->await_rx(1, enough).arrived);
  enough = 1;
  const Port::Looks looks = b_->await_rx(UINT32_MAX, enough);
  EXPECT_FALSE(looks.arrived);
  EXPECT_EQ(looks.made, 1U) << "somebody wants the lock";
}

TEST_F(LocalPortPair, ASenderOutOfFramesIsWokenByTheirReturn) {
  uint64_t sent = 0;
  while (const unsigned n = send_patterns(*a_, sent, kBurst)) sent += n;
  ASSERT_TRUE(a_->arm());
  std::vector<uint64_t> cookies;
  receive(*b_, &cookies);
  release(*b_, {cookies[0]});
  EXPECT_TRUE(readable(a_->notify_fd(), 1000));
  // A sender that has free frames is not woken.
  a_->service(now());
  ASSERT_EQ(send_patterns(*a_, sent, 1), 1u);
  ASSERT_TRUE(a_->arm());
  release(*b_, {cookies[1]});
  EXPECT_EQ(b_->stats().wakeups_sent, 1u);
}

TEST_F(LocalPortPair, BorrowedFramesOutliveThePeer) {
  send_patterns(*a_, 7, 20);
  RxFrame frames[20];
  ASSERT_EQ(b_->rx_burst(frames, 20), 20u);
  a_.reset();
  ASSERT_TRUE(until([&] {
    b_->service(now());
    return !b_->link_up();
  }));
  auto next = open_end(directory_);
  ASSERT_TRUE(connect(*b_, *next));
  send_patterns(*next, 1000, 20);
  std::vector<uint64_t> cookies;
  EXPECT_EQ(receive(*b_, &cookies).front(), 1000u);
  for (uint64_t i = 0; i < 20; ++i) EXPECT_EQ(read_pattern(frames[i]), 7 + i);
  for (const RxFrame& frame : frames) cookies.push_back(frame.cookie);
  release(*b_, cookies);
  b_->service(now());
  // The late releases did not reach the new peer.
  uint64_t sent = 0;
  while (const unsigned n = send_patterns(*next, sent, kBurst)) sent += n;
  EXPECT_EQ(sent, 1024u);
  EXPECT_EQ(next->stats().rx_malformed, 0u);
}

TEST_F(LocalPortPair, FramesInFlightToADeadPeerComeBackAndAreCounted) {
  uint64_t sent = 0;
  while (const unsigned n = send_patterns(*a_, sent, kBurst)) sent += n;
  b_.reset();
  ASSERT_TRUE(until([&] {
    a_->service(now());
    return !a_->link_up();
  }));
  EXPECT_EQ(a_->stats().tx_dropped, 256u);
  EXPECT_EQ(a_->stats().link_downs, 1u);
  // Frames without a carrier are accepted, dropped and counted.
  EXPECT_EQ(send_patterns(*a_, 0, kBurst), kBurst);
  EXPECT_EQ(a_->stats().tx_dropped, 256u + kBurst);
}

TEST_F(LocalPortPair, TheLastFramesOfAPeerThatLeftStillArrive) {
  ASSERT_EQ(send_patterns(*a_, 0, 3), 3u);
  a_.reset();
  for (int i = 0; i < 3; ++i) b_->service(now());
  std::vector<uint64_t> cookies;
  EXPECT_EQ(receive(*b_, &cookies), (std::vector<uint64_t>{0, 1, 2}));
  release(*b_, cookies);
  b_->service(now());
  EXPECT_FALSE(b_->link_up());
}

TEST_F(LocalPortPair, FramesThatNobodyTakesDoNotKeepTheLinkOfADeadPeerUp) {
  ASSERT_EQ(send_patterns(*a_, 0, 3), 3u);
  a_.reset();
  EXPECT_TRUE(until([&] {
    b_->service(now());
    return !b_->link_up();
  }));
}

TEST_F(LocalPortPair, AThirdProcessOnATakenWireCannotOpenIt) {
  std::atomic<bool> done = false;
  std::thread server([&] {
    while (!done) {
      a_->service(now());
      sched_yield();
    }
  });
  const PortResult third = open_port("local:" + directory_.wire());
  done = true;
  server.join();
  EXPECT_EQ(third.status.error, EBUSY);
  EXPECT_NE(third.status.text.find("two other processes"), std::string::npos) << third.status.text;
}

TEST_F(LocalPortPair, AThirdProcessIsTurnedAwayAndGetsItsTurnLater) {
  auto third = open_end(directory_);
  ASSERT_TRUE(until([&] {
    a_->service(now());
    third->service(now());
    return std::string(third->link_text()).find("two other processes") != std::string::npos;
  }));
  EXPECT_FALSE(third->link_up());
  b_.reset();
  EXPECT_TRUE(connect(*a_, *third));
}

TEST(LocalPort, AClosedWireLeavesNoFiles) {
  WireDirectory directory;
  {
    auto a = open_end(directory);
    auto b = open_end(directory);
    ASSERT_TRUE(connect(*a, *b));
    EXPECT_EQ(access(directory.wire().c_str(), F_OK), 0);
  }
  EXPECT_NE(access(directory.wire().c_str(), F_OK), 0);
  EXPECT_NE(access((directory.wire() + ".lock").c_str(), F_OK), 0);
}

TEST(LocalPort, ASocketFileThatSomebodyRemovedIsMadeAnew) {
  WireDirectory directory;
  auto a = open_end(directory);
  a->service(now());
  ASSERT_EQ(unlink(directory.wire().c_str()), 0);
  auto b = open_end(directory);
  EXPECT_TRUE(connect(*a, *b));
}

TEST(LocalPort, ErrorsSayWhatToDo) {
  const auto message = [](const std::string& spec) {
    const PortResult result = open_port(spec);
    EXPECT_FALSE(result);
    EXPECT_NE(result.status.error, 0);
    return result.status.text;
  };
  EXPECT_NE(message("local:/nonexistent/dir/wire").find("create it"), std::string::npos);
  EXPECT_NE(message("local:/tmp/" + std::string(200, 'x')).find("shorten"), std::string::npos);
  EXPECT_NE(message("local:/tmp/x,slots=300").find("power of two"), std::string::npos);
  EXPECT_NE(message("local:/tmp/x,colour=red").find("slots=N"), std::string::npos);
  EXPECT_NE(message("locale:/tmp/x").find("'local:SOCKET-PATH'"), std::string::npos);
  WireDirectory directory;
  const int fd = open(directory.wire().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  close(fd);
  EXPECT_NE(message("local:" + directory.wire()).find("not a socket"), std::string::npos);
}

TEST(LocalPort, NobodyCanWriteOrShrinkAPublishedRegion) {
  auto region = local::OwnRegion::create({});
  ASSERT_NE(region, nullptr);
  EXPECT_NE(ftruncate(region->fd(), 4096), 0);
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, region->fd(), 0), MAP_FAILED);
  EXPECT_NE(write(region->fd(), "x", 1), 1);
}

// ---- Processes that are killed

TEST(LocalPortKill, AListenerSurvivesAHundredKilledDiallers) {
  WireDirectory directory;
  auto port = open_end(directory, ",slots=256");
  port->service(now());
  kill_peers(*port, "local:" + directory.wire(), 100);
  EXPECT_GE(port->stats().link_ups, 100u);
  EXPECT_EQ(port->stats().rx_malformed, 0u);
}

TEST(LocalPortKill, ADiallerSurvivesAHundredKilledListeners) {
  WireDirectory directory;
  auto port = open_end(directory, ",slots=256,role=dial");
  kill_peers(*port, "local:" + directory.wire() + ",role=listen", 100);
  EXPECT_GE(port->stats().link_ups, 100u);
  EXPECT_EQ(port->stats().rx_malformed, 0u);
}

TEST(LocalPortFork, AChildKeepsNoMemoryOfThePort) {
  const auto memories = [] { return static_cast<int>(open_descriptors("/memfd:")); };
  const int before = memories();
  WireDirectory directory;
  auto port = open_end(directory);
  EXPECT_GT(memories(), before);
  const pid_t pid = fork();
  if (pid == 0) {
    port->close_after_fork();
    _exit(memories() - before);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(LocalPortKill, AForkedChildThatClosedItsCopiesDoesNotKeepTheLinkUp) {
  WireDirectory directory;
  auto survivor = open_end(directory);
  survivor->service(now());
  int to_parent[2];
  int to_child[2];
  ASSERT_EQ(pipe2(to_parent, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(to_child, O_CLOEXEC), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    // The process with the other end; its own child lives on.
    survivor->close_after_fork();
    auto port = open_port("local:" + directory.wire() + ",role=dial").port;
    until([&] {
      port->service(now());
      return port->link_up();
    });
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      port->close_after_fork();
      close(to_child[1]);
      char byte = 0;
      _exit(read(to_child[0], &byte, 1) == 0 ? 0 : 1);  // until the test ends
    }
    [[maybe_unused]] const ssize_t written = write(to_parent[1], "x", 1);
    pause();
  }
  ASSERT_TRUE(until([&] {
    survivor->service(now());
    return survivor->link_up() && readable(to_parent[0], 0);
  }));
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  EXPECT_TRUE(until([&] {
    survivor->service(now());
    return !survivor->link_up();
  }));
  for (const int fd : {to_parent[0], to_parent[1], to_child[0], to_child[1]}) close(fd);
}

}  // namespace
}  // namespace mprdma::dataplane
