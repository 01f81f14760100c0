// The daemon with processes that misbehave, each way by itself: other processes go on, the event is
// counted, and no trace of it is left.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>

#include <vector>

#include "dataplane/daemon/server.hpp"
#include "tests/support/descriptors.hpp"
#include "tests/unit/dataplane/daemon/daemon_support.hpp"

namespace mprdma::dataplane::mprdmad {
namespace {

using SwitchHostileTest = DaemonServerTest;

TEST_F(SwitchHostileTest, HangsUpOnWhatIsNoMessage) {
  const client::Hello good = client::new_message<client::Hello>(1);
  for (const size_t size :
       {size_t{1}, sizeof(client::Head) - 1, sizeof(client::Head), sizeof(client::Hello) - 1}) {
    Process bad(directory.wire());
    ASSERT_EQ(client::send_bytes(bad.fd, &good, size), 0);
    EXPECT_TRUE(bad.ended(daemon)) << size;
  }
  for (const client::MessageType type :
       {client::MessageType{}, client::MessageType{99}, client::MessageType::kCmCommand,
        client::MessageType::kWelcome}) {
    Process bad(directory.wire());
    std::array<unsigned char, client::kMessageBytesMax + 1> bytes{};
    client::Head head;
    head.type = type;
    const size_t size = client::message_bytes(type) == 0 ? 64 : client::message_bytes(type);
    head.bytes = static_cast<uint32_t>(size);
    std::memcpy(bytes.data(), &head, sizeof head);
    ASSERT_EQ(client::send_bytes(bad.fd, bytes.data(), size), 0);
    EXPECT_TRUE(bad.ended(daemon)) << static_cast<int>(type);
  }
  Process twice(directory.wire());
  ASSERT_TRUE(twice.hello(7));
  ASSERT_TRUE(twice.hello(7));
  EXPECT_TRUE(twice.ended(daemon));
  EXPECT_TRUE(daemon.run([&] { return daemon.loop->server().clients() == 2; }));
  expect_others_work();
}

TEST_F(SwitchHostileTest, AFloodOfSilentConnectionsKeepsNobodyOut) {
  const size_t before = open_descriptors();
  {
    std::vector<std::unique_ptr<Process>> silent;
    for (int i = 0; i < 100; ++i) {
      silent.push_back(std::make_unique<Process>(directory.wire()));
      daemon.loop->step(Duration::us(200));
    }
    Process late(directory.wire());
    EXPECT_TRUE(late.enter(daemon, 500));
    expect_others_work_with(3);
  }
  EXPECT_TRUE(daemon.run([&] { return open_descriptors() <= before; }));
  expect_others_work();
}

TEST_F(SwitchHostileTest, WhoPassesADescriptorIsHungUpOnAndItIsClosed) {
  const size_t before = open_descriptors();
  const uint64_t misbehaved = daemon.loop->server().counters().nic_clients_misbehaved;
  for (const bool served : {false, true}) {
    Process client(directory.wire());
    ASSERT_TRUE(!served || client.enter(daemon, 9));
    auto command = client::new_message<client::CmCommand>(1);
    ASSERT_EQ(client::send_message(client.fd, command, STDIN_FILENO), 0);
    EXPECT_TRUE(client.ended(daemon)) << served;
  }
  EXPECT_EQ(daemon.loop->server().counters().nic_clients_misbehaved, misbehaved + 2);
  EXPECT_TRUE(daemon.run([&] { return open_descriptors() <= before; }));
  expect_others_work();
}

// A TCP socket whose last close() waits until the peer has read, which it never does (SO_LINGER).
class LingeringSocket {
 public:
  LingeringSocket() {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    bind(listener, reinterpret_cast<sockaddr*>(&address), length);
    listen(listener, 1);
    getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    connect(fd, reinterpret_cast<sockaddr*>(&address), length);
    peer_ = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    close(listener);
    const std::vector<char> bytes(65536);
    while (::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
    }
    const linger long_time{1, 600};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &long_time, sizeof long_time);
  }
  ~LingeringSocket() { close(peer_); }
  LingeringSocket(const LingeringSocket&) = delete;
  LingeringSocket& operator=(const LingeringSocket&) = delete;

  int fd = -1;  // the test's to close

 private:
  int peer_ = -1;
};

TEST_F(SwitchHostileTest, ADescriptorThatCannotBeClosedStopsNobody) {
  // The descriptor comes behind a good message, with a bad one, and in the place of memory.
  for (const int way : {0, 1, 2}) {
    LingeringSocket bad;
    Process client(directory.wire());
    if (way == 2) {
      ASSERT_TRUE(client.hello(90));
      client::Welcome welcome;
      ASSERT_TRUE(client.await(daemon, &welcome));
      const Greeting greeting;
      ASSERT_EQ(client::send_bytes(client.port_fd, &greeting, sizeof greeting, bad.fd), 0);
    } else {
      ASSERT_TRUE(way != 0 || client.enter(daemon, 90));
      ASSERT_EQ(client::send_message(client.fd, client::new_message<client::Query>(1), bad.fd), 0);
    }
    close(bad.fd);  // the daemon has the last one
    EXPECT_TRUE(client.ended(daemon)) << way;
    EXPECT_TRUE(daemon.run([&] { return daemon.loop->server().clients() == 2; }));
    expect_others_work();
  }
}

TEST_F(SwitchHostileTest, OneProcessDoesNotTakeAllBlocks) {
  std::vector<std::unique_ptr<Process>> greedy;
  // This process has two blocks already.
  for (uint64_t i = 2; i < DaemonServer::kBlocksPerProcess; ++i) {
    greedy.push_back(std::make_unique<Process>(directory.wire()));
    ASSERT_TRUE(greedy.back()->hello(1000 + i));
    client::Welcome welcome;
    ASSERT_TRUE(greedy.back()->await(daemon, &welcome));
  }
  Process more(directory.wire());
  ASSERT_TRUE(more.hello(2000));
  client::Refused refused;
  ASSERT_TRUE(more.await(daemon, &refused));
  EXPECT_EQ(refused.reason, client::Refusal::kFull);
  EXPECT_NE(client::text_of(refused.text).find("this process"), std::string_view::npos);
  greedy.clear();
  EXPECT_TRUE(daemon.run([&] { return daemon.loop->server().clients() == 2; }));
  expect_others_work();
}

TEST_F(SwitchHostileTest, WhoAsksAndDoesNotReadIsNotAnsweredAndHarmsNobody) {
  auto command = client::new_message<client::CmCommand>(1);
  Process flood(directory.wire());
  ASSERT_TRUE(flood.enter(daemon, 11));
  // Sends until the socket takes no more.
  int full = 0;
  uint64_t sent = 0;
  ASSERT_TRUE(daemon.run([&] {
    const bool taken = client::send_message(flood.fd, command) == 0;
    sent += taken ? 1 : 0;
    full = taken ? 0 : full + 1;
    return full > 100;
  }));
  EXPECT_LT(sent, 2 * client::kOutgoingMax);
  EXPECT_EQ(daemon.loop->server().clients(), 3u);
  // The client reads at last: every command has its answer.
  client::CmReply reply;
  for (uint64_t i = 0; i < sent; ++i) ASSERT_TRUE(flood.await(daemon, &reply)) << i;
}

TEST_F(SwitchHostileTest, ARingThatIsNeverReadLosesItsOwnFrames) {
  Process lazy(directory.wire());
  ASSERT_TRUE(lazy.enter(daemon, 12));
  const Bytes frame = frame_for(lazy);
  int sent = 0;
  ASSERT_TRUE(daemon.run([&] {
    sent += a.send(frame) ? 1 : 0;
    return sent == 1000;
  }));
  EXPECT_TRUE(daemon.run([&] { return daemon.loop->sw().total().nic_drop_full > 0; }));
  expect_others_work_with(3);
}

TEST_F(SwitchHostileTest, CursorsThatJumpEndTheirOwnPort) {
  Process client(directory.wire());
  ASSERT_TRUE(client.hello(13));
  client::Welcome welcome;
  ASSERT_TRUE(client.await(daemon, &welcome));
  // Plays a client by hand: its memory, its greeting, and an impossible cursor.
  auto region = local::OwnRegion::create({256, local::kStrideDefault});
  ASSERT_NE(region, nullptr);
  const Greeting greeting;
  ASSERT_EQ(client::send_bytes(client.port_fd, &greeting, sizeof greeting, region->fd()), 0);
  region->header().newest.descriptor.store(local::Descriptor{0, 100, 0, 30000}.pack());
  EXPECT_TRUE(client.ended(daemon));
  EXPECT_TRUE(daemon.run([&] { return daemon.loop->server().clients() == 2; }));
  EXPECT_EQ(daemon.loop->server().counters().nic_clients_misbehaved, 1u);
  EXPECT_GT(daemon.loop->sw().total().nic_drop_ring, 0u);
  expect_others_work();
}

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Makes a region as an honest process does, except where `memory` says otherwise.
struct Memory {
  unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  size_t more_bytes = 0;
  bool written = true;
  int seals = kSeals | F_SEAL_FUTURE_WRITE;

  [[nodiscard]] int make() const {
    const local::Geometry geometry{256, local::kStrideDefault};
    const int fd = memfd_create("hostile", flags);
    size_t bytes = geometry.bytes() + more_bytes;
    constexpr size_t kHuge = size_t{2} << 20;
    if ((flags & MFD_HUGETLB) != 0) bytes = (bytes + kHuge - 1) / kHuge * kHuge;
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) return -1;
    if (written && (flags & MFD_HUGETLB) == 0) {
      EXPECT_EQ(fallocate(fd, 0, 0, static_cast<off_t>(bytes)), 0);
    }
    const local::Identity identity{
        local::kRegionMagic, local::kRegionVersion, geometry.slots, geometry.stride, 0, 0, 0};
    (void)!pwrite(fd, &identity, sizeof identity, 0);
    EXPECT_TRUE(seals == 0 || fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
  }
};

TEST_F(SwitchHostileTest, MemoryThatCouldHarmIsNotAttached) {
  const Memory memories[] = {
      {.seals = 0},
      {.seals = F_SEAL_GROW | F_SEAL_SEAL},
      {.seals = kSeals},     // holes could be punched into it
      {.more_bytes = 4096},  // whoever unmaps it last frees it all
      {.written = false},    // made at the daemon's cost
      {.flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB},
  };
  for (const Memory& memory : memories) {
    const auto which = &memory - memories;
    const int fd = memory.make();
    if (fd < 0 && (memory.flags & MFD_HUGETLB) != 0) continue;  // a kernel without them
    ASSERT_GE(fd, 0) << which;
    const uint64_t before = daemon.loop->server().counters().nic_clients_misbehaved;
    Process client(directory.wire());
    ASSERT_TRUE(client.hello(14));
    client::Welcome welcome;
    ASSERT_TRUE(client.await(daemon, &welcome));
    const Greeting greeting;
    ASSERT_EQ(client::send_bytes(client.port_fd, &greeting, sizeof greeting, fd), 0);
    close(fd);
    EXPECT_TRUE(client.ended(daemon)) << which;
    EXPECT_EQ(daemon.loop->server().counters().nic_clients_misbehaved, before + 1) << which;
  }
  expect_others_work();
}

// The kernel creates absent pages for the reader; if it cannot, the reader dies (SIGBUS).
TEST_F(SwitchHostileTest, NobodyTakesMemoryAwayUnderTheDaemon) {
  Process client(directory.wire());
  ASSERT_TRUE(client.hello(15));
  client::Welcome welcome;
  ASSERT_TRUE(client.await(daemon, &welcome));
  auto region = local::OwnRegion::create({256, local::kStrideDefault});
  ASSERT_NE(region, nullptr);
  const Greeting greeting;
  ASSERT_EQ(client::send_bytes(client.port_fd, &greeting, sizeof greeting, region->fd()), 0);
  const uint32_t block = welcome.first_generation / client::kBlockGenerations;
  ASSERT_TRUE(daemon.run([&] { return daemon.loop->sw().client_port(block)->link_up(); }));
  const size_t bytes = region->geometry().bytes();
  const int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  EXPECT_EQ(ftruncate(region->fd(), 0), -1);
  EXPECT_EQ(fallocate(region->fd(), punch, 0, static_cast<off_t>(bytes)), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(madvise(&region->header(), bytes, MADV_REMOVE), -1);
  expect_others_work_with(3);
}

}  // namespace
}  // namespace mprdma::dataplane::mprdmad
