#include "evaluation/mp_rdma/dcqcn.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace mprdma::figures {

using switchsim::Scenario;

const Variant kDcqcn = {
    "DCQCN (dcqcn-paper)", {"transport.preset=\"dcqcn-paper\"", "transport.timeout=10"}, 3};

void use_marking_of(cc::DcqcnPreset preset, Scenario* scenario) {
  for (switchsim::LinkConfig& link : scenario->topology.links) {
    for (switchsim::PortConfig* port : {&link.ab, &link.ba}) {
      if (port->red.kmax_bytes == 0) continue;
      const cc::DcqcnRed red =
          cc::dcqcn_red(cc::dcqcn_constants(preset), port->rate.bits_per_second());
      port->red.kmin_bytes = red.kmin_bytes;
      port->red.kmax_bytes = red.kmax_bytes;
      port->red.pmax_ppm = red.pmax_ppm;
    }
  }
}

Scenario load_dcqcn(const std::string& file, const switchsim::Overrides& overrides) {
  switchsim::Overrides all = kDcqcn.overrides;
  all.insert(all.end(), overrides.begin(), overrides.end());
  Scenario scenario = load(file, all);
  use_marking_of(cc::DcqcnPreset::kPaper, &scenario);
  return scenario;
}

size_t paths_used(const switchsim::Result& result) {
  std::vector<uint64_t> bytes;
  for (const auto& flow : result.flows) {
    bytes.resize(std::max(bytes.size(), flow.path_bytes.size()));
    for (size_t i = 0; i < flow.path_bytes.size(); ++i) bytes[i] += flow.path_bytes[i];
  }
  return bytes.size() - static_cast<size_t>(std::count(bytes.begin(), bytes.end(), 0U));
}

double paths_expected(size_t flows, size_t paths) {
  const auto all = static_cast<double>(paths);
  return all * (1 - std::pow(1 - 1 / all, static_cast<double>(flows)));
}

// The chance that `flows` choose exactly `used` paths: surjections counted by inclusion and
// exclusion, C(paths, used) sum (-1)^i C(used, i) (used - i)^flows.
double paths_used_chance(size_t flows, size_t paths, size_t used) {
  const auto choose = [](size_t n, size_t k) {
    double out = 1;
    for (size_t i = 1; i <= k; ++i) out *= static_cast<double>(n - k + i) / static_cast<double>(i);
    return out;
  };
  const auto count = static_cast<double>(flows);
  double onto = 0;
  for (size_t i = 0; i <= used; ++i) {
    const double term = choose(used, i) * std::pow(static_cast<double>(used - i), count);
    onto += i % 2 == 0 ? term : -term;
  }
  return choose(paths, used) * onto / std::pow(static_cast<double>(paths), count);
}

}  // namespace mprdma::figures
