// Completion times of messages by their size, and how much longer they took than alone
// (ideal_time.hpp). Of the messages that were posted after the warm-up and are complete.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace mprdma::switchsim {

struct Scenario;
struct Flow;

struct FctClass {
  std::string_view name;
  uint64_t messages = 0;
  double mean_us = 0;
  double p50_us = 0;
  double p99_us = 0;
  double slowdown_mean = 0;
  double slowdown_p99 = 0;
};

struct FctSummary {
  // Below so many bytes a message is small, above so many large.
  static constexpr uint64_t kSmallBytes = 100'000;
  static constexpr uint64_t kLargeBytes = 10'000'000;

  std::array<FctClass, 4> classes;  // all, small, medium, large
  // Posted, or due to be by their time, after the warm-up, and not complete.
  uint64_t unfinished = 0;

  [[nodiscard]] const FctClass& all() const { return classes[0]; }
  [[nodiscard]] const FctClass& small() const { return classes[1]; }
  [[nodiscard]] const FctClass& medium() const { return classes[2]; }
  [[nodiscard]] const FctClass& large() const { return classes[3]; }
};

FctSummary summarise_fct(const Scenario& scenario, std::span<const Flow> flows);

}  // namespace mprdma::switchsim
