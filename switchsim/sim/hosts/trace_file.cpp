#include "switchsim/sim/hosts/trace_file.hpp"

#include <array>

#include "transport/core/trace_text.hpp"

namespace mprdma::switchsim {

Status TraceFile::open(const std::string& path, std::optional<uint32_t> flow) {
  flow_ = flow;
  events_ = 0;
  return file_.open(path);
}

void TraceFile::write(const transport::TraceEvent& event, std::string_view host) {
  std::array<char, transport::kTraceTextBytes> text;
  const std::string_view line = transport::trace_text(event, host, text);
  file_.write(line.data(), line.size());
  ++events_;
}

}  // namespace mprdma::switchsim
