// Mean and standard deviation: what every figure says about its seeds. Percentiles of one run.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

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

// The smallest value that a share `p`, 0 to 1, of all values does not exceed; 0 of none.
inline double percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<size_t>(std::ceil(p * static_cast<double>(values.size())));
  return values[std::max<size_t>(rank, 1) - 1];
}

}  // namespace mprdma::figures
