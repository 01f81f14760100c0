// Parameters of the transport from TOML, for the engine's configuration and for scenarios: the same
// key means the same in both. What a key is called, its range and what is said of a wrong value
// come from the list (transport/core/param_list.hpp).
//
// Whoever includes this compiles the TOML library, as the build's toml_dep says.
#pragma once

#include <toml++/toml.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>

#include "base/status.hpp"
#include "transport/core/param_check.hpp"

namespace mprdma::config {

namespace detail {

using transport::ParamRange;

inline bool parse_value(const toml::node& node, const ParamRange&, bool* out) {
  const auto* value = node.as_boolean();
  if (value != nullptr) *out = value->get();
  return value != nullptr;
}

inline bool parse_value(const toml::node& node, const ParamRange& range, uint32_t* out) {
  const auto* value = node.as_integer();
  if (value == nullptr || value->get() < 0 || value->get() > UINT32_MAX ||
      !in_range(range, static_cast<uint32_t>(value->get()))) {
    return false;
  }
  *out = static_cast<uint32_t>(value->get());
  return true;
}

// A number, whole or not, between the bounds; or zero, where that is allowed.
inline bool read_number(const toml::node& node, const ParamRange& range, double* out) {
  const auto* whole = node.as_integer();
  const auto* real = node.as_floating_point();
  if (whole == nullptr && real == nullptr) return false;
  *out = whole != nullptr ? static_cast<double>(whole->get()) : real->get();
  if (*out == 0 && range.zero_too) return true;
  return *out >= range.low && *out <= range.high;
}

inline bool parse_value(const toml::node& node, const ParamRange& range, Duration* out) {
  double us = 0;
  if (!read_number(node, range, &us)) return false;
  *out = Duration::ns(std::llround(us * 1e3));
  return true;
}

inline bool parse_value(const toml::node& node, const ParamRange& range, Fixed16* out) {
  double value = 0;
  if (!read_number(node, range, &value)) return false;
  *out = Fixed16::from_raw(static_cast<uint32_t>(std::lround(value * Fixed16::kOneRaw)));
  return true;
}

template <class Choice>
requires(std::is_enum_v<Choice>) inline bool parse_value(const toml::node& node, const ParamRange&,
                                                         Choice* out) {
  const auto* value = node.as_string();
  return value != nullptr && transport::parse_word(value->get(), out);
}

}  // namespace detail

// Takes the value over if it is of the right kind and in its range. The text of an error says only
// what the value should be: the caller knows file, line and key.
template <class Type>
Status read_param(const toml::node& node, const transport::Param& param,
                  Type transport::Params::*member, transport::Params* params) {
  const transport::Protocol protocol = params->protocol;
  if (detail::parse_value(node, param.range.in(protocol), &(params->*member))) return {};
  std::array<char, transport::kParamTextBytes> text;
  return {EINVAL, std::string(expected_text(param, protocol, text))};
}

}  // namespace mprdma::config
