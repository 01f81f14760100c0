#include "dataplane/port/local_port_control.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "dataplane/port/local_port_message.hpp"
#include "dataplane/sys/async_close.hpp"
#include "dataplane/sys/passed_fd.hpp"
#include "dataplane/sys/pid_namespace.hpp"

namespace mprdma::dataplane::local {

namespace {

constexpr Duration kHandshakeTimeout = Duration::s(2);
// A generous time, because a process that starts among many others may be slow, and no other
// process waits for the wire.
constexpr Duration kHandshakeTimeoutAdopted = Duration::s(10);
constexpr Duration kDialInterval = Duration::ms(5);
constexpr Duration kDialIntervalRefused = Duration::ms(50);
constexpr Duration kListenerCheckInterval = Duration::ms(100);
// Bounds what a flooding peer can cost in one call.
constexpr int kMessagesPerPoll = 64;

void close_fd(int* fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

// Who has connected the other end, or made both; pid 0: it is not to be seen.
ucred other_end(int socket) {
  ucred peer{.pid = 0, .uid = static_cast<uid_t>(-1), .gid = static_cast<gid_t>(-1)};
  socklen_t length = sizeof peer;
  getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length);
  return peer;
}

bool is_eventfd(int fd) {
  std::array<char, 32> target{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = readlink(link.c_str(), target.data(), target.size());
  return length > 0 &&
         std::string_view(target.data(), static_cast<size_t>(length)) == "anon_inode:[eventfd]";
}

// Requires: the path fits; start() has checked it.
sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

// Whether the kernel tells who has sent a message.
void hear_pids(int socket, bool hear) {
  const int value = hear ? 1 : 0;
  setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &value, sizeof value);
}

int new_socket() {
  return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

// 0 where there is no such file.
uint64_t inode_of(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

const char* refusal_text(Refusal refusal) {
  switch (refusal) {
    case Refusal::kNone:
      break;
    case Refusal::kBusy:
      return "two other processes use this wire; choose another path or end one of them";
    case Refusal::kUser:
      return "the process at the other end runs as another user; run both as the same user";
    case Refusal::kRegion:
      return "the process at the other end refuses our memory; run the same version at both ends";
  }
  return "the process at the other end refuses the link";
}

}  // namespace

Control::Control(std::string path, Role role, int own_memfd, int connected, bool stranger,
                 Wake wake)
    : path_(std::move(path)),
      role_(role),
      stranger_(stranger),
      wake_(stranger ? Wake::kByMessage : wake),
      own_memfd_(own_memfd),
      given_fd_(connected) {}

Control::~Control() {
  close_connection();
  close_fd(&given_fd_);
  // The file is ours as long as the lock is; both go, in an order that lets a newcomer lock anew.
  if (listen_fd_ >= 0 && inode_of(path_) == socket_inode_) {
    unlink(path_.c_str());
    unlink((path_ + ".lock").c_str());
  }
  stop_listening();
  close_fd(&wake_fd_);
  close_fd(&epoll_fd_);
}

Status Control::start() {
  if (role_ != Role::kAdopted) {
    if (Status status = check_path(); !status.ok()) return status;
  }
  epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd_ < 0) {
    Status status = system_status("epoll_create1", errno);
    status.text += "; raise `ulimit -n`";
    return status;
  }
  if (wake_ == Wake::kByEventfd) {
    // Without one we are woken by messages.
    wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    epoll_event event{};
    event.events = EPOLLIN;
    if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, wake_fd_, &event) != 0) close_fd(&wake_fd_);
  }
  set_text("waiting for a process at the other end of the wire");
  return {};
}

Status Control::check_path() const {
  if (path_.empty() || path_.size() >= sizeof(sockaddr_un::sun_path)) {
    return {ENAMETOOLONG,
            "the socket path '" + path_ + "' is empty or longer than 107 bytes; shorten it"};
  }
  const size_t slash = path_.rfind('/');
  const std::string directory =
      slash == std::string::npos ? "." : path_.substr(0, slash == 0 ? 1 : slash);
  if (access(directory.c_str(), F_OK) != 0) {
    const int error = errno;
    return {error, "the directory '" + directory + "' of the socket path cannot be used (" +
                       std::strerror(error) + "); create it or choose another path"};
  }
  if (role_ != Role::kDial && access(directory.c_str(), W_OK | X_OK) != 0) {
    return {EACCES, "no permission to create a socket in '" + directory +
                        "'; choose a directory that this user may write"};
  }
  struct stat status {};
  if (lstat(path_.c_str(), &status) == 0 && !S_ISSOCK(status.st_mode)) {
    return {EEXIST, "'" + path_ + "' exists and is not a socket; remove it or choose another path"};
  }
  return {};
}

Control::Event Control::poll(Time now) {
  if (connection_fd() >= 0) {
    const Event event = receive();
    if (event.kind != Event::Kind::kNone) return event;
    if (state_ == State::kHandshake && now >= handshake_deadline_) {
      return closed("the process at the other end did not answer in time");
    }
  }
  if (connection_fd() >= 0) {
    turn_away_others();
    return {};
  }
  if (role_ == Role::kAdopted) {
    if (given_fd_ >= 0) adopt(std::exchange(given_fd_, -1), now);
  } else if (listen_fd_ >= 0) {
    accept_one(now);
    check_listener(now);
  } else if (now >= next_dial_) {
    next_dial_ = now + dial_interval_;
    dial(now);
  }
  // Messages that came with the connection are read at once.
  return connection_fd() >= 0 ? receive() : Event{};
}

void Control::dial(Time now) {
  if (role_ != Role::kListen) {
    const sockaddr_un address = address_of(path_);
    int fd = new_socket();
    if (fd < 0) return set_text("no descriptor for a socket; raise `ulimit -n`");
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      return adopt(fd, now);
    }
    const int error = errno;
    close_fd(&fd);
    if (error == EACCES) {
      return set_text("no permission to connect to the socket; run both ends as the same user");
    }
    if (error != ENOENT && error != ECONNREFUSED) return;  // a full backlog: later
  }
  if (role_ != Role::kDial && try_lock() && !try_listen()) stop_listening();
}

// Whoever has the lock is the one that listens. False: somebody else is, or is about to.
bool Control::try_lock() {
  const std::string name = path_ + ".lock";
  lock_fd_ = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock_fd_ < 0) {
    set_text("the lock file beside the socket cannot be opened; check its owner");
    return false;
  }
  struct stat status {};
  // A holder that leaves removes the file: a lock on a file without a name locks nobody out.
  if (flock(lock_fd_, LOCK_EX | LOCK_NB) != 0 || fstat(lock_fd_, &status) != 0 ||
      status.st_ino != inode_of(name)) {
    close_fd(&lock_fd_);
    return false;
  }
  return true;
}

bool Control::try_listen() {
  struct stat status {};
  if (lstat(path_.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) {
      set_text("the socket path exists and is not a socket; remove it");
      return false;
    }
    unlink(path_.c_str());  // left by a process that was killed: we have its lock
  }
  listen_fd_ = new_socket();
  if (listen_fd_ < 0) return false;
  fchmod(listen_fd_, 0600);  // the mode that bind() gives the file
  const sockaddr_un address = address_of(path_);
  epoll_event event{};
  event.events = EPOLLIN;
  if (bind(listen_fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listen_fd_, 8) != 0 || epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, listen_fd_, &event) != 0) {
    set_text("the socket cannot be created; check permissions of its directory");
    return false;
  }
  socket_inode_ = inode_of(path_);
  refused_ = false;
  return true;
}

// Somebody may have removed the file: then nobody can find us, and we start over.
void Control::check_listener(Time now) {
  if (now < next_listener_check_) return;
  next_listener_check_ = now + kListenerCheckInterval;
  if (connection_fd() < 0 && inode_of(path_) != socket_inode_) stop_listening();
}

void Control::stop_listening() {
  close_fd(&listen_fd_);
  close_fd(&lock_fd_);
}

void Control::accept_one(Time now) {
  const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd >= 0) adopt(fd, now);
}

// A wire has two ends.
void Control::turn_away_others() {
  if (listen_fd_ < 0) return;
  int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  send_message(fd, MessageType::kRefused, Refusal::kBusy);
  close_fd(&fd);
}

void Control::adopt(int fd, Time now) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  const ucred peer = other_end(fd);
  if (role_ != Role::kAdopted && peer.uid != geteuid()) {
    send_message(fd, MessageType::kRefused, Refusal::kUser);
    set_text(refusal_text(Refusal::kUser));
    dial_interval_ = kDialIntervalRefused;
    close_fd(&fd);
    return;
  }
  // Whoever hands a socket over has judged its other end.
  trusts_ = role_ == Role::kAdopted
                ? !stranger_
                : same_pid_namespace(pid_namespace(peer.pid), pid_namespace(getpid()));
  const std::array<int, 2> fds = {wake_fd_, own_memfd_};
  const std::span<const int> passed = std::span(fds).subspan(trusts_ && wake_fd_ >= 0 ? 0 : 1);
  // A peer that refused at once has closed the socket already: receive() reads the reason.
  // The kernel refuses to tell a number if this process has a user or group without a name.
  const bool greeted =
      (trusts_ && send_message(fd, MessageType::kHello, Refusal::kNone, 0, passed, true)) ||
      send_message(fd, MessageType::kHello, Refusal::kNone, 0, passed) || errno == EPIPE ||
      errno == ECONNRESET;
  // Until the peer's Hello is here.
  if (trusts_) hear_pids(fd, true);
  peer_pid_ = 0;
  if (!greeted || epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) {
    close_fd(&fd);
    return;
  }
  connection_ = std::make_shared<WakeSocket>(fd, stranger_);
  state_ = State::kHandshake;
  handshake_deadline_ =
      now + (role_ == Role::kAdopted ? kHandshakeTimeoutAdopted : kHandshakeTimeout);
}

Control::Event Control::receive() {
  uint64_t wakes = 0;
  if (wake_fd_ >= 0) (void)!read(wake_fd_, &wakes, sizeof wakes);
  for (int i = 0; i < kMessagesPerPoll && connection_fd() >= 0; ++i) {
    Message message{};
    PassedFds passed;
    const ssize_t count = receive_with_fds(connection_fd(), &message, sizeof message, &passed);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return {};
    const pid_t sender = passed.sender;
    const int memfd = take_last(&passed);
    const int event_fd = trusts_ ? take_last(&passed) : -1;
    close_rest(&passed, [this](int fd) { close_passed(fd); });
    const bool greeting = state_ == State::kHandshake;
    const Event event = on_message(&message, count, memfd, event_fd);
    if (greeting && state_ == State::kUp && trusts_) {
      hear_pids(connection_fd(), false);
      peer_pid_ = sender;
    }
    if (event.kind != Event::Kind::kNone) return event;
  }
  return {};
}

// Requires: count is what receive_with_fds() gave, and not "nothing there".
Control::Event Control::on_message(const void* bytes, long count, int memfd, int event_fd) {
  Message message{};
  if (count == sizeof message) std::memcpy(&message, bytes, sizeof message);
  if (count > 0 && message.magic == kMessageMagic) {
    if (message.type == MessageType::kHello && state_ == State::kHandshake && memfd >= 0) {
      state_ = State::kUp;
      dial_interval_ = kDialInterval;
      refused_ = false;
      set_text("up");
      keep_event_fd(event_fd);
      return {Event::Kind::kUp, memfd};
    }
    close_passed(memfd);
    close_passed(event_fd);
    if (message.type == MessageType::kWake && state_ == State::kUp) {
      if (trusts_ && message.waker_core != 0)
        costly_waker_ = static_cast<int>(message.waker_core - 1);
      return {};
    }
    if (message.type == MessageType::kRefused) {
      refused_ = true;
      dial_interval_ = kDialIntervalRefused;
      return closed(refusal_text(message.refusal));
    }
    return closed("the process at the other end sent a message out of turn");
  }
  close_passed(memfd);
  close_passed(event_fd);
  if (count > 0) return closed("the process at the other end speaks another version");
  return closed(role_ == Role::kAdopted ? "the process at the other end is gone"
                                        : "waiting for a process at the other end of the wire");
}

Control::Event Control::closed(const char* text) {
  const bool was_up = state_ == State::kUp;
  close_connection();
  set_text(text);
  return {was_up ? Event::Kind::kDown : Event::Kind::kNone, -1};
}

void Control::hang_up(const char* reason) {
  if (connection_fd() < 0) return;
  send_message(connection_fd(), MessageType::kRefused, Refusal::kRegion);
  close_connection();
  dial_interval_ = kDialIntervalRefused;
  set_text(reason);
}

// Any thread writes to it at any time, so a descriptor that may block, or raise a signal (a pipe),
// is not kept.
void Control::keep_event_fd(int fd) {
  if (fd < 0) return;
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || (flags & O_NONBLOCK) == 0 || !is_eventfd(fd)) return close_passed(fd);
  connection_->wake_by(fd);
}

void Control::close_passed(int fd) const {
  if (fd < 0) return;
  if (stranger_) return close_elsewhere(fd);
  close(fd);
}

void Control::close_connection() {
  if (connection_fd() >= 0) {
    epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, connection_fd(), nullptr);
    if (stranger_) shutdown(connection_fd(), SHUT_RDWR);
  }
  connection_.reset();
  state_ = State::kIdle;
}

void Control::wake_peer() {
  if (connection_fd() < 0 || DeferredWakes::defer(connection_)) return;
  connection_->send_wake();
}

void Control::close_after_fork() {
  if (connection_ != nullptr) connection_->close_after_fork();
  connection_.reset();
  close_fd(&given_fd_);
  close_fd(&listen_fd_);
  close_fd(&lock_fd_);
  close_fd(&wake_fd_);
  close_fd(&epoll_fd_);
  own_memfd_ = -1;
  state_ = State::kIdle;
}

}  // namespace mprdma::dataplane::local
