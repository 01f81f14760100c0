// Wake-ups of a LocalPort that its user sends later, when it has given up its lock.
#include "dataplane/port/deferred_wakes.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "tests/unit/dataplane/port/port_test_support.hpp"

namespace mprdma::dataplane {
namespace {

using testing::LinkedPorts;
using testing::now;
using testing::send_patterns;
using testing::until;

class DeferredWakesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(ports_.link());
    ASSERT_TRUE(b_->arm());
  }
  bool woken(int ms = 0) {
    pollfd entry{b_->notify_fd(), POLLIN, 0};
    return poll(&entry, 1, ms) == 1;
  }

  LinkedPorts ports_;
  std::unique_ptr<Port>& a_ = ports_.a;
  std::unique_ptr<Port>& b_ = ports_.b;
};

TEST_F(DeferredWakesTest, LeaveWhenTheyAreSent) {
  DeferredWakes wakes;
  send_patterns(*a_, 0, 1);
  EXPECT_FALSE(woken());
  wakes.send();
  EXPECT_TRUE(woken(5000));
}

TEST_F(DeferredWakesTest, LeaveAtTheLatestAtTheEnd) {
  {
    const DeferredWakes wakes;
    send_patterns(*a_, 0, 1);
    EXPECT_FALSE(woken());
  }
  EXPECT_TRUE(woken(5000));
}

TEST_F(DeferredWakesTest, LeaveAtOnceWhereNobodySendsThemLater) {
  send_patterns(*a_, 0, 1);
  EXPECT_TRUE(woken(5000));
}

// The port closes its socket meanwhile, and the number of that descriptor becomes another's: the
// wake-up may not go there.
TEST_F(DeferredWakesTest, GoNowhereElseWhenThePortHasGone) {
  DeferredWakes wakes;
  send_patterns(*a_, 0, 1);
  a_.reset();
  int others[2];
  std::vector<int> opened;
  for (int i = 0; i < 16; ++i) {
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, others), 0);
    opened.insert(opened.end(), {others[0], others[1]});
  }
  wakes.send();
  for (const int fd : opened) {
    char byte = 0;
    EXPECT_LT(recv(fd, &byte, 1, MSG_DONTWAIT), 0);
  }
  for (const int fd : opened) close(fd);
  EXPECT_TRUE(woken(5000)) << "the end of the connection, or the wake-up";
}

// The peer must see the parent's end, so the child may not keep the connection, whatever it was
// about to send when it forked.
TEST_F(DeferredWakesTest, LeaveNoConnectionOpenInAForkedChild) {
  DeferredWakes wakes;
  send_patterns(*a_, 0, 1);
  int lives[2];
  ASSERT_EQ(pipe(lives), 0);
  const pid_t child = fork();
  if (child == 0) {
    a_->close_after_fork();
    b_->close_after_fork();
    close(lives[1]);
    char byte = 0;
    _exit(static_cast<int>(read(lives[0], &byte, 1)));
  }
  ASSERT_GT(child, 0);
  a_.reset();
  b_->disarm();
  wakes.send();
  EXPECT_TRUE(until([&] {
    b_->service(now());
    return !b_->link_up();
  }));
  close(lives[1]);
  close(lives[0]);
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace mprdma::dataplane
