// No congestion control.
#pragma once

#include <string_view>

#include "cc/algorithm.hpp"

namespace mprdma::cc {

class NoLimit : public AlgorithmDefaults {
 public:
  static constexpr std::string_view kName = "none";
  explicit NoLimit(const Setup&) {}
};

}  // namespace mprdma::cc
