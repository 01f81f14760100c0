// The text of a file that somebody wrote: a scenario, a sweep, a distribution of sizes.
#pragma once

#include <cstddef>
#include <string>

#include "base/status.hpp"

namespace mprdma::switchsim {

// No file that is written by hand is larger.
inline constexpr size_t kTextFileBytesMax = size_t{8} << 20;

// Errors read "PATH: cannot be read: No such file or directory". Only a regular file of at most
// kTextFileBytesMax is read: a device may have no end, and a pipe nobody who writes.
Status read_file(const std::string& path, std::string* out);

}  // namespace mprdma::switchsim
