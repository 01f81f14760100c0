// Access to the list of parameters: for_each_param() visits every row with its member,
// param_range() finds the range of one. Code that configures the transport or prints its
// configuration goes through these functions, so that a new parameter is one line in
// param_list.hpp.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

#include "transport/core/params.hpp"

namespace mprdma::transport {

enum class Unit : uint8_t { kNone, kPackets, kMicroseconds, kPerMille, kMbps };

// Which configuration decides a parameter when a queue pair asks for another mode than the
// device's.
enum class ParamScope : uint8_t {
  kMode,    // the mode: an algorithm consists of its switches and its numbers
  kDevice,  // the device: times of its network, placement, synchronisation
  kLink,    // the host's link: not in results, and not set by scenarios
};

// How configurations and results write a value.
enum class ParamKind : uint8_t { kFlag, kWhole, kTime, kFixed, kChoice };
template <class Type>
constexpr ParamKind param_kind() {
  if (std::is_same_v<Type, bool>) return ParamKind::kFlag;
  if (std::is_same_v<Type, Duration>) return ParamKind::kTime;
  if (std::is_same_v<Type, Fixed16>) return ParamKind::kFixed;
  return std::is_enum_v<Type> ? ParamKind::kChoice : ParamKind::kWhole;
}

// The values that a parameter may have. Bounds are in its unit; those of a Fixed16 are whole
// numbers.
struct ParamRange {
  Unit unit = Unit::kNone;
  uint32_t low = 0;
  uint32_t high = 0;
  uint32_t high_of_roce = 0;     // replaces `high` in the mode roce; 0: `high` holds there, too
  bool zero_too = false;         // zero is allowed although it lies below `low`
  bool has_to_be_power = false;  // a power of two

  static constexpr ParamRange flag() { return {}; }
  // The range of a choice: any word of kWordsOf its type.
  static constexpr ParamRange choice() { return {}; }
  static constexpr ParamRange packets(uint32_t low, uint32_t high) {
    return {Unit::kPackets, low, high};
  }
  static constexpr ParamRange microseconds(uint32_t low, uint32_t high) {
    return {Unit::kMicroseconds, low, high};
  }
  static constexpr ParamRange per_mille() { return {Unit::kPerMille, 0, 1000}; }
  static constexpr ParamRange mbps(uint32_t low, uint32_t high) { return {Unit::kMbps, low, high}; }
  static constexpr ParamRange number(uint32_t low, uint32_t high) {
    return {Unit::kNone, low, high};
  }

  [[nodiscard]] constexpr ParamRange of_roce(uint32_t other_high) const {
    ParamRange out = *this;
    out.high_of_roce = other_high;
    return out;
  }
  [[nodiscard]] constexpr ParamRange or_zero() const {
    ParamRange out = *this;
    out.zero_too = true;
    return out;
  }
  [[nodiscard]] constexpr ParamRange power_of_two() const {
    ParamRange out = *this;
    out.has_to_be_power = true;
    return out;
  }
  // The range in one mode.
  [[nodiscard]] constexpr ParamRange in(Protocol protocol) const {
    ParamRange out = *this;
    if (protocol == Protocol::kRoce && high_of_roce != 0) out.high = high_of_roce;
    out.high_of_roce = 0;
    return out;
  }
};

// One row of the list, without its member.
struct Param {
  std::string_view key;
  ParamKind kind;
  Words words;  // of a choice
  ParamScope scope;
  ParamRange range;
  std::string_view source;
  std::string_view meaning;
};

// Calls visit(const Param&, Type Params::*) for each row, in the order of the list.
#define MPRDMA_PARAM_VISIT_(type, member, key, initial, scope, range, source, meaning)             \
  visit(Param{key, param_kind<type>(), kWordsOf<type>, ParamScope::scope, range, source, meaning}, \
        &Params::member);
template <class Visitor>
constexpr void for_each_param(Visitor&& visit) {
  using Range = ParamRange;
  MPRDMA_PARAMS(MPRDMA_PARAM_VISIT_)
}

template <class Type>
constexpr ParamRange param_range(Type Params::*member) {
  ParamRange found;
  for_each_param([&](const Param& param, auto each) {
    if constexpr (std::is_same_v<decltype(each), Type Params::*>) {
      if (each == member) found = param.range;
    }
  });
  return found;
}

}  // namespace mprdma::transport
