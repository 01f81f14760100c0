// An engine tells `mprdma top` everything, only to its own user, and never waits for a reader.
#include "dataplane/engine/top_server.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

#include "dataplane/engine/engine.hpp"
#include "dataplane/worker/qp_table.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/print.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/unit/dataplane/engine/engine_host.hpp"

namespace mprdma::dataplane {
namespace {

// Makes this many queue pairs, the first ones of the table.
class Queues : public TopSource {
 public:
  explicit Queues(uint32_t count) : count_(count) {}
  void top_head(TopHead* out) override { out->qps = count_; }
  size_t top_records(uint32_t* next, std::span<TopRecord> out) override {
    size_t filled = 0;
    while (*next < count_ && filled < out.size()) out[filled++].qpn = (*next)++;
    if (*next == count_) *next = kTopEnd;
    return filled;
  }

 private:
  uint32_t count_;
};

int connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return fd;
  close(fd);
  return -1;
}

// The bytes that came, and whether the stream ended.
bool drain(int fd, std::string* bytes) {
  char buffer[65536];
  for (;;) {
    const ssize_t got = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT);
    if (got == 0) return true;
    if (got < 0) return false;
    bytes->append(buffer, static_cast<size_t>(got));
  }
}

std::vector<uint32_t> numbers_in(const std::string& bytes) {
  std::vector<uint32_t> numbers;
  for (size_t at = sizeof(TopHead); at + sizeof(TopRecord) <= bytes.size();
       at += sizeof(TopRecord)) {
    TopRecord record{};
    std::memcpy(&record, bytes.data() + at, sizeof(record));
    numbers.push_back(record.qpn);
  }
  return numbers;
}

TEST(TopServer, SendsTheHeadAndEveryRecordThoughTheyAreManyMoreThanASocketHolds) {
  const TemporaryDirectory directory;
  Queues queues(kSlots);
  auto server = TopServer::create(directory.path("mprdma"), queues);
  ASSERT_NE(server, nullptr);
  const int fd = connect_to(server->path());
  ASSERT_GE(fd, 0);
  std::string bytes;
  bool ended = false;
  for (int turn = 0; turn < 10'000 && !ended; ++turn) {
    server->serve();
    ended = drain(fd, &bytes);
  }
  EXPECT_TRUE(ended);
  close(fd);
  TopHead head;
  std::memcpy(static_cast<void*>(&head), bytes.data(), sizeof(head));
  EXPECT_EQ(head.magic, kTopMagic);
  EXPECT_EQ(head.record_bytes, sizeof(TopRecord));
  const std::vector<uint32_t> numbers = numbers_in(bytes);
  ASSERT_EQ(numbers.size(), kSlots);
  for (uint32_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(numbers[i], i);
  EXPECT_EQ(server->counts().replies, 1u);
}

TEST(TopServer, ReadersThatDoNotReadAreNotWaitedForAndAreFew) {
  const TemporaryDirectory directory;
  Queues queues(kSlots);
  auto server = TopServer::create(directory.path("mprdma"), queues);
  ASSERT_NE(server, nullptr);
  std::vector<int> readers;
  for (size_t i = 0; i < TopServer::kReadersMax + 1; ++i) {
    readers.push_back(connect_to(server->path()));
    ASSERT_GE(readers.back(), 0);
    for (int turn = 0; turn < 100; ++turn) server->serve();
  }
  EXPECT_EQ(server->counts().refused, 1u);
  EXPECT_EQ(server->counts().replies, 0u);
  char byte = 0;
  EXPECT_EQ(recv(readers.back(), &byte, 1, MSG_DONTWAIT), 0) << "the last one was hung up on";
  close(readers[0]);
  for (int turn = 0; turn < 100; ++turn) server->serve();
  readers[0] = connect_to(server->path());
  for (int turn = 0; turn < 100; ++turn) server->serve();
  EXPECT_EQ(recv(readers[0], &byte, 1, MSG_DONTWAIT), 1) << "a place was free again";
  for (const int fd : readers) close(fd);
}

// accept() fails and the connection stays in the queue: the engine's thread, which waits for fd(),
// must not run for ever.
TEST(TopServer, WithoutADescriptorLeftItSleepsAndServesTheNext) {
  const TemporaryDirectory directory;
  Queues queues(1);
  auto server = TopServer::create(directory.path("mprdma"), queues);
  ASSERT_NE(server, nullptr);
  const int first = connect_to(server->path());
  ASSERT_GE(first, 0);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  server->serve();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  pollfd waiting{server->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&waiting, 1, 0), 0) << "it would be woken without end";
  const int second = connect_to(server->path());
  ASSERT_GE(second, 0);
  for (int turn = 0; turn < 100; ++turn) server->serve();
  for (const int fd : {first, second}) {
    std::string bytes;
    EXPECT_TRUE(drain(fd, &bytes));
    EXPECT_EQ(numbers_in(bytes).size(), 1u);
    close(fd);
  }
}

TEST(TopServer, TheFileGoesWithTheServerAndStaysForTheParentOfAFork) {
  const TemporaryDirectory directory;
  Queues queues(1);
  auto server = TopServer::create(directory.path("mprdma"), queues);
  ASSERT_NE(server, nullptr);
  const std::string path = server->path();
  EXPECT_EQ(std::filesystem::status(directory.path("mprdma")).permissions(),
            std::filesystem::perms::owner_all);
  const pid_t child = fork();
  if (child == 0) {
    server->close_after_fork();
    server->withdraw();
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(std::filesystem::exists(path));
  server.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(TopServer, DirectoriesThatOthersCanWriteOrThatAreNoneAreNotUsed) {
  const TemporaryDirectory directory;
  Queues queues(1);
  ASSERT_EQ(mkdir(directory.path("mprdma").c_str(), 0700), 0);
  ASSERT_EQ(chmod(directory.path("mprdma").c_str(), 0777), 0);
  EXPECT_EQ(TopServer::create(directory.path("mprdma"), queues), nullptr);
  std::filesystem::remove(directory.path("mprdma"));
  close(open(directory.path("mprdma").c_str(), O_CREAT | O_WRONLY, 0600));
  EXPECT_EQ(TopServer::create(directory.path("mprdma"), queues), nullptr);
  EXPECT_EQ(TopServer::create("/nonexistent/mprdma", queues), nullptr);
  EXPECT_EQ(TopServer::create(directory.path("mprdma") + std::string(100, 'x'), queues), nullptr);
}

std::unique_ptr<Engine> make_engine() {
  Config config;
  config.ipv4 = testing::Host::ip(0);
  config.mac = derived_mac(config.ipv4);
  config.device_name = "rail7";
  std::unique_ptr<Engine> engine;
  const Status status = Engine::create_over(
      config,
      std::make_unique<testing::MemoryPort>(std::make_shared<testing::MemoryWire>(), 0, config.mac),
      1, &engine);
  EXPECT_TRUE(status.ok()) << status.text;
  return engine;
}

std::string only_socket_in(const std::string& directory) {
  std::string found;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) found = entry.path();
  return found;
}

// Reads to the end, for ten seconds at most.
std::string read_all(const std::string& path) {
  std::string bytes;
  const int fd = connect_to(path);
  EXPECT_GE(fd, 0);
  EXPECT_TRUE(eventually([&] { return drain(fd, &bytes); })) << "no answer";
  close(fd);
  return bytes;
}

TEST(EngineTop, AnswersThoughItsApplicationNeverPollsAndThoughItAlwaysDoes) {
  const TemporaryDirectory directory;
  auto engine = make_engine();
  ASSERT_NE(engine, nullptr);
  mprdma_abi_client client{};
  client.abi_major = MPRDMA_ABI_MAJOR;
  client.on_event = [](void*, const mprdma_abi_event*) {};
  mprdma_abi_channel channel{};
  EngineClient* connected = engine->connect(client, &channel);
  engine->publish(directory.path("mprdma"));
  const std::string path = only_socket_in(directory.path("mprdma"));
  ASSERT_NE(path, "");
  const std::string quiet = read_all(path);
  ASSERT_EQ(quiet.size(), sizeof(TopHead));
  TopHead head;
  std::memcpy(static_cast<void*>(&head), quiet.data(), sizeof(head));
  EXPECT_EQ(head.pid, static_cast<uint32_t>(getpid()));
  EXPECT_STREQ(head.device.data(), "rail7");
  EXPECT_EQ(head.ipv4, testing::Host::ip(0));

  std::atomic<bool> stop{false};
  std::thread poller([&] {
    while (!stop.load()) channel.progress(channel.engine);
  });
  EXPECT_EQ(read_all(path).size(), sizeof(TopHead));
  stop.store(true);
  poller.join();
  engine->withdraw();
  EXPECT_FALSE(std::filesystem::exists(path));
  engine->disconnect(connected);
}

TEST(EngineTop, WithoutADirectoryItRunsAndCountsThat) {
  auto engine = make_engine();
  ASSERT_NE(engine, nullptr);
  mprdma_abi_client client{};
  client.abi_major = MPRDMA_ABI_MAJOR;
  client.on_event = [](void*, const mprdma_abi_event*) {};
  mprdma_abi_channel channel{};
  EngineClient* connected = engine->connect(client, &channel);
  engine->publish("/nonexistent/mprdma");
  std::vector<mprdma_abi_counter> counters(300);
  ASSERT_EQ(channel.execute(channel.engine, MPRDMA_ABI_QUERY_COUNTERS, nullptr, 0, counters.data(),
                            counters.size() * sizeof(counters[0])),
            0);
  uint64_t unavailable = 0;
  const auto* entry = reinterpret_cast<const mprdma_abi_counter*>(
      reinterpret_cast<const char*>(counters.data()) + sizeof(mprdma_abi_counters));
  for (size_t i = 0; i + 1 < counters.size(); ++i) {
    if (std::strcmp(entry[i].name, "top_unavailable") == 0) unavailable = entry[i].value;
  }
  EXPECT_EQ(unavailable, 1u);
  engine->disconnect(connected);
}

}  // namespace
}  // namespace mprdma::dataplane
