#include "dataplane/sys/event_loop.hpp"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>

namespace mprdma::dataplane {
namespace {

TEST(EventLoop, AMutedDescriptorIsHeardAgainLater) {
  const int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
  const EventLoop loop;
  ASSERT_TRUE(loop.watch(fd, 7, EventLoop::Trigger::kEdge));
  std::array<epoll_event, 2> room;
  const auto heard = [&] { return loop.wait(Duration::zero(), room).size(); };
  EXPECT_EQ(heard(), 1u);
  EXPECT_EQ(heard(), 0u) << "an edge";
  loop.mute(fd, 7);
  const uint64_t one = 1;
  ASSERT_EQ(write(fd, &one, sizeof one), static_cast<ssize_t>(sizeof one));
  EXPECT_EQ(heard(), 0u);
  loop.unmute(fd, 7, EventLoop::Trigger::kEdge);
  ASSERT_EQ(heard(), 1u) << "it is readable";
  EXPECT_EQ(room[0].data.u64, 7u);
  EXPECT_EQ(heard(), 0u);
  ASSERT_EQ(write(fd, &one, sizeof one), static_cast<ssize_t>(sizeof one));
  EXPECT_EQ(heard(), 1u);
  close(fd);
}

}  // namespace
}  // namespace mprdma::dataplane
