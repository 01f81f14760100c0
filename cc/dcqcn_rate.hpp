// DCQCN (dcqcn.hpp) as the rate controller of a connection, with the constants of a preset.
#pragma once

#include <cstdint>
#include <string_view>

#include "cc/algorithm.hpp"
#include "cc/dcqcn.hpp"

namespace mprdma::cc {

// Its timer is no deadline: it is served with the next packet, and nothing depends on the rate
// before.
template <DcqcnPreset kPreset>
class DcqcnRate : public AlgorithmDefaults {
 public:
  static constexpr std::string_view kName = dcqcn_constants(kPreset).name;
  static constexpr Duration kCnpInterval = dcqcn_constants(kPreset).cnp_interval;

  explicit DcqcnRate(const Setup& setup) : link_bps_(setup.link_bps) { reset(); }

  void reset() { dcqcn_.reset(dcqcn_constants(kPreset), link_bps_); }
  void on_cnp(Time now) { dcqcn_.on_cnp(now); }
  void on_sent(Time now, uint32_t bytes) {
    dcqcn_.on_time(now);
    dcqcn_.on_bytes(bytes);
  }
  [[nodiscard]] uint64_t rate_bps() const { return dcqcn_.limited() ? dcqcn_.rate_bps() : kNoRate; }

 private:
  uint64_t link_bps_;
  Dcqcn dcqcn_;
};

using DcqcnPaper = DcqcnRate<DcqcnPreset::kPaper>;
using DcqcnTuned = DcqcnRate<DcqcnPreset::kTuned>;

}  // namespace mprdma::cc
