// A panel with a bar for each case of a figure.
#pragma once

#include <string>

#include "evaluation/figure.hpp"
#include "evaluation/stats.hpp"

namespace mprdma::figures {

class Bars {
 public:
  explicit Bars(const std::string& axis) : panel_{"", "", axis, {}} {}

  // The bar of `value`, relative to `whole`.
  void add(const std::string& name, const Summary& value, double whole) {
    panel_.categories.push_back(name);
    curve_.x.push_back(static_cast<double>(curve_.x.size()));
    curve_.y.push_back(value.mean / whole);
    curve_.error.push_back(value.deviation / whole);
  }
  [[nodiscard]] Panel panel() const {
    Panel out = panel_;
    out.curves.push_back(curve_);
    return out;
  }

 private:
  Panel panel_;
  Curve curve_{"", {}, {}, {}, Stroke::kBars, 0};
};

}  // namespace mprdma::figures
