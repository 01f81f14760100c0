// The trace of a simulation's queue pairs (transport/core/trace.hpp) as a file of JSON objects, one
// on each line (transport/core/trace_text.hpp). Times are virtual, in nanoseconds since the
// beginning of the simulation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.hpp"
#include "switchsim/sim/hosts/output_file.hpp"
#include "transport/core/trace.hpp"

namespace mprdma::switchsim {

class TraceFile {
 public:
  // `flow`: index of the only flow to trace; nullopt: all of them.
  Status open(const std::string& path, std::optional<uint32_t> flow);
  // Writes the rest. An error may be of any write since open().
  Status close() { return file_.close(); }

  [[nodiscard]] bool wants(uint32_t flow) const { return !flow_ || *flow_ == flow; }
  [[nodiscard]] uint64_t events() const { return events_; }

  void write(const transport::TraceEvent& event, std::string_view host);

 private:
  std::optional<uint32_t> flow_;
  uint64_t events_ = 0;
  OutputFile file_;
};

// What the queue pairs of one host raise their events to.
class HostTrace final : public transport::TraceSink {
 public:
  HostTrace(TraceFile* file, std::string host) : file_(file), host_(std::move(host)) {}
  void on_event(const transport::TraceEvent& event) override { file_->write(event, host_); }

 private:
  TraceFile* file_;
  std::string host_;
};

}  // namespace mprdma::switchsim
