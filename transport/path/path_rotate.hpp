// Round robin over eight paths that are drawn when the connection begins: spraying that bounds the
// number of entries of a connection in the switches' flow tables.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/prng.hpp"
#include "base/units.hpp"
#include "transport/path/random_path.hpp"

namespace mprdma::transport {

class RotatedPaths {
 public:
  static constexpr std::string_view kName = "rotate";
  static constexpr bool kClocked = false;

  void reset(uint16_t) { used_ = 0; }
  uint16_t next(Time, Prng& prng) {
    uint16_t& path = paths_[used_ % paths_.size()];
    if (used_ < paths_.size()) path = random_path(prng);
    ++used_;
    return path;
  }

 private:
  std::array<uint16_t, 8> paths_{};
  uint64_t used_ = 0;
};

}  // namespace mprdma::transport
