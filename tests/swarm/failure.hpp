// A finding of the swarm: thrown by any checker, caught once per seed, printed with the command
// line that replays it.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

namespace mprdma::swarm {

struct Failure {
  std::string what;
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure{fmt::format(format, std::forward<Args>(args)...)};
}

// Throws unless `holds`; the message is built only then.
template <class... Args>
void expect(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) fail(format, std::forward<Args>(args)...);
}

}  // namespace mprdma::swarm
