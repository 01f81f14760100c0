// Checks of numbers on the command line. CLI11's own checks take "nan" for a number of every range,
// and "-1" for a large one where the option is unsigned; these say what was expected.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <string>

namespace mprdma::tools {

// Simulations at once: each is a thread.
inline constexpr uint32_t kJobsMax = 1024;

// The whole text is a decimal number from low to high.
template <typename T>
bool is_number_in(const std::string& text, T low, T high) {
  T number{};
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  // NaN compares false, so that it is in no range.
  return parsed.ec == std::errc{} && parsed.ptr == end && number >= low && number <= high;
}

template <typename T>
CLI::Validator checked_number(T low, T high, const std::string& what) {
  const std::string expected = fmt::format("{} in {}..{}", what, low, high);
  return {[=](const std::string& text) {
            return is_number_in(text, low, high) ? "" : text + ": expected " + expected;
          },
          ""};
}

// `what` it is, with its unit: "a number of seconds", "a number of probes".
inline CLI::Validator number_in(double low, double high, const std::string& what) {
  return checked_number<double>(low, high, what);
}

inline CLI::Validator whole_number_in(uint64_t low, uint64_t high, const std::string& what) {
  return checked_number<uint64_t>(low, high, what);
}

}  // namespace mprdma::tools
