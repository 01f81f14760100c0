// The device file of rdma_cm: its descriptor in all the ways that descriptors are used.
#include <dlfcn.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <fstream>
#include <thread>

#include "tests/provider/cm_fixture.hpp"

namespace mprdma::provider_test {
namespace {

// Runs a test in a child; its failures are the test's.
template <class Call>
int in_child(Call call) {
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(30);
    call();
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_F(Cm, DeviceFileIsWhatSysfsSays) {
  std::ifstream file("/sys/class/misc/rdma_cm/dev");
  std::string number;
  file >> number;
  EXPECT_EQ(number, "10:58");
  struct stat by_path {};
  struct stat by_fd {};
  ASSERT_EQ(stat("/dev/infiniband/rdma_cm", &by_path), 0);
  ASSERT_EQ(fstat(channel_->fd, &by_fd), 0);
  for (const struct stat& status : {by_path, by_fd}) {
    EXPECT_TRUE(S_ISCHR(status.st_mode));
    EXPECT_EQ(status.st_rdev, makedev(10, 58));
  }
  EXPECT_EQ(access("/dev/infiniband/rdma_cm", R_OK | W_OK), 0);
}

TEST_F(Cm, ProbesStartNoEngine) {
  const uint32_t before = fake_engine_connects();
  ibv_context** devices = rdma_get_devices(nullptr);
  ASSERT_NE(devices, nullptr);
  rdma_free_devices(devices);
  make();
  EXPECT_EQ(fake_engine_connects(), before);
}

TEST_F(Cm, EmptyQueueDoesNotBlockIfAsked) {
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK), 0);
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(rdma_get_cm_event(channel_, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(Cm, BlockedReaderIsWoken) {
  rdma_cm_id* id = make();
  std::thread reader([this] {
    rdma_cm_event* event = nullptr;
    ASSERT_EQ(rdma_get_cm_event(channel_, &event), 0);
    EXPECT_EQ(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
    rdma_ack_cm_event(event);
  });
  sockaddr_in remote = ip(kOwn, 7);
  EXPECT_EQ(rdma_resolve_addr(id, nullptr, generic(&remote), 1000), 0);
  reader.join();
}

TEST_F(Cm, EpollSeesEachEventOnce) {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event wanted{};
  wanted.events = EPOLLIN;
  ASSERT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, channel_->fd, &wanted), 0);
  epoll_event got{};
  EXPECT_EQ(epoll_wait(epoll, &got, 1, 0), 0);
  rdma_cm_id* id = make();
  sockaddr_in remote = ip(kOwn, 7);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, generic(&remote), 1000), 0);
  EXPECT_EQ(epoll_wait(epoll, &got, 1, 0), 1);
  expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(epoll_wait(epoll, &got, 1, 0), 0);
  close(epoll);
}

// Called at the beginning and at the end of the library's read(), with its descriptor.
std::atomic<void (*)(int)> before_read{nullptr};
std::atomic<void (*)(int)> after_read{nullptr};
int closed_meanwhile = -1;  // the channel's number, which belongs to another file by then
int other_file = -1;

// A thread waits for an event; another one closes the channel and opens something else.
void take_number(int read_from) {
  before_read = nullptr;
  ASSERT_EQ(dup2(other_file, closed_meanwhile), closed_meanwhile);
  if (read_from == closed_meanwhile) return;
  const uint64_t one = 1;  // so that the reader comes back
  EXPECT_EQ(write(read_from, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
}

TEST_F(Cm, ReaderKeepsTheFileThatIsClosedMeanwhile) {
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK), 0);
  other_file = eventfd(7, EFD_CLOEXEC | EFD_NONBLOCK);
  closed_meanwhile = channel_->fd;
  before_read = take_number;
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(rdma_get_cm_event(channel_, &event), -1);
  EXPECT_EQ(errno, EAGAIN) << "the count that came has no event";
  uint64_t value = 0;
  EXPECT_EQ(read(other_file, &value, sizeof(value)), static_cast<ssize_t>(sizeof(value)));
  EXPECT_EQ(value, 7u) << "what another file held was read";
  close(other_file);
}

// A reader has the count of an event in hand; its id is destroyed, and another one has an event.
rdma_cm_id* destroyed_meanwhile = nullptr;
rdma_cm_id* resolved_meanwhile = nullptr;
sockaddr_in resolvable{};

void destroy_and_resolve(int read_from) {
  (void)read_from;
  after_read = nullptr;
  EXPECT_EQ(rdma_destroy_id(destroyed_meanwhile), 0);
  sockaddr_in remote = resolvable;
  EXPECT_EQ(rdma_resolve_addr(resolved_meanwhile, nullptr, generic(&remote), 1000), 0);
}

TEST_F(Cm, EventOfAnIdDestroyedUnderTheReaderLeavesNothingToRead) {
  ASSERT_EQ(rdma_create_id(channel_, &destroyed_meanwhile, nullptr, RDMA_PS_TCP), 0);
  resolved_meanwhile = make();
  resolvable = ip(kOwn, 7);
  sockaddr_in remote = resolvable;
  ASSERT_EQ(rdma_resolve_addr(destroyed_meanwhile, nullptr, generic(&remote), 1000), 0);
  ASSERT_TRUE(readable(channel_));
  after_read = destroy_and_resolve;
  rdma_cm_event* event = next(RDMA_CM_EVENT_ADDR_RESOLVED);
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->id, resolved_meanwhile);
  rdma_ack_cm_event(event);
  expect_silence();
}

TEST_F(Cm, DuplicateIsTheSameFile) {
  rdma_cm_id* id = make();
  const int original = channel_->fd;
  channel_->fd = dup(original);
  close(original);
  sockaddr_in remote = ip(kOwn, 7);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, generic(&remote), 1000), 0) << strerror(errno);
  expect(RDMA_CM_EVENT_ADDR_RESOLVED);
}

TEST_F(Cm, ClosingEndsItsIds) {
  rdma_cm_id* listener = listen();
  EXPECT_EQ(fake_engine_cm_ids(), 1u);
  const int copy = dup(channel_->fd);
  close(channel_->fd);
  EXPECT_EQ(fake_engine_cm_ids(), 1u) << "another descriptor is open";
  close(copy);
  EXPECT_EQ(fake_engine_cm_ids(), 0u);
  EXPECT_EQ(rdma_destroy_id(listener), -1);
  ids_.clear();
  channel_->fd = -1;  // librdmacm keeps an id that it cannot destroy: that is lost here
}

// A descriptor's number is used again: the file that is opened next must not be taken for the
// device.
TEST_F(Cm, DescriptorClosedBehindOurBackIsForgotten) {
  const int fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  syscall(3 /* close */, fd);
  const int next = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  ASSERT_EQ(next, fd);
  uint64_t value = 5;
  EXPECT_EQ(write(next, &value, sizeof(value)), static_cast<ssize_t>(sizeof(value)));
  value = 0;
  EXPECT_EQ(read(next, &value, sizeof(value)), static_cast<ssize_t>(sizeof(value)));
  EXPECT_EQ(value, 5u);
  close(next);
}

TEST_F(Cm, ChildHasTheDescriptorAndNoneOfTheParentsIds) {
  rdma_cm_id* listener = listen();
  rdma_cm_id* waiting = make();
  sockaddr_in remote = ip(kOwn, 7);
  ASSERT_EQ(rdma_resolve_addr(waiting, nullptr, generic(&remote), 1000), 0);
  const uint32_t at_agent = fake_engine_cm_ids();
  EXPECT_EQ(in_child([&] {
              expect_silence();  // the event is the parent's
              EXPECT_EQ(rdma_listen(listener, 1), -1);
              EXPECT_EQ(errno, ENOENT);
              rdma_cm_id* id = make();  // the channel works, for the child's own ids
              EXPECT_EQ(rdma_resolve_addr(id, nullptr, generic(&remote), 1000), 0);
              expect(RDMA_CM_EVENT_ADDR_RESOLVED);
              close(channel_->fd);
            }),
            0);
  EXPECT_EQ(fake_engine_cm_ids(), at_agent);
  expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  expect_silence();
}

TEST_F(Cm, ChildOpensItsOwn) {
  make();
  EXPECT_EQ(in_child([] {
              const uint32_t before = fake_engine_connects();
              rdma_event_channel* own = rdma_create_event_channel();
              ASSERT_NE(own, nullptr);
              rdma_cm_id* id = nullptr;
              ASSERT_EQ(rdma_create_id(own, &id, nullptr, RDMA_PS_TCP), 0);
              sockaddr_in remote = ip(kOwn, 7);
              EXPECT_EQ(rdma_resolve_addr(id, nullptr, generic(&remote), 1000), 0);
              EXPECT_TRUE(readable(own));
              EXPECT_EQ(fake_engine_connects(), before + 1) << "an engine of its own";
              EXPECT_EQ(rdma_destroy_id(id), 0);
              rdma_destroy_event_channel(own);
            }),
            0);
}

bool expects_nothing_at_exit = false;

// Runs after the functions of atexit().
__attribute__((destructor)) void look_at_exit() {
  if (expects_nothing_at_exit && fake_engine_cm_ids() != 0) _exit(7);
}

TEST_F(Cm, ProcessThatEndsHangsUp) {
  EXPECT_EQ(in_child([this] {
              rdma_cm_id* listener = listen();
              rdma_cm_id* active = resolved(ntohs(rdma_get_src_port(listener)));
              rdma_conn_param param = params();
              EXPECT_EQ(rdma_connect(active, &param), 0);
              EXPECT_EQ(fake_engine_cm_ids(), 3u);
              expects_nothing_at_exit = true;
              exit(HasFailure() ? 1 : 0);
            }),
            0);
}

TEST_F(Cm, ManyIdsHaveNumbersThatLibrdmacmCanHold) {
  std::vector<rdma_cm_id*> many;
  for (int i = 0; i < 1000; i++) many.push_back(make());
  for (rdma_cm_id* id : many) EXPECT_EQ(destroy(id), 0);
  for (int i = 0; i < 70000; i++) ASSERT_EQ(destroy(make()), 0) << i;
}

TEST_F(Cm, ThreadsOnOneChannel) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([this] {
      for (int i = 0; i < 200; i++) {
        rdma_cm_id* id = nullptr;
        ASSERT_EQ(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), 0);
        sockaddr_in remote = ip(kOwn, 7);
        ASSERT_EQ(rdma_resolve_addr(id, nullptr, generic(&remote), 1000), 0) << strerror(errno);
        rdma_cm_event* event = nullptr;
        if ((i & 1) == 0) {  // anybody's: as many are read as were raised and not purged
          fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
          if (rdma_get_cm_event(channel_, &event) == 0) rdma_ack_cm_event(event);
        }
        ASSERT_EQ(rdma_destroy_id(id), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect_silence();
}

}  // namespace
}  // namespace mprdma::provider_test

// This definition comes before libc's, and before a sanitizer's, for the preload as well.
extern "C" __attribute__((visibility("default"))) ssize_t read(int fd, void* buffer, size_t bytes) {
  if (auto* first = mprdma::provider_test::before_read.load(); first != nullptr) first(fd);
  using Read = ssize_t (*)(int, void*, size_t);
  static const auto next = reinterpret_cast<Read>(dlsym(RTLD_NEXT, "read"));
  const ssize_t got = next(fd, buffer, bytes);
  if (auto* then = mprdma::provider_test::after_read.load(); then != nullptr) then(fd);
  return got;
}
