// One fixed virtual path, drawn when the queue pair connects.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/prng.hpp"
#include "base/units.hpp"
#include "wire/constants.hpp"

namespace mprdma::transport {

class SinglePath {
 public:
  static constexpr std::string_view kName = "single";
  static constexpr bool kClocked = false;

  void reset(uint16_t fixed_vp) { fixed_vp_ = fixed_vp; }
  uint16_t next(Time, Prng&) const { return fixed_vp_; }

 private:
  uint16_t fixed_vp_ = wire::kVirtualPathMin;
};

}  // namespace mprdma::transport
