#include "dataplane/engine/trace_ring.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>

#include "transport/core/trace_text.hpp"

namespace mprdma::dataplane {

namespace {

constexpr mode_t kFileMode = 0600;

int open_file(const std::string& path, int flags) {
  return ::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, kFileMode);
}

// False: not all could be written.
bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    text.remove_prefix(static_cast<size_t>(count));
  }
  return true;
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
  const int fd = open_file(path_, O_CREAT | O_TRUNC);
  if (fd < 0) return system_status("MPRDMA_TRACE=" + path, errno);
  ::close(fd);
  events_.reserve(kEvents);
  text_.reserve(kEvents);
  return {};
}

void TraceRing::on_event(const transport::TraceEvent& event) {
  if (events_.size() < kEvents) {
    events_.push_back(event);
  } else {
    ++lost_;
  }
}

void TraceRing::flush() {
  if (events_.empty() || path_.empty()) return;
  text_.clear();
  std::array<char, transport::kTraceTextBytes> line;
  for (const transport::TraceEvent& event : events_) {
    text_ += transport::trace_text(event, {}, line);
  }
  events_.clear();
  if (lost_ > 0) text_ += "{\"event\":\"events_lost\",\"count\":" + std::to_string(lost_) + "}\n";
  lost_ = 0;
  const int fd = open_file(path_, O_APPEND);
  if (fd < 0) return;  // somebody removed it: the rest of the trace is not wanted
  write_all(fd, text_);
  ::close(fd);
}

}  // namespace mprdma::dataplane
