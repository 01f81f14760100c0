#include "tests/swarm/overrides.hpp"

#include <charconv>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "transport/core/param_visit.hpp"

namespace mprdma::swarm {

namespace {

constexpr uint32_t kLinkMbps = 1000;

using transport::Param;
using transport::Params;

bool parse_number(std::string_view text, uint32_t& out) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), out);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

template <class Type>
bool parse_value(const Param& param, std::string_view text, Type& out) {
  if constexpr (std::is_enum_v<Type>) {
    for (size_t i = 0; i < param.words.size(); ++i) {
      if (param.words.begin()[i] != text) continue;
      out = static_cast<Type>(i);
      return true;
    }
    return false;
  } else if constexpr (std::is_same_v<Type, bool>) {
    out = text == "true";
    return out || text == "false";
  } else {
    uint32_t number = 0;
    if (!parse_number(text, number)) return false;
    if constexpr (std::is_same_v<Type, Duration>) {
      out = Duration::us(number);
    } else if constexpr (std::is_same_v<Type, Fixed16>) {
      out = Fixed16::from_int(number);
    } else {
      out = number;
    }
    return true;
  }
}

bool set_param(std::string_view key, std::string_view value, Params& params) {
  bool good = false;
  transport::for_each_param([&](const Param& param, auto member) {
    if (param.key == key) good = parse_value(param, value, params.*member);
  });
  return good;
}

}  // namespace

bool override_param(const std::string& setting, Scenario& scenario) {
  const size_t equals = setting.find('=');
  if (equals == std::string::npos) return false;
  const std::string_view key = std::string_view(setting).substr(0, equals);
  const std::string_view value = std::string_view(setting).substr(equals + 1);
  for (auto& sides : scenario.sides) {
    for (auto& side : sides) {
      Params& params = side.params;
      if (params.protocol == transport::Protocol::kRoce) continue;
      if (!set_param(key, value, params)) return false;
      // The paper's recovery needs ACK clocking, which another draw or override may have replaced.
      const bool clocked = transport::is_clocked(params.path_policy);
      if (params.recovery == transport::Recovery::kPaper && !clocked) {
        params.recovery = transport::Recovery::kMp;
      }
      // A rate controller begins at the rate of the link; a later setting may name another one.
      const bool paced = params.congestion != transport::Congestion::kNone;
      if (paced && params.link_mbps == 0) params.link_mbps = kLinkMbps;
    }
  }
  return true;
}

}  // namespace mprdma::swarm
