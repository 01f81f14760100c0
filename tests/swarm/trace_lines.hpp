// The trace of a node's queue pairs as lines of JSON; times are those since the run began, as
// --verbose prints them.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

#include "base/units.hpp"
#include "transport/core/trace_text.hpp"

namespace mprdma::swarm {

class TraceLines final : public transport::TraceSink {
 public:
  TraceLines(std::FILE* file, uint32_t node, Time start)
      : file_(file), host_("n" + std::to_string(node)), start_(start) {}

  void on_event(const transport::TraceEvent& event) override {
    transport::TraceEvent since = event;
    since.now = Time() + (event.now - start_);
    if (!event.until.is_never()) since.until = Time() + (event.until - start_);
    std::array<char, transport::kTraceTextBytes> text;
    const std::string_view line = transport::trace_text(since, host_, text);
    std::fwrite(line.data(), 1, line.size(), file_);
  }

 private:
  std::FILE* file_;
  std::string host_;
  Time start_;
};

}  // namespace mprdma::swarm
