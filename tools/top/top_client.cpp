#include "tools/top/top_client.hpp"

#include <dirent.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "dataplane/sys/clock.hpp"
#include "dataplane/sys/runtime_directory.hpp"

namespace mprdma::tools {

namespace {

using dataplane::TopHead;
using dataplane::TopRecord;

// A longer head or record does not come from an engine.
constexpr uint32_t kPartBytesMax = 4096;
constexpr size_t kAnswerBytesMax = size_t{MPRDMA_ABI_MAX_QPS} * kPartBytesMax;
// A socket younger than this may be bound and not yet listening.
constexpr time_t kYoungSeconds = 2;

bool is_top_socket(const std::string& name) {
  const std::string prefix = dataplane::kTopPrefix;
  const std::string suffix = dataplane::kTopSuffix;
  return name.size() > prefix.size() + suffix.size() && name.starts_with(prefix) &&
         name.ends_with(suffix);
}

std::vector<std::string> list_sockets(const std::string& directory) {
  std::vector<std::string> paths;
  // A user who can write there could show us anything, and have us remove files of ours.
  if (!dataplane::check_private_directory(directory).ok()) return paths;
  DIR* open = opendir(directory.c_str());
  if (open == nullptr) return paths;
  while (const dirent* entry = readdir(open)) {
    if (is_top_socket(entry->d_name)) paths.push_back(directory + "/" + entry->d_name);
  }
  closedir(open);
  std::sort(paths.begin(), paths.end());
  return paths;
}

bool is_our_socket(const std::string& path, struct stat* status) {
  return lstat(path.c_str(), status) == 0 && S_ISSOCK(status->st_mode) &&
         status->st_uid == geteuid();
}

void remove_if_stale(const std::string& path, const struct stat& status) {
  if (std::time(nullptr) - status.st_mtime > kYoungSeconds) unlink(path.c_str());
}

// Connects to an engine; returns a descriptor, or -1.
int connect_to(const std::string& path) {
  struct stat status {};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (!is_our_socket(path, &status) || path.size() >= sizeof(address.sun_path)) return -1;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return fd;
  const int error = errno;
  close(fd);
  if (error == ECONNREFUSED) remove_if_stale(path, status);
  return -1;
}

struct Asked {
  TopProcess process;
  int fd = -1;
  std::string bytes;
  bool done = false;
};

// Replaces control characters: a program's name may contain any bytes, which would upset a terminal
// or JSON.
template <size_t N>
void make_printable(std::array<char, N>& text) {
  for (char& c : text) {
    if (c != '\0' && (c < ' ' || c > '~')) c = '?';
  }
}

uint32_t pid_in(const std::string& path) {
  const size_t name = path.rfind('/') + 1 + std::strlen(dataplane::kTopPrefix);
  return static_cast<uint32_t>(std::strtoul(path.c_str() + name, nullptr, 10));
}

// Reads a piece of the answer. False: nothing more can be read now.
bool take(Asked& asked) {
  char buffer[16384];
  const ssize_t got = recv(asked.fd, buffer, sizeof(buffer), 0);
  if (got > 0) {
    asked.bytes.append(buffer, static_cast<size_t>(got));
    if (asked.bytes.size() > kAnswerBytesMax) asked.done = true;
    return !asked.done;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  asked.done = true;
  if (got == 0) asked.process.answered = parse_answer(asked.bytes, &asked.process);
  return false;
}

void collect(std::vector<Asked>& asked, Duration patience) {
  const Time deadline = dataplane::clock_now() + patience;
  for (;;) {
    std::vector<pollfd> fds;
    std::vector<Asked*> waiting;
    for (Asked& one : asked) {
      if (one.done) continue;
      fds.push_back({one.fd, POLLIN, 0});
      waiting.push_back(&one);
    }
    const Duration left = deadline - dataplane::clock_now();
    if (fds.empty() || left <= Duration::zero()) return;
    const int ready =
        poll(fds.data(), fds.size(), static_cast<int>(left.count_ns() / 1'000'000) + 1);
    if (ready < 0 && errno != EINTR) return;
    for (size_t i = 0; ready > 0 && i < fds.size(); ++i) {
      while (fds[i].revents != 0 && take(*waiting[i])) {
      }
    }
  }
}

}  // namespace

bool parse_answer(const std::string& bytes, TopProcess* out) {
  TopHead head;
  constexpr size_t kFixed = offsetof(TopHead, pid);
  if (bytes.size() < kFixed) return false;
  std::memcpy(static_cast<void*>(&head), bytes.data(), kFixed);
  const bool good = head.magic == dataplane::kTopMagic && head.head_bytes >= kFixed &&
                    head.head_bytes <= kPartBytesMax && head.record_bytes > 0 &&
                    head.record_bytes <= kPartBytesMax && bytes.size() >= head.head_bytes &&
                    (bytes.size() - head.head_bytes) % head.record_bytes == 0;
  if (!good) return false;
  const size_t head_bytes = head.head_bytes;
  const size_t record_bytes = head.record_bytes;
  std::memcpy(static_cast<void*>(&head), bytes.data(), std::min(head_bytes, sizeof(head)));
  head.program.back() = head.device.back() = '\0';
  make_printable(head.program);
  make_printable(head.device);
  out->head = head;
  for (size_t at = head_bytes; at < bytes.size(); at += record_bytes) {
    TopRecord record{};
    std::memcpy(&record, bytes.data() + at, std::min(record_bytes, sizeof(record)));
    out->qps.push_back(record);
  }
  return true;
}

std::vector<TopProcess> read_processes(const std::vector<std::string>& directories,
                                       Duration patience) {
  std::vector<Asked> asked;
  for (const std::string& directory : directories) {
    for (const std::string& path : list_sockets(directory)) {
      Asked one;
      one.fd = connect_to(path);
      if (one.fd < 0) continue;
      one.process.socket = path;
      one.process.head.pid = pid_in(path);
      asked.push_back(std::move(one));
    }
  }
  collect(asked, patience);
  std::vector<TopProcess> processes;
  for (Asked& one : asked) {
    close(one.fd);
    processes.push_back(std::move(one.process));
  }
  return processes;
}

}  // namespace mprdma::tools
