// The descriptors of this process.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace mprdma {

// How many are open; only those of files whose name begins so, as "/memfd:" or "socket:".
inline size_t open_descriptors(std::string_view of = {}) {
  size_t count = 0;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with(of)) ++count;
  }
  return count;
}

}  // namespace mprdma
