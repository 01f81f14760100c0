#include "dataplane/engine/trace_ring.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "transport/core/trace_text.hpp"
#include "wire/print.hpp"

namespace mprdma::dataplane {

namespace {

constexpr size_t kTextBytes = 1 << 16;
constexpr mode_t kFileMode = 0600;

// Returns -1 and sets errno to EINVAL for a pipe or a socket: a reader that is slow or gone would
// hold up the engine, or end the process by SIGPIPE.
int open_file(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | flags, kFileMode);
  if (fd < 0) return fd;
  struct stat status {};
  if (::fstat(fd, &status) == 0 && (S_ISREG(status.st_mode) || S_ISCHR(status.st_mode))) return fd;
  ::close(fd);
  errno = EINVAL;
  return -1;
}

// The bytes written; fewer than asked for after an error.
size_t write_all(int fd, std::string_view text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::write(fd, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

}  // namespace

Status TraceRing::open(const std::string& path) {
  std::string named = path;
  if (const size_t at = named.find("%p"); at != std::string::npos) {
    named.replace(at, 2, std::to_string(getpid()));
  }
  std::error_code error;
  path_ = std::filesystem::absolute(named, error).string();
  if (error) return system_status("MPRDMA_TRACE=" + path, error.value());
  static std::string made;  // by this process; engines are made one at a time
  const int fd = open_file(path_, O_CREAT | (made == path_ ? O_APPEND : O_TRUNC));
  if (fd < 0) return system_status("MPRDMA_TRACE=" + path, errno);
  ::close(fd);
  made = path_;
  events_.reserve(kEvents);
  text_.reserve(kTextBytes);
  return {};
}

void TraceRing::on_event(const transport::TraceEvent& event) {
  if (events_.size() < kEvents) {
    events_.push_back(event);
  } else {
    ++lost_;
  }
}

// Writes the text; false: not all of it, and the lines that are not there whole are counted.
bool TraceRing::write_text(int fd) {
  const std::string_view text = text_;
  const size_t done = write_all(fd, text);
  const std::string_view rest = text.substr(done);
  lost_ += static_cast<uint64_t>(std::count(rest.begin(), rest.end(), '\n'));
  if (done > 0) cut_off_ = text[done - 1] != '\n';
  text_.clear();
  return rest.empty();
}

void TraceRing::put(int fd, std::string_view line) {
  if (text_.size() + line.size() > kTextBytes) write_text(fd);
  text_ += line;
}

void TraceRing::flush() {
  if ((events_.empty() && lost_ == 0) || path_.empty()) return;
  const int fd = open_file(path_, O_APPEND);
  if (fd < 0) {
    if (errno != ENOENT) lost_ += events_.size();  // whoever removed the file wants no more of it
    events_.clear();
    return;
  }
  std::array<char, transport::kTraceTextBytes> line;
  if (cut_off_) put(fd, "\n");
  for (const transport::TraceEvent& event : events_)
    put(fd, transport::trace_text(event, {}, line));
  events_.clear();
  const uint64_t lost = std::exchange(lost_, 0);
  if (lost > 0) {
    wire::TextWriter writer(line);
    put(fd, writer.text("{\"event\":\"events_lost\",\"count\":").dec(lost).text("}\n").view());
  }
  if (!write_text(fd)) lost_ += lost;
  ::close(fd);
}

}  // namespace mprdma::dataplane
