// The trace of an engine's queue pairs (transport/core/trace.hpp), from MPRDMA_TRACE: a file of
// JSON objects, one on each line (transport/core/trace_text.hpp). Times are the transport's:
// nanoseconds of CLOCK_MONOTONIC, less those for which mprdmad was away.
//
// on_event() copies the event into a ring; flush(), which the service calls every 10 ms, writes it.
// Both are called with the engine's lock, so polls wait during a flush, and neither allocates. The
// file counts events that found the ring full or could not be written.
// No descriptor stays open: an application that closes all of its descriptors would close ours too,
// and our next write could go to whatever file got its number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "transport/core/trace.hpp"

namespace mprdma::dataplane {

class TraceRing final : public transport::TraceSink {
 public:
  // What a core makes between two flushes, 10 ms apart, and more.
  static constexpr size_t kEvents = 1 << 16;

  // Makes the file, or empties it; the next engine of the process goes on with it. "%p" in `path`
  // is the process's number.
  Status open(const std::string& path);
  // In a child after fork: events are the parent's.
  void abandon() { path_.clear(); }

  void on_event(const transport::TraceEvent& event) override;
  void flush();

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void put(int fd, std::string_view line);
  bool write_text(int fd);

  std::string path_;  // absolute
  std::vector<transport::TraceEvent> events_;
  std::string text_;      // what is written at once
  uint64_t lost_ = 0;     // events that are not in the file
  bool cut_off_ = false;  // the file ends within a line
};

}  // namespace mprdma::dataplane
