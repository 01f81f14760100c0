#include "tools/run/daemon_client.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "dataplane/client/message_socket.hpp"
#include "dataplane/client/protocol.hpp"
#include "dataplane/sys/clock.hpp"
#include "dataplane/sys/runtime_directory.hpp"
#include "tools/mprdmad/daemon_files.hpp"

namespace mprdma::tools {

namespace {

namespace client = dataplane::client;
using dataplane::clock_now;

constexpr Duration kAnswerTakes = Duration::s(5);
constexpr Duration kStartTakes = Duration::s(15);
// A number above those that programs use. Where the limit of descriptors is lower, any number will
// do.
constexpr int kUsersDescriptor = 200;

void sleep_briefly() {
  const timespec pause{0, 5'000'000};
  nanosleep(&pause, nullptr);
}

int connect_to(const std::string& path, int* out) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return ENAMETOOLONG;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int fd = client::new_message_socket();
  if (fd < 0) return errno;
  const Time start = clock_now();
  int error = 0;
  do {
    error =
        connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
    if (error == EAGAIN) sleep_briefly();
  } while (error == EAGAIN && clock_now() - start < kAnswerTakes);
  if (error == 0) {
    *out = fd;
  } else {
    close(fd);
  }
  return error;
}

// Asks the daemon what it is. Returns 0, or an errno value if no answer came.
int ask(int fd, DaemonInfo* out) {
  if (client::send_message(fd, client::new_message<client::Query>(1)) != 0) return ECONNRESET;
  const Time until = clock_now() + kAnswerTakes;
  for (Time now = clock_now(); now < until; now = clock_now()) {
    pollfd waiting{fd, POLLIN, 0};
    poll(&waiting, 1, static_cast<int>((until - now).count_ns() / 1'000'000) + 1);
    client::Incoming in;
    const int error = client::receive_message(fd, &in);
    if (error == EAGAIN) continue;
    if (error != 0) return error;
    if (in.passed_fd >= 0) close(in.passed_fd);
    client::Head head;
    if (client::check_message(in.message(), &head) != client::MessageFault::kNone) return EPROTO;
    if (head.type == client::MessageType::kRefused) return EACCES;
    if (head.type != client::MessageType::kInfo) continue;
    const auto info = client::load_message<client::Info>(in.message());
    out->device.name = std::string(client::text_of(info.name));
    out->device.device = {info.device.ipv4, info.device.prefix_bits, info.device.mac,
                          info.device.mtu};
    out->processes = info.clients;
    out->link_up = info.device.link_up != 0;
    return 0;
  }
  return ETIMEDOUT;
}

// Becomes the daemon in a child of a child, because the program that this process becomes must have
// no child that it does not know.
void become_daemon(const Locations& locations, const std::string& socket, const std::string& log) {
  setsid();
  if (fork() != 0) _exit(0);
  setsid();  // its own, whose share of the cores it may raise
  const int in = open("/dev/null", O_RDONLY);
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
  if (in < 0 || out < 0) _exit(1);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  for (int fd = 3; fd < 1024; ++fd) close(fd);
  for (const char* name : {"LD_PRELOAD", "NOTIFY_SOCKET", "MPRDMA_COUNTERS"}) unsetenv(name);
  (void)!chdir("/");
  const std::string linger = std::to_string(kPrivateLingerS);
  const char* arguments[] = {locations.daemon.c_str(), "--address", kPrivateAddress, "--socket",
                             socket.c_str(),           "--linger",  linger.c_str(),  nullptr};
  execv(arguments[0], const_cast<char**>(arguments));
  _exit(127);
}

std::string first_line(const std::string& path) {
  std::string text(500, '\0');
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  const ssize_t count = fd < 0 ? 0 : read(fd, text.data(), text.size());
  if (fd >= 0) close(fd);
  text.resize(count > 0 ? static_cast<size_t>(count) : 0);
  return text.substr(0, text.find('\n'));
}

Status start_daemon(const Locations& locations, const std::string& socket, DaemonInfo* out) {
  if (locations.daemon.empty()) {
    return {ENOENT,
            "no mprdmad runs, and none is installed beside mprdma: build or install it, or use "
            "--host h0 and --host h1 for two processes"};
  }
  const std::string log = socket + ".log";
  const pid_t child = fork();
  if (child < 0) return system_status("cannot start mprdmad", errno);
  if (child == 0) become_daemon(locations, socket, log);
  waitpid(child, nullptr, 0);
  const Time start = clock_now();
  while (query_daemon(socket, out) != 0) {
    if (clock_now() - start >= kStartTakes) {
      return {ETIMEDOUT, "mprdmad does not start: " + first_line(log) + " (" + log + ")"};
    }
    sleep_briefly();
  }
  return {};
}

// Takes the lock that the program which this process becomes holds, and its children: a private
// daemon stays while it is held, also before they have opened the device.
Status hold_users(const std::string& socket) {
  const std::string path = socket + kUsersSuffix;
  const int fd = lock_file(path, LOCK_SH);
  if (fd < 0) return system_status(path, errno);
  int kept = fcntl(fd, F_DUPFD, kUsersDescriptor);
  if (kept < 0) kept = dup(fd);
  const int error = kept < 0 ? errno : 0;
  close(fd);
  if (error != 0) return system_status(path, error);
  return {};
}

Status find_or_start(const Locations& locations, const std::string& runtime_directory,
                     DaemonInfo* out) {
  Status status = dataplane::make_private_directory(runtime_directory);
  if (!status.ok()) return status;
  const std::string own = own_daemon_socket(runtime_directory);
  // The lock comes first: while it is held, a running private daemon does not end.
  status = hold_users(own);
  if (!status.ok() || query_daemon(own, out) == 0) return status;
  if (query_daemon(client::kSystemSocket, out) == 0) return {};
  const int lock = lock_file(own + kStartSuffix, LOCK_EX);
  if (lock < 0) return system_status(own + kStartSuffix, errno);
  if (query_daemon(own, out) != 0) status = start_daemon(locations, own, out);
  close(lock);
  return status;
}

}  // namespace

int connect_daemon(const std::string& socket, int* fd, pid_t* pid) {
  const int error = connect_to(socket, fd);
  if (error != 0) return error;
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(*fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 ||
      !client::is_of_trusted_user(*fd)) {
    close(*fd);
    *fd = -1;
    return EACCES;
  }
  if (pid != nullptr) *pid = peer.pid;
  return 0;
}

int query_daemon(const std::string& socket, DaemonInfo* out) {
  int fd = -1;
  int error = connect_daemon(socket, &fd, &out->pid);
  if (error != 0) return error;
  out->device.socket = socket;
  error = ask(fd, out);
  close(fd);
  return error;
}

std::string own_daemon_socket(const std::string& runtime_directory) {
  return runtime_directory + "/" + client::kSocketName;
}

Status daemon_places(const dataplane::Environment& environment,
                     const std::string& runtime_directory, std::vector<std::string>* out) {
  DaemonWish wish;
  Status status = wants_daemon({}, environment, &wish);
  *out = {wish.socket};
  if (wish.socket.empty()) *out = {own_daemon_socket(runtime_directory), client::kSystemSocket};
  return status;
}

Status find_daemon(const DaemonWish& wish, const Locations& locations,
                   const std::string& runtime_directory, DaemonDevice* out) {
  DaemonInfo info;
  Status status;
  if (wish.socket.empty()) {
    status = find_or_start(locations, runtime_directory, &info);
  } else if (const int refused = query_daemon(wish.socket, &info); refused != 0) {
    status = {refused, fmt::format("no mprdmad answers at {} ({}): start it, or name none",
                                   wish.socket, std::strerror(refused))};
  } else if (wish.socket == own_daemon_socket(runtime_directory)) {
    status = hold_users(wish.socket);
  }
  *out = info.device;
  return status;
}

}  // namespace mprdma::tools
