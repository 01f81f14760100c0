// A process that looks for its daemon, and what it meets at the socket.
#include "dataplane/client/daemon_link.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/unit/dataplane/port/port_test_support.hpp"

namespace mprdma::dataplane::mprdmad {
namespace {

// A listener at the daemon's socket.
class Listener {
 public:
  explicit Listener(const std::string& path) : fd_(client::new_message_socket()) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    listening_ = bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                 listen(fd_, 8) == 0;
  }
  ~Listener() { close(fd_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] bool listening() const { return listening_; }
  // Accepts a connection. False: there is none.
  template <class T>
  [[nodiscard]] bool answer(const T& message) const {
    const int caller = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (caller < 0) return false;
    EXPECT_EQ(client::send_message(caller, message), 0);
    close(caller);
    return true;
  }

 private:
  int fd_;
  bool listening_ = false;
};

// After an upgrade, running programs meet a daemon of another version.
TEST(DaemonLink, WhoIsRefusedAsksOnceASecond) {
  for (const uint16_t version : {client::kVersion, static_cast<uint16_t>(client::kVersion + 1)}) {
    testing::WireDirectory directory;
    const Listener daemon(directory.wire());
    ASSERT_TRUE(daemon.listening());
    auto refused = client::new_message<client::Refused>(1);
    refused.head.version = version;
    refused.reason = client::Refusal::kOtherVersion;
    client::DaemonLink link(directory.wire());
    Time now = Time{} + Duration::s(10);
    link.poll(now);
    ASSERT_TRUE(daemon.answer(refused));
    link.poll(now);
    for (int ms = 1; ms < 1000; ++ms) {
      link.poll(now + Duration::ms(ms));
      ASSERT_FALSE(daemon.answer(refused)) << "version " << version << " after " << ms << " ms";
    }
    now += Duration::ms(1001);
    link.poll(now);
    EXPECT_TRUE(daemon.answer(refused)) << version;
  }
}

}  // namespace
}  // namespace mprdma::dataplane::mprdmad
