// The trace of an engine's queue pairs (transport/core/trace.hpp), from MPRDMA_TRACE: a file of
// JSON objects, one on each line (transport/core/trace_text.hpp). Times are the transport's:
// nanoseconds of CLOCK_MONOTONIC, less those for which mprdmad was away.
//
// on_event() copies the event into a ring; flush(), off the path of packets, writes it. Both are
// called with the engine's lock. Events that find the ring full are lost and counted in the file.
// No descriptor stays open: an application that closes all of its descriptors would have ours
// closed, and its next file in its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "transport/core/trace.hpp"

namespace mprdma::dataplane {

class TraceRing : public transport::TraceSink {
 public:
  // What a core makes between two flushes, 10 ms apart, and more.
  static constexpr size_t kEvents = 1 << 16;

  // Makes the file, or empties it. "%p" in `path` is the process's number.
  Status open(const std::string& path);
  // In a child after fork: events are the parent's.
  void abandon() { path_.clear(); }

  void on_event(const transport::TraceEvent& event) override;
  void flush();

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;  // absolute
  std::vector<transport::TraceEvent> events_;
  std::string text_;
  uint64_t lost_ = 0;
};

}  // namespace mprdma::dataplane
