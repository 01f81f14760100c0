// The control socket: lines in, lines out, whatever clients do.
#include "switchsim/fabric/control_server.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "tests/support/temporary_directory.hpp"

namespace mprdma::switchsim {
namespace {

class ControlServerTest : public ::testing::Test {
 protected:
  ControlServerTest() { EXPECT_EQ(server_.open(path_).text, ""); }

  int dial() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return fd;
  }
  void serve(const std::string& answer = "") {
    server_.poll(
        [&](const std::string& line) { return answer.empty() ? "<" + line + ">" : answer; });
  }
  static std::string read_all(int fd) {
    char bytes[65536];
    const ssize_t count = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    return count <= 0 ? "" : std::string(bytes, static_cast<size_t>(count));
  }
  static void say(int fd, const std::string& text) {
    ASSERT_EQ(send(fd, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }

  TemporaryDirectory directory_;
  const std::string path_ = directory_.path("c.sock");
  ControlServer server_;
};

TEST_F(ControlServerTest, EachLineHasOneAnswer) {
  const int fd = dial();
  say(fd, "a\nb\nhal");
  serve();
  EXPECT_EQ(read_all(fd), "<a>\n<b>\n");
  say(fd, "f\n");
  serve();
  EXPECT_EQ(read_all(fd), "<half>\n");
  close(fd);
}

TEST_F(ControlServerTest, NobodyElseMayConnect) {
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0077, 0u);
}

TEST_F(ControlServerTest, AClientThatTalksWithoutEndIsHungUpOn) {
  const int fd = dial();
  say(fd, std::string(8192, 'x'));
  serve();
  char byte = 0;
  EXPECT_LE(recv(fd, &byte, 1, 0), 0);  // the end, or a reset for what was not read
  close(fd);
}

TEST_F(ControlServerTest, AClientThatDoesNotReadStopsNobody) {
  const int deaf = dial();
  for (int i = 0; i < 8; ++i) {
    (void)!send(deaf, "show\n", 5, MSG_NOSIGNAL);
    serve(std::string(1 << 20, 'y'));  // ends in a hang-up, not in a wait
  }
  const int other = dial();
  say(other, "a\n");
  serve();
  EXPECT_EQ(read_all(other), "<a>\n");
  close(deaf);
  close(other);
}

TEST_F(ControlServerTest, ASocketThatAKilledFabricLeftIsReplaced) {
  ControlServer next;
  EXPECT_EQ(next.open(path_).text, "");
  const int fd = dial();
  say(fd, "a\n");
  next.poll([](const std::string&) { return "next"; });
  EXPECT_EQ(read_all(fd), "next\n");
  close(fd);
}

}  // namespace
}  // namespace mprdma::switchsim
