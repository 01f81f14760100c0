#include "switchsim/sim/hosts/output_file.hpp"

#include <cerrno>

namespace mprdma::switchsim {

namespace {

constexpr size_t kBufferBytes = 1 << 20;

}  // namespace

Status OutputFile::open(const std::string& path) {
  path_ = path;
  file_.reset(std::fopen(path.c_str(), "wb"));
  if (!file_) return system_status(path, errno);
  std::setvbuf(file_.get(), nullptr, _IOFBF, kBufferBytes);
  return {};
}

Status OutputFile::close() {
  if (!file_) return {};
  const bool failed = std::ferror(file_.get()) != 0;
  if (std::fclose(file_.release()) == 0 && !failed) return {};
  return {EIO, path_ + ": not all could be written"};
}

}  // namespace mprdma::switchsim
