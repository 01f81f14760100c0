#include "dataplane/engine/top_server.hpp"

#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "dataplane/sys/clock.hpp"
#include "dataplane/sys/runtime_directory.hpp"

namespace mprdma::dataplane {

namespace {

constexpr int kBacklog = 8;

std::string file_name(pid_t pid) {
  // Processes of several PID namespaces may share the directory, and a number comes back.
  uint32_t random = 0;
  if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random)) {
    random = static_cast<uint32_t>(clock_now().ns());
  }
  char name[64];
  std::snprintf(name, sizeof(name), "%s%ld-%08x%s", kTopPrefix, static_cast<long>(pid), random,
                kTopSuffix);
  return name;
}

bool same_user(int fd) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0 &&
         credentials.uid == geteuid();
}

}  // namespace

std::unique_ptr<TopServer> TopServer::create(const std::string& directory, TopSource& source) {
  if (!make_private_directory(directory).ok()) return nullptr;
  std::unique_ptr<TopServer> server(new TopServer(source));
  return server->open(directory) ? std::move(server) : nullptr;
}

bool TopServer::open(const std::string& directory) {
  pid_ = getpid();
  const std::string path = directory + "/" + file_name(pid_);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  listen_fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (epoll_fd_ < 0 || listen_fd_ < 0) return false;
  if (bind(listen_fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return false;
  }
  path_ = path;
  // Edge-triggered: a connection that cannot be accepted (the process has no descriptor left) must
  // not keep the engine's thread awake.
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.ptr = nullptr;
  return listen(listen_fd_, kBacklog) == 0 &&
         epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, listen_fd_, &event) == 0;
}

TopServer::~TopServer() {
  withdraw();
  close_after_fork();
}

void TopServer::withdraw() {
  if (!path_.empty() && pid_ == getpid()) unlink(path_.c_str());
}

// Descriptors only: the parent's thread may have been in the middle of a buffer.
void TopServer::close_after_fork() {
  for (Reader& reader : readers_) {
    if (reader.fd >= 0) close(reader.fd);
    reader.fd = -1;
  }
  if (listen_fd_ >= 0) close(listen_fd_);
  if (epoll_fd_ >= 0) close(epoll_fd_);
  listen_fd_ = epoll_fd_ = -1;
}

void TopServer::serve() {
  epoll_event events[1 + kReadersMax];
  const int n = epoll_wait(epoll_fd_, events, 1 + kReadersMax, 0);
  for (int i = 0; i < n; ++i) {
    if (events[i].data.ptr == nullptr) {
      accept_readers();
    } else {
      pump(*static_cast<Reader*>(events[i].data.ptr));
    }
  }
}

void TopServer::accept_readers() {
  // All that wait now; who comes after this wakes us again.
  for (int i = 0; i <= kBacklog; ++i) {
    const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    const Time now = clock_now();
    Reader* reader = same_user(fd) ? place_for_reader(now) : nullptr;
    epoll_event event{};
    event.events = EPOLLOUT;
    event.data.ptr = reader;
    if (reader == nullptr || epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) {
      ++counts_.refused;
      close(fd);
      continue;
    }
    TopHead head;
    source_.top_head(&head);
    head.head_bytes = sizeof(TopHead);
    head.record_bytes = sizeof(TopRecord);
    reader->fd = fd;
    reader->buffer.assign(reinterpret_cast<const char*>(&head),
                          reinterpret_cast<const char*>(&head) + sizeof(head));
    reader->sent = 0;
    reader->next_slot = 0;
    reader->last_progress = now;
  }
}

TopServer::Reader* TopServer::place_for_reader(Time now) {
  for (Reader& reader : readers_) {
    if (reader.fd >= 0 && now - reader.last_progress > kPatience) {
      ++counts_.refused;
      close_reader(reader);
    }
    if (reader.fd < 0) return &reader;
  }
  return nullptr;
}

void TopServer::pump(Reader& reader) {
  for (size_t piece = 0; piece < kPiecesPerTurn && reader.fd >= 0; ++piece) {
    if (reader.sent == reader.buffer.size()) {
      if (reader.next_slot == kTopEnd) {
        ++counts_.replies;
        close_reader(reader);
        return;
      }
      refill(reader);
      if (reader.buffer.empty()) continue;
    }
    const ssize_t sent = send(reader.fd, reader.buffer.data() + reader.sent,
                              reader.buffer.size() - reader.sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno != EAGAIN && errno != EINTR) close_reader(reader);
      return;
    }
    reader.sent += static_cast<size_t>(sent);
    reader.last_progress = clock_now();
  }
}

void TopServer::refill(Reader& reader) {
  std::array<TopRecord, kRecordsPerPiece> records;
  const size_t count = source_.top_records(&reader.next_slot, records);
  const auto* bytes = reinterpret_cast<const char*>(records.data());
  reader.buffer.assign(bytes, bytes + count * sizeof(TopRecord));
  reader.sent = 0;
}

void TopServer::close_reader(Reader& reader) {
  // Forgotten first: a fork in between must not close what has the number next.
  const int fd = std::exchange(reader.fd, -1);
  if (fd >= 0) close(fd);
  reader.buffer = {};
  reader.sent = 0;
}

}  // namespace mprdma::dataplane
