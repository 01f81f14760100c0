// Mean and standard deviation: what every figure says about its seeds.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>

namespace mprdma::figures {

struct Summary {
  double mean = 0;
  double deviation = 0;  // of the sample; 0 for one value
  double least = 0;
  double most = 0;
};

inline Summary summarise(std::span<const double> values) {
  Summary out;
  if (values.empty()) return out;
  out.least = out.most = values[0];
  double sum = 0;
  for (const double v : values) {
    sum += v;
    out.least = std::fmin(out.least, v);
    out.most = std::fmax(out.most, v);
  }
  out.mean = sum / static_cast<double>(values.size());
  double squares = 0;
  for (const double v : values) squares += (v - out.mean) * (v - out.mean);
  if (values.size() > 1) {
    out.deviation = std::sqrt(squares / static_cast<double>(values.size() - 1));
  }
  return out;
}

}  // namespace mprdma::figures
