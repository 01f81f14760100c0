// mprdma top: which bytes are an answer, the difference of two answers, and which sockets are
// cleared away.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "tests/support/temporary_directory.hpp"
#include "tools/top/top_client.hpp"
#include "tools/top/top_view.hpp"

namespace mprdma::tools {
namespace {

using dataplane::TopHead;
using dataplane::TopRecord;

template <class T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

TopHead head_of(uint32_t pid) {
  TopHead head;
  head.head_bytes = sizeof(TopHead);
  head.record_bytes = sizeof(TopRecord);
  head.pid = pid;
  std::strcpy(head.program.data(), "program");
  return head;
}

TEST(TopAnswer, OfALaterVersionIsReadAsFarAsItIsKnown) {
  TopHead head = head_of(7);
  head.head_bytes = sizeof(TopHead) + 8;
  head.record_bytes = sizeof(TopRecord) + 16;
  TopRecord record{};
  record.qpn = 42;
  const std::string one = bytes_of(record) + std::string(16, 'x');
  TopProcess process;
  ASSERT_TRUE(parse_answer(bytes_of(head) + std::string(8, 'x') + one + one, &process));
  EXPECT_EQ(process.head.pid, 7u);
  ASSERT_EQ(process.qps.size(), 2u);
  EXPECT_EQ(process.qps[1].qpn, 42u);
}

TEST(TopAnswer, OfAnEarlierVersionHasZeroWhereItSaysNothing) {
  TopHead head = head_of(7);
  head.record_bytes = 24;
  TopRecord record{};
  record.qpn = 42;
  record.bytes_out = 99;
  TopProcess process;
  ASSERT_TRUE(parse_answer(bytes_of(head) + bytes_of(record).substr(0, 24), &process));
  ASSERT_EQ(process.qps.size(), 1u);
  EXPECT_EQ(process.qps[0].qpn, 42u);
  EXPECT_EQ(process.qps[0].bytes_out, 0u);
}

// A name cut off within a character, or chosen to move the cursor.
TEST(TopAnswer, NamesUpsetNeitherATerminalNorJson) {
  TopHead head = head_of(7);
  std::strcpy(head.program.data(), "caf\xc3\x1b[2J");
  TopProcess process;
  ASSERT_TRUE(parse_answer(bytes_of(head), &process));
  process.answered = true;
  const auto rows = compare({}, {process});
  EXPECT_EQ(as_table(rows, 10).find('\x1b'), std::string::npos);
  EXPECT_NO_THROW(EXPECT_NE(as_json(rows).dump().find("caf??[2J"), std::string::npos));
}

TEST(TopAnswer, ThatIsNoneIsRefused) {
  TopProcess process;
  EXPECT_FALSE(parse_answer("", &process));
  EXPECT_FALSE(parse_answer(std::string(200, '\0'), &process));
  const std::string good = bytes_of(head_of(1)) + bytes_of(TopRecord{});
  EXPECT_FALSE(parse_answer(good.substr(0, good.size() - 1), &process)) << "cut off";
  TopHead head = head_of(1);
  head.record_bytes = 0;
  EXPECT_FALSE(parse_answer(bytes_of(head), &process));
  head.record_bytes = 1u << 30;
  EXPECT_FALSE(parse_answer(bytes_of(head), &process));
}

TopProcess process_with(uint32_t pid, uint64_t time_ns, uint64_t bytes_out, uint64_t bytes_in) {
  TopProcess process;
  process.socket = "top-" + std::to_string(pid);
  process.head = head_of(pid);
  process.answered = true;
  TopRecord record{};
  record.qpn = 5;
  record.time_ns = time_ns;
  record.bytes_out = bytes_out;
  record.bytes_in = bytes_in;
  record.mode = MPRDMA_ABI_MODE_MP;
  record.requests.window_q16 = 54u << 16;
  process.qps.push_back(record);
  return process;
}

TEST(TopView, RatesAreOfBytesOverTheEnginesOwnTime) {
  const auto rows = compare({process_with(1, 1'000'000'000, 1000, 0)},
                            {process_with(1, 1'500'000'000, 2000, 500)});
  ASSERT_EQ(rows.size(), 1u);
  ASSERT_TRUE(rows[0].qps[0].has_rate);
  EXPECT_DOUBLE_EQ(rows[0].qps[0].tx_bps, 16000);
  EXPECT_DOUBLE_EQ(rows[0].qps[0].rx_bps, 8000);
}

TEST(TopView, QueuePairsThatAreNewOrWereResetHaveNoWildRates) {
  const auto rows = compare({process_with(1, 1'000, 5000, 0)},
                            {process_with(1, 2'000, 100, 0), process_with(2, 2'000, 100, 0)});
  EXPECT_EQ(rows[0].qps[0].tx_bps, 0);
  EXPECT_FALSE(rows[1].qps[0].has_rate);
  EXPECT_EQ(as_json(rows)["processes"][1]["qps"][0]["tx_bps"], nullptr);
}

TEST(TopView, TableHasABusyOneFirstAndNoMoreLinesThanThereIsRoomFor) {
  const std::vector<TopProcess> before = {process_with(1, 1'000, 0, 0),
                                          process_with(22, 1'000, 0, 0)};
  const std::vector<TopProcess> now = {process_with(1, 2'000, 10, 0),
                                       process_with(22, 2'000, 9000, 0)};
  const std::string table = as_table(compare(before, now), 1);
  EXPECT_NE(table.find("     22 program"), std::string::npos) << table;
  EXPECT_EQ(table.find("      1 program"), std::string::npos) << table;
  EXPECT_NE(table.find("and 1 more"), std::string::npos) << table;
}

TEST(TopView, ShowsTheStreamThatSends) {
  TopRecord record{};
  record.requests.packets_sent = 3;
  record.responses.packets_sent = 1000;
  EXPECT_EQ(&busier_stream(record), &record.responses);
}

class TopSockets : public ::testing::Test {
 protected:
  // Binds a socket; the caller may listen on it.
  int bind_socket(const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, directory_.path(name).c_str(), sizeof(address.sun_path) - 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  void make_old(const std::string& name) {
    const timespec times[2] = {{1'000'000, 0}, {1'000'000, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, directory_.path(name).c_str(), times, 0), 0);
  }
  [[nodiscard]] bool exists(const std::string& name) const {
    return std::filesystem::exists(directory_.path(name));
  }

  TemporaryDirectory directory_;
};

TEST_F(TopSockets, OfTheDeadAreRemovedOthersAreNot) {
  for (const char* name : {"top-1-a.sock", "top-2-b.sock", "wire.sock"}) close(bind_socket(name));
  make_old("top-1-a.sock");
  make_old("wire.sock");
  EXPECT_TRUE(read_processes({directory_.path(), "/nonexistent"}, Duration::ms(100)).empty());
  EXPECT_FALSE(exists("top-1-a.sock"));
  EXPECT_TRUE(exists("top-2-b.sock")) << "it may be about to listen";
  EXPECT_TRUE(exists("wire.sock")) << "not ours to judge";
}

TEST_F(TopSockets, InADirectoryThatOthersCanWriteAreNotTouched) {
  close(bind_socket("top-1-a.sock"));
  make_old("top-1-a.sock");
  const int served = bind_socket("top-2-b.sock");
  listen(served, 4);
  ASSERT_EQ(chmod(directory_.path().c_str(), 0777), 0);
  EXPECT_TRUE(read_processes({directory_.path()}, Duration::ms(50)).empty());
  EXPECT_TRUE(exists("top-1-a.sock"));
  close(served);
}

TEST_F(TopSockets, ThatNobodyServesCostTheirTimeOnceAndAreSaidToBeSilent) {
  const int one = bind_socket("top-77-a.sock");
  const int other = bind_socket("top-78-b.sock");
  listen(one, 4);
  listen(other, 4);
  const auto processes = read_processes({directory_.path()}, Duration::ms(50));
  ASSERT_EQ(processes.size(), 2u);
  EXPECT_EQ(processes[0].head.pid, 77u);
  EXPECT_FALSE(processes[0].answered);
  EXPECT_NE(as_table(compare({}, processes), 10).find("2 do not answer"), std::string::npos);
  close(one);
  close(other);
}

}  // namespace
}  // namespace mprdma::tools
