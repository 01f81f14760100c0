// The daemon with processes that behave and processes that do not, over real sockets and rings.
#include "dataplane/nic/nic_server.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>

#include "dataplane/local_port.hpp"
#include "dataplane/nic/nic_loop.hpp"
#include "tests/unit/dataplane/port_test_support.hpp"
#include "tests/unit/nic/nic_test_support.hpp"

namespace mprdma::dataplane::nic {
namespace {

using dataplane::testing::until;
using dataplane::testing::WireDirectory;

class Daemon {
 public:
  explicit Daemon(const std::string& socket, uint64_t instance = 42) {
    NicLoop::Options options;
    options.device = {.ipv4 = kOurIp, .prefix_bits = 24, .gateway = 0, .mac = kOurMac, .seed = 1};
    options.cm.ipv4 = kOurIp;
    options.cm.address = wire::map_ipv4(kOurIp);
    options.server.socket = socket;
    options.server.slots = 256;
    options.server.instance = instance;
    loop = std::make_unique<NicLoop>(options, nullptr);
    error = loop->start();
  }
  // Steps until the condition holds.
  template <class Condition>
  bool run(Condition&& condition) {
    return until([&] {
      loop->step(Duration::us(200));
      return condition();
    });
  }
  std::unique_ptr<NicLoop> loop;
  std::string error;
};

class Process {
 public:
  explicit Process(const std::string& path) : fd(new_message_socket()) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    connected = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~Process() {
    leave();
    if (port_fd >= 0) close(port_fd);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void leave() {
    if (fd >= 0) close(fd);
    fd = -1;
    port.reset();
  }
  bool hello(uint64_t instance, uint32_t first_generation = kNoBlock) const {
    auto message = new_message<Hello>(1);
    message.instance = instance;
    message.first_generation = first_generation;
    set_text(&message.program, "test");
    return send_message(fd, message) == 0;
  }
  // The next message; false: the connection is over.
  template <class T>
  bool await(Daemon& daemon, T* out) {
    bool found = false;
    daemon.run([&] {
      Incoming in;
      const int failed = receive_message(fd, &in);
      if (failed == EAGAIN) return false;
      if (failed != 0) return true;
      if (in.passed_fd >= 0) port_fd = in.passed_fd;
      Head head;
      if (check_message(in.message(), &head) != MessageFault::kNone || head.type != T::kType) {
        return false;
      }
      *out = load_message<T>(in.message());
      return found = true;
    });
    return found;
  }
  bool ended(Daemon& daemon) {
    return daemon.run([&] {
      Incoming in;
      const int failed = receive_message(fd, &in);
      return failed != 0 && failed != EAGAIN;
    });
  }
  bool enter(Daemon& daemon, uint64_t instance, uint32_t first_generation = kNoBlock) {
    if (!hello(instance, first_generation) || !await(daemon, &welcome) || port_fd < 0) return false;
    LocalPort::Options options;
    options.role = local::Role::kAdopted;
    options.socket = std::exchange(port_fd, -1);
    PortResult result = LocalPort::open(options);
    port = std::move(result.port);
    return port != nullptr && daemon.run([&] {
      port->service(dataplane::testing::now());
      const uint32_t block = welcome.first_generation / kBlockGenerations;
      return port->link_up() && daemon.loop->nic().client_port(block)->link_up();
    });
  }
  [[nodiscard]] uint32_t qpn(uint32_t slot = 5) const {
    return welcome.first_generation << QpTable::kSlotBits | slot;
  }
  bool send(const Bytes& bytes) const {
    TxFrame frame{};
    if (port->tx_reserve(&frame, 1) == 0) return false;
    std::memcpy(frame.payload, bytes.data(), bytes.size());
    frame.header_bytes = 0;
    frame.frame_bytes = static_cast<uint32_t>(bytes.size());
    port->tx_commit(&frame, 1);
    port->flush();
    return true;
  }
  bool receives(Daemon& daemon, const Bytes& bytes) const {
    return daemon.run([&] {
      RxFrame frame{};
      if (port->rx_burst(&frame, 1) == 0) return false;
      const bool same =
          frame.length == bytes.size() && std::memcmp(frame.data, bytes.data(), bytes.size()) == 0;
      port->rx_release(&frame.cookie, 1);
      port->flush();
      return same;
    });
  }

  int fd;
  int port_fd = -1;
  bool connected = false;
  Welcome welcome;
  std::unique_ptr<Port> port;
};

Bytes frame_for(const Process& to) {
  return make_frame({.dest_qpn = to.qpn(), .dst_ip = kOurIp, .dst_mac = kOurMac});
}

size_t open_descriptors() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    count += entry.path().empty() ? 0 : 1;
  }
  return count;
}

class NicServerTest : public ::testing::Test {
 protected:
  // Two processes that work, whatever others do.
  void SetUp() override {
    ASSERT_EQ(daemon.error, "");
    ASSERT_TRUE(a.enter(daemon, 101));
    ASSERT_TRUE(b.enter(daemon, 102));
  }
  void expect_others_work() { expect_others_work_with(2); }
  void expect_others_work_with(size_t clients) {
    const Bytes frame = frame_for(b);
    ASSERT_TRUE(a.send(frame));
    EXPECT_TRUE(b.receives(daemon, frame));
    EXPECT_EQ(daemon.loop->server().clients(), clients);
  }

  WireDirectory directory;
  Daemon daemon{directory.wire()};
  Process a{directory.wire()};
  Process b{directory.wire()};
};

TEST_F(NicServerTest, ServesProcessesWithAPortAndABlockEach) {
  EXPECT_NE(a.welcome.first_generation, b.welcome.first_generation);
  EXPECT_EQ(a.welcome.generations, kBlockGenerations);
  EXPECT_EQ(a.welcome.device.ipv4, kOurIp);
  EXPECT_EQ(a.welcome.device.mac, kOurMac);
  EXPECT_EQ(a.welcome.device.link_up, 1);
  expect_others_work();
  a.leave();
  EXPECT_TRUE(daemon.run([&] { return daemon.loop->server().clients() == 1; }));
}

TEST_F(NicServerTest, IsTheOnlyOneAtItsSocket) {
  Daemon second(directory.wire());
  EXPECT_NE(second.error.find("another mprdmad"), std::string::npos) << second.error;
  expect_others_work();
}

TEST_F(NicServerTest, HangsUpOnWhatIsNoMessage) {
  const Hello good = new_message<Hello>(1);
  for (const size_t size : {size_t{1}, sizeof(Head) - 1, sizeof(Head), sizeof(Hello) - 1}) {
    Process bad(directory.wire());
    ASSERT_EQ(send_bytes(bad.fd, &good, size), 0);
    EXPECT_TRUE(bad.ended(daemon)) << size;
  }
  for (const MessageType type :
       {MessageType{}, MessageType{99}, MessageType::kCmCommand, MessageType::kWelcome}) {
    Process bad(directory.wire());
    std::array<unsigned char, kMessageBytesMax + 1> bytes{};
    Head head;
    head.type = type;
    const size_t size = message_bytes(type) == 0 ? 64 : message_bytes(type);
    head.bytes = static_cast<uint32_t>(size);
    std::memcpy(bytes.data(), &head, sizeof head);
    ASSERT_EQ(send_bytes(bad.fd, bytes.data(), size), 0);
    EXPECT_TRUE(bad.ended(daemon)) << static_cast<int>(type);
  }
  Process twice(directory.wire());
  ASSERT_TRUE(twice.hello(7));
  ASSERT_TRUE(twice.hello(7));
  EXPECT_TRUE(twice.ended(daemon));
  EXPECT_TRUE(daemon.run([&] { return daemon.loop->server().clients() == 2; }));
  expect_others_work();
}

TEST_F(NicServerTest, RefusesInWordsAnotherVersionAndABadHello) {
  Process other(directory.wire());
  Hello hello = new_message<Hello>(9);
  hello.head.version = kVersion + 1;
  ASSERT_EQ(send_message(other.fd, hello), 0);
  Refused refused;
  ASSERT_TRUE(other.await(daemon, &refused));
  EXPECT_EQ(refused.reason, Refusal::kOtherVersion);
  EXPECT_EQ(refused.head.serial, 9u);
  Process bad(directory.wire());
  ASSERT_TRUE(bad.hello(8, 3));  // no block begins there
  ASSERT_TRUE(bad.await(daemon, &refused));
  EXPECT_EQ(refused.reason, Refusal::kBadHello);
  EXPECT_FALSE(text_of(refused.text).empty());
  expect_others_work();
}

TEST_F(NicServerTest, AFloodOfSilentConnectionsKeepsNobodyOut) {
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
  EXPECT_TRUE(daemon.run([&] { return open_descriptors() == before; }));
  expect_others_work();
}

TEST_F(NicServerTest, DescriptorsThatNobodyAskedForAreClosed) {
  Process client(directory.wire());
  ASSERT_TRUE(client.enter(daemon, 9));
  const size_t before = open_descriptors();
  auto command = new_message<CmCommand>(1);
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(send_message(client.fd, command, STDIN_FILENO), 0);
    CmReply reply;
    ASSERT_TRUE(client.await(daemon, &reply));
    EXPECT_EQ(reply.error, ENOENT);  // of id 0
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(NicServerTest, WhoAsksAndDoesNotReadIsNotAnsweredAndHarmsNobody) {
  auto command = new_message<CmCommand>(1);
  Process flood(directory.wire());
  ASSERT_TRUE(flood.enter(daemon, 11));
  // Until nothing is taken any more.
  int full = 0;
  uint64_t sent = 0;
  ASSERT_TRUE(daemon.run([&] {
    const bool taken = send_message(flood.fd, command) == 0;
    sent += taken ? 1 : 0;
    full = taken ? 0 : full + 1;
    return full > 100;
  }));
  EXPECT_LT(sent, 2 * kOutgoingMax);
  EXPECT_EQ(daemon.loop->server().clients(), 3u);
  // It reads at last: every command has its answer.
  CmReply reply;
  for (uint64_t i = 0; i < sent; ++i) ASSERT_TRUE(flood.await(daemon, &reply)) << i;
}

TEST_F(NicServerTest, ARingThatIsNeverReadLosesItsOwnFrames) {
  Process lazy(directory.wire());
  ASSERT_TRUE(lazy.enter(daemon, 12));
  const Bytes frame = frame_for(lazy);
  int sent = 0;
  ASSERT_TRUE(daemon.run([&] {
    sent += a.send(frame) ? 1 : 0;
    return sent == 1000;
  }));
  EXPECT_TRUE(daemon.run([&] { return daemon.loop->nic().total().nic_drop_full > 0; }));
  expect_others_work_with(3);
}

TEST_F(NicServerTest, CursorsThatJumpEndTheirOwnPort) {
  Process client(directory.wire());
  ASSERT_TRUE(client.hello(13));
  Welcome welcome;
  ASSERT_TRUE(client.await(daemon, &welcome));
  // A peer by hand: its memory, its greeting, and a cursor that nobody can have reached.
  auto region = local::OwnRegion::create({256, local::kStrideDefault});
  ASSERT_NE(region, nullptr);
  struct {
    uint32_t magic = 0x4c503031, type = 1, refusal = 0, reserved = 0;
  } greeting;
  ASSERT_EQ(send_bytes(client.port_fd, &greeting, sizeof greeting, region->fd()), 0);
  region->header().newest.store(local::Descriptor{0, 100, 0, 30000}.pack());
  EXPECT_TRUE(client.ended(daemon));
  EXPECT_TRUE(daemon.run([&] { return daemon.loop->server().clients() == 2; }));
  expect_others_work();
}

TEST_F(NicServerTest, MemoryThatIsNotSealedIsNotAttached) {
  Process client(directory.wire());
  ASSERT_TRUE(client.hello(14));
  Welcome welcome;
  ASSERT_TRUE(client.await(daemon, &welcome));
  const int memory = memfd_create("punched", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(memory, 1 << 20), 0);
  struct {
    uint32_t magic = 0x4c503031, type = 1, refusal = 0, reserved = 0;
  } greeting;
  ASSERT_EQ(send_bytes(client.port_fd, &greeting, sizeof greeting, memory), 0);
  EXPECT_TRUE(client.ended(daemon));
  close(memory);
  expect_others_work();
}

TEST_F(NicServerTest, AProcessThatComesBackHasItsBlockAndSoHasOneOfARestartedDaemon) {
  const uint32_t block_a = a.welcome.first_generation;
  // Its old connection has not been seen to end.
  Process again(directory.wire());
  ASSERT_TRUE(again.enter(daemon, 101, block_a));
  EXPECT_EQ(again.welcome.first_generation, block_a);
  EXPECT_TRUE(a.ended(daemon));

  daemon.loop.reset();
  Daemon next(directory.wire(), 43);
  ASSERT_EQ(next.error, "");
  Process newcomer(directory.wire());
  ASSERT_TRUE(newcomer.enter(next, 900, block_a));
  EXPECT_NE(newcomer.welcome.first_generation, block_a);
  Process back(directory.wire());
  ASSERT_TRUE(back.enter(next, 101, block_a));
  EXPECT_EQ(back.welcome.first_generation, block_a);
  EXPECT_EQ(back.welcome.instance, 43u);
}

TEST_F(NicServerTest, SpeaksConnectionManagementForItsClients) {
  const auto execute = [&](Process& who, mprdma_abi_cm_command in, mprdma_abi_cm_result* out) {
    auto command = new_message<CmCommand>(5);
    command.command = in;
    CmReply reply;
    if (send_message(who.fd, command) != 0 || !who.await(daemon, &reply)) return -1;
    EXPECT_EQ(reply.head.serial, 5u);
    *out = reply.result;
    return reply.error;
  };
  mprdma_abi_cm_result result{};
  mprdma_abi_cm_command create{};
  create.op = MPRDMA_ABI_CM_CREATE;
  create.port_space = MPRDMA_ABI_CM_PS_TCP;
  ASSERT_EQ(execute(a, create, &result), 0);
  mprdma_abi_cm_command bind{};
  bind.op = MPRDMA_ABI_CM_BIND;
  bind.id = result.id;
  bind.local.port = 7471;
  EXPECT_EQ(execute(a, bind, &result), 0);
  // The ports are the device's, whoever binds them; the ids are each client's own.
  EXPECT_EQ(execute(b, bind, &result), ENOENT);
  ASSERT_EQ(execute(b, create, &result), 0);
  bind.id = result.id;
  EXPECT_EQ(execute(b, bind, &result), EADDRINUSE);
  a.leave();
  ASSERT_TRUE(daemon.run([&] { return daemon.loop->server().clients() == 1; }));
  EXPECT_EQ(execute(b, bind, &result), 0);
}

}  // namespace
}  // namespace mprdma::dataplane::nic
