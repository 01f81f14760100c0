// A command with its input and output, which are copied, never pointed into.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace mprdma::dataplane {

struct CommandCall {
  uint32_t command;
  const void* in;
  size_t in_bytes;
  void* out;
  size_t out_bytes;
};

// False: the input is missing or too short. Longer input comes from a newer minor version: the rest
// is ignored.
template <class T>
bool read_input(const CommandCall& call, T* out) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (call.in == nullptr || call.in_bytes < sizeof(T)) return false;
  std::memcpy(out, call.in, sizeof(T));
  return true;
}

template <class T>
int write_output(const CommandCall& call, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (call.out == nullptr || call.out_bytes < sizeof(T)) return EINVAL;
  std::memcpy(call.out, &value, sizeof(T));
  return 0;
}

}  // namespace mprdma::dataplane
