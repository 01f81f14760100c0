// Waiting for what another thread or process does. The only place where a unit test may sleep: it
// ends as soon as the condition holds, and fails instead of hanging when it never does.
#pragma once

#include <chrono>
#include <thread>

namespace mprdma {

// Evaluates the condition until it holds; false when it did not within the limit, which is
// generous because a loaded machine must not fail a correct program.
//   EXPECT_TRUE(eventually([&] { return port.counters().frames_received == 3; }));
template <class Condition>
bool eventually(Condition&& condition, std::chrono::nanoseconds limit = std::chrono::seconds(10)) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

}  // namespace mprdma
