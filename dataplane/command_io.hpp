// Input and output of a command: copied, never pointed into.
#pragma once

#include <cerrno>
#include <cstring>
#include <type_traits>

#include "dataplane/commands.hpp"

namespace mprdma::dataplane {

// False: the input is missing or too short. More than we know is a newer minor version: ignored.
template <class T>
bool read_input(const Commands::Call& call, T* out) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (call.in == nullptr || call.in_bytes < sizeof(T)) return false;
  std::memcpy(out, call.in, sizeof(T));
  return true;
}

template <class T>
int write_output(const Commands::Call& call, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (call.out == nullptr || call.out_bytes < sizeof(T)) return EINVAL;
  std::memcpy(call.out, &value, sizeof(T));
  return 0;
}

}  // namespace mprdma::dataplane
