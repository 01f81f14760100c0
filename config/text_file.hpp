// A whole file as text, for configurations. Any thread; no state.
#pragma once

#include <cerrno>
#include <fstream>
#include <ios>
#include <iterator>
#include <string>

#include "base/status.hpp"

namespace mprdma::config {

// Errors begin with the path.
inline Status read_text_file(const std::string& path, std::string* out) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return system_status(path, errno);
  try {
    // The buffer throws past the stream, for example when the path is a directory.
    out->assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  } catch (const std::ios_base::failure& failure) {
    return {EINVAL, path + ": cannot be read (" + failure.what() + ")"};
  }
  if (file.bad()) return {EIO, path + ": cannot be read"};
  return {};
}

}  // namespace mprdma::config
