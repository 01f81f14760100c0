// As many packets in flight as a bandwidth-delay product of the network, whatever happens: the flow
// control of IRN (BDP-FC), which no congestion answers. The product is the initial window, as it is
// configured or as the network proves to be.
#pragma once

#include <string_view>

#include "cc/algorithm.hpp"

namespace mprdma::cc {

class FixedWindow : public AlgorithmDefaults {
 public:
  static constexpr std::string_view kName = "fixed";
  explicit FixedWindow(const Setup& setup) : window_(Fixed16::from_int(setup.initial_packets)) {}

  void follow(uint32_t initial_packets, uint32_t) { window_ = Fixed16::from_int(initial_packets); }
  [[nodiscard]] Fixed16 window() const { return window_; }

 private:
  Fixed16 window_;
};

}  // namespace mprdma::cc
