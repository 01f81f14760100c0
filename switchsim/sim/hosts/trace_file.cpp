#include "switchsim/sim/hosts/trace_file.hpp"

#include <array>
#include <cerrno>

#include "transport/core/trace_text.hpp"

namespace mprdma::switchsim {

namespace {

constexpr size_t kTraceBufferBytes = 1 << 20;

}  // namespace

Status TraceFile::open(const std::string& path, std::optional<uint32_t> flow) {
  path_ = path;
  flow_ = flow;
  events_ = 0;
  file_.reset(std::fopen(path.c_str(), "wb"));
  if (!file_) return system_status(path, errno);
  std::setvbuf(file_.get(), nullptr, _IOFBF, kTraceBufferBytes);
  return {};
}

void TraceFile::write(const transport::TraceEvent& event, std::string_view host) {
  std::array<char, transport::kTraceTextBytes> text;
  const std::string_view line = transport::trace_text(event, host, text);
  std::fwrite(line.data(), 1, line.size(), file_.get());  // close() tells of errors
  ++events_;
}

Status TraceFile::close() {
  if (!file_) return {};
  const bool failed = std::ferror(file_.get()) != 0;
  if (std::fclose(file_.release()) == 0 && !failed) return {};
  return {EIO, path_ + ": not all could be written"};
}

}  // namespace mprdma::switchsim
