// The check of Params: the range of each (param_list.hpp), and relations between two of them. The
// engine's configuration, a queue pair's own parameters and scenarios all pass through it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/fixed_point.hpp"
#include "base/units.hpp"
#include "transport/core/param_visit.hpp"

namespace mprdma::transport {

constexpr bool in_range(const ParamRange& range, uint32_t value) {
  if (value == 0 && range.zero_too) return true;
  return value >= range.low && value <= range.high &&
         (!range.has_to_be_power || (value & (value - 1)) == 0);
}
constexpr bool in_range(const ParamRange& range, Duration value) {
  if (value == Duration::zero() && range.zero_too) return true;
  return value >= Duration::us(range.low) && value <= Duration::us(range.high);
}
constexpr bool in_range(const ParamRange& range, Fixed16 value) {
  return value >= Fixed16::from_int(range.low) && value <= Fixed16::from_int(range.high);
}
constexpr bool in_range(const ParamRange&, bool) {
  return true;
}
template <class Choice>
requires(std::is_enum_v<Choice>) constexpr bool in_range(const ParamRange&, Choice value) {
  return static_cast<size_t>(value) < kWordsOf<Choice>.size();
}

// The first mistake that a check found: its three parts make a sentence about the parameter `key`
// and mostly about another one. Empty: no mistake.
struct ParamFault {
  std::string_view key;
  std::string_view what;
  std::string_view other;  // a key, another word, or empty
};
ParamFault find_fault(const Params& params);

// ---- Text, written into the caller's buffer and cut off at its end.
inline constexpr size_t kParamTextBytes = 256;

// The values that a parameter may have in a mode: "packets, 8..128", `one of "never", "idle"`.
std::string_view expected_text(const Param& param, Protocol protocol, std::span<char> out);

// The value of a parameter as a configuration has it: 128, true, 0.5, a word without quotes. Empty
// if there is no such key.
std::string_view value_text(const Params& params, std::string_view key, std::span<char> out);

}  // namespace mprdma::transport
