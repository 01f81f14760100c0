// Direct rings: what the daemon makes and refuses, and what a process does with them.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "dataplane/client/direct_rings.hpp"
#include "tests/support/descriptors.hpp"
#include "tests/support/eventually.hpp"
#include "tests/unit/dataplane/daemon/daemon_support.hpp"

namespace mprdma::dataplane::mprdmad {
namespace {

using client::DirectRings;
using client::RingOffer;
using client::RingRefused;
using client::RingRequest;

// ---- The daemon

class RingServerTest : public DaemonServerTest {
 protected:
  static void ask(const Process& who, uint32_t block, uint32_t last_ring = 0) {
    auto request = client::new_message<RingRequest>(7);
    request.block = block;
    request.last_ring = last_ring;
    ASSERT_EQ(client::send_message(who.fd, request), 0);
  }
  int refused(Process& who) {
    RingRefused answer;
    return who.await(daemon, &answer) ? answer.error : -1;
  }
  // The process's end of the ring that is offered to it next.
  std::unique_ptr<Port> offered(Process& who, RingOffer* offer) {
    if (!who.await(daemon, offer) || who.port_fd < 0) return nullptr;
    LocalPort::Options options;
    options.role = local::Role::kAdopted;
    options.socket = std::exchange(who.port_fd, -1);
    return LocalPort::open(options).port;
  }
  uint64_t made() { return daemon.loop->server().counters().nic_rings_made; }
};

TEST_F(RingServerTest, BothGetAnEndAndTheDaemonSeesNothingOfTheFrames) {
  ask(a, b.block());
  RingOffer to_a;
  RingOffer to_b;
  a.port = offered(a, &to_a);
  b.port = offered(b, &to_b);
  ASSERT_TRUE(a.port && b.port);
  EXPECT_EQ(to_a.block, b.block());
  EXPECT_EQ(to_b.block, a.block());
  EXPECT_EQ(to_a.ring, to_b.ring);
  EXPECT_EQ(to_a.same_user, 1u);
  ASSERT_TRUE(until([&] {
    a.port->service(dataplane::testing::now());
    b.port->service(dataplane::testing::now());
    return a.port->link_up() && b.port->link_up();
  }));
  const uint64_t before = daemon.loop->sw().total().nic_frames_in;
  const Bytes frame = frame_for(b);
  ASSERT_TRUE(a.send(frame));
  EXPECT_TRUE(b.receives(daemon, frame));
  EXPECT_EQ(daemon.loop->sw().total().nic_frames_in, before);
}

TEST_F(RingServerTest, RequestsThatCrossMakeOneRingAndALaterOneReplacesIt) {
  ask(a, b.block());
  ask(b, a.block());
  RingOffer first;
  ASSERT_TRUE(a.await(daemon, &first));
  ASSERT_TRUE(b.await(daemon, &first));
  client::Query query = client::new_message<client::Query>(3);
  client::Info info;
  ASSERT_EQ(client::send_message(b.fd, query), 0);
  ASSERT_TRUE(b.await(daemon, &info)) << "behind its request";
  EXPECT_EQ(made(), 1u);
  ask(b, a.block(), first.ring);
  RingOffer second;
  ASSERT_TRUE(b.await(daemon, &second));
  EXPECT_NE(second.ring, first.ring);
  EXPECT_EQ(made(), 2u);
}

TEST_F(RingServerTest, RefusesWithAReason) {
  ask(a, (a.block() + b.block() + 1) % client::kBlocks);
  EXPECT_EQ(refused(a), ENOENT);
  ask(a, UINT32_MAX);
  EXPECT_EQ(refused(a), ENOENT) << "kNoBlock is nobody's";
  ask(a, a.block());
  EXPECT_EQ(refused(a), EINVAL);
  const uint32_t gone = b.block();
  b.leave();
  ASSERT_TRUE(daemon.run([&] { return daemon.loop->server().clients() == 1; }));
  ask(a, gone);
  EXPECT_EQ(refused(a), ENOENT);
  EXPECT_EQ(made(), 0u);
  EXPECT_EQ(daemon.loop->server().counters().nic_rings_refused, 4u);
}

TEST_F(RingServerTest, RateIsLimitedAndNoDescriptorStays) {
  // Some of before are still being closed, on another thread.
  const size_t before = open_descriptors();
  uint32_t last = 0;
  for (uint32_t i = 0; i < DaemonServer::kRingsPerPeriod; ++i) {
    ask(a, b.block(), last);
    RingOffer offer;
    for (Process* process : {&a, &b}) {
      ASSERT_TRUE(process->await(daemon, &offer)) << i;
      close(std::exchange(process->port_fd, -1));
    }
    last = offer.ring;
  }
  ask(a, b.block(), last);
  EXPECT_EQ(refused(a), EAGAIN);
  EXPECT_LE(open_descriptors(), before);
  expect_others_work();
}

TEST(RingPolicy, OffRefusesAll) {
  WireDirectory directory;
  RunningDaemon daemon(directory.wire(), 42, RingPolicy::kOff);
  ASSERT_EQ(daemon.started.text, "");
  Process a(directory.wire());
  Process b(directory.wire());
  ASSERT_TRUE(a.enter(daemon, 1) && b.enter(daemon, 2));
  auto request = client::new_message<RingRequest>(7);
  request.block = b.block();
  ASSERT_EQ(client::send_message(a.fd, request), 0);
  RingRefused answer;
  ASSERT_TRUE(a.await(daemon, &answer));
  EXPECT_EQ(answer.error, EPERM);
}

// ---- The process

class DirectRingsTest : public ::testing::Test {
 protected:
  struct Side {
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    DirectRings rings{kOurMac, epoll_fd};
    ~Side() { close(epoll_fd); }
    bool woken() const {
      epoll_event event{};
      return epoll_wait(epoll_fd, &event, 1, 0) == 1;
    }
  };
  static constexpr uint32_t kA = 3;  // blocks
  static constexpr uint32_t kB = 4;

  void offer_both(uint32_t number = 1) {
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
    a.rings.on_offer({kB, number, true, sockets[0]}, now);
    b.rings.on_offer({kA, number, true, sockets[1]}, now);
  }
  void service(Duration later = Duration::ms(1)) {
    now += later;
    a.rings.service(now);
    b.rings.service(now);
  }
  void connect() {
    offer_both();
    for (int i = 0; i < 4; ++i) service();
    ASSERT_NE(a.rings.ring_to(kB), nullptr);
    ASSERT_NE(b.rings.ring_to(kA), nullptr);
  }
  static void send(DirectRing* ring) {
    TxFrame frame{};
    ASSERT_EQ(ring->port->tx_reserve(&frame, 1), 1u);
    std::memset(frame.payload, 1, 64);
    frame.frame_bytes = 64;
    ring->port->tx_commit(&frame, 1);
  }

  Time now = Time{} + Duration::s(100);
  Side a;
  Side b;
};

TEST_F(DirectRingsTest, ComesUpAtBothEndsAndWakesWhoSleeps) {
  connect();
  EXPECT_EQ(a.rings.up().size(), 1u);
  EXPECT_EQ(a.rings.state(kB, now), RingState::kUp);
  service();
  ASSERT_TRUE(b.rings.arm());
  ASSERT_FALSE(b.woken());
  EXPECT_FALSE(b.rings.arrived());
  send(a.rings.ring_to(kB));
  a.rings.flush();
  EXPECT_TRUE(b.woken());
  EXPECT_TRUE(b.rings.arrived());
  EXPECT_FALSE(b.rings.arm()) << "a frame waits";
}

TEST_F(DirectRingsTest, RingOfAProcessThatWentStaysWhereItIsWhileItIsNamedOrLends) {
  connect();
  DirectRing* ring = b.rings.ring_to(kA);
  ring->users = 1;
  send(a.rings.ring_to(kB));
  a.rings.flush();
  RxFrame frame{};
  ASSERT_EQ(ring->port->rx_burst(&frame, 1), 1u);
  const uint64_t changes = b.rings.changes();
  a.rings.close_all();
  service();
  EXPECT_EQ(b.rings.ring_to(kA), nullptr);
  EXPECT_TRUE(b.rings.up().empty());
  EXPECT_NE(b.rings.changes(), changes);
  ring->users = 0;
  service();
  EXPECT_EQ(frame.data[10], 1) << "borrowed";
  ring->port->rx_release(&frame.cookie, 1);
  service();  // it is gone now, its counters are not
  EXPECT_EQ(b.rings.stats().rx_frames, 1u);
}

TEST_F(DirectRingsTest, UnusedOneIsClosedAndOneThatReceivesIsUsed) {
  connect();
  a.rings.ring_to(kB)->users = 1;
  for (int i = 0; i < 4; ++i) {
    send(a.rings.ring_to(kB));
    a.rings.flush();
    RxFrame frame{};
    ASSERT_EQ(b.rings.ring_to(kA)->port->rx_burst(&frame, 1), 1u);
    b.rings.ring_to(kA)->port->rx_release(&frame.cookie, 1);
    b.rings.flush();
    service(DirectRings::kUnusedMax - Duration::ms(1));
    ASSERT_NE(b.rings.ring_to(kA), nullptr);
  }
  service(DirectRings::kUnusedMax + Duration::ms(1));
  EXPECT_EQ(b.rings.ring_to(kA), nullptr);
  service();
  EXPECT_EQ(a.rings.ring_to(kB), nullptr) << "the other end sees it";
}

TEST_F(DirectRingsTest, AnotherOfferReplacesTheRing) {
  connect();
  DirectRing* before = a.rings.ring_to(kB);
  before->users = 1;
  offer_both(2);
  EXPECT_FALSE(before->up);
  for (int i = 0; i < 4; ++i) service();
  EXPECT_NE(a.rings.ring_to(kB), nullptr);
  EXPECT_NE(a.rings.ring_to(kB), before);
  EXPECT_EQ(a.rings.up().size(), 1u);
  before->users = 0;
}

TEST_F(DirectRingsTest, AsksOnceAndWaitsWithPatience) {
  uint32_t last = 9;
  ASSERT_TRUE(a.rings.want(kB, now, &last));
  EXPECT_EQ(last, 0u);
  EXPECT_EQ(a.rings.state(kB, now), RingState::kComing);
  EXPECT_FALSE(a.rings.want(kB, now, &last)) << "asked already";
  EXPECT_EQ(a.rings.state(kB, now + DirectRings::kPatience), RingState::kNone);
  a.rings.on_refused(kB, now);
  EXPECT_EQ(a.rings.state(kB, now), RingState::kNone);
  EXPECT_FALSE(a.rings.want(kB, now, &last));
  now += DirectRings::kRetryAfter;
  ASSERT_TRUE(a.rings.want(kB, now, &last));
  offer_both(17);
  EXPECT_EQ(a.rings.state(kB, now), RingState::kComing);
  b.rings.close_all();
  for (int i = 0; i < 4; ++i) service();
  EXPECT_EQ(a.rings.state(kB, now), RingState::kNone) << "gone before it was up";
  now += DirectRings::kRetryAfter;
  ASSERT_TRUE(a.rings.want(kB, now, &last));
  EXPECT_EQ(last, 17u);
  EXPECT_FALSE(a.rings.want(client::kBlocks, now, &last));
}

TEST_F(DirectRingsTest, NumberIsBoundedAndWhatIsRefusedIsClosed) {
  const size_t before = open_descriptors();
  b.rings.refuse();
  for (uint32_t block = 0; block < client::kBlocks; ++block) {
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    b.rings.on_offer({block, 1, true, sockets[1]}, now);
    close(sockets[0]);
  }
  EXPECT_TRUE(eventually([&] { return open_descriptors() == before; })) << "on another thread";
  std::vector<int> others;
  for (uint32_t block = 0; block < client::kBlocks; ++block) {
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
    a.rings.on_offer({block, 1, true, sockets[0]}, now);
    others.push_back(sockets[1]);
  }
  size_t open = 0;
  for (const int fd : others) {
    std::array<char, 64> bytes{};
    open += recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT) > 0 ? 1 : 0;  // its greeting
    close(fd);
  }
  EXPECT_EQ(open, DirectRings::kRingsMax);
}

TEST_F(DirectRingsTest, AChildOfAForkKeepsNoneOfThem) {
  const auto of_rings = [] {
    return static_cast<int>(open_descriptors("/memfd:") + open_descriptors("socket:"));
  };
  const int before = of_rings();
  connect();
  ASSERT_GT(of_rings(), before);
  const pid_t pid = fork();
  if (pid == 0) {
    a.rings.close_after_fork();
    b.rings.close_after_fork();
    _exit(std::max(of_rings() - before, 0));  // those of an earlier test are closed by and by
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// Memory of another user must be there before it is mapped.
TEST_F(DirectRingsTest, HostilePeerEndsItsRingAndNothingElse) {
  connect();
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
  a.rings.on_offer({kB + 1, 2, false, sockets[0]}, now);
  Greeting garbage;
  garbage.magic = 1;
  ASSERT_EQ(::send(sockets[1], &garbage, sizeof garbage, 0), static_cast<ssize_t>(sizeof garbage));
  for (int i = 0; i < 4; ++i) service();
  EXPECT_EQ(a.rings.state(kB + 1, now), RingState::kNone);
  EXPECT_EQ(a.rings.state(kB, now), RingState::kUp);
  close(sockets[1]);
}

}  // namespace
}  // namespace mprdma::dataplane::mprdmad
