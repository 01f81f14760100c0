// DCQCN with go-back-N, the baseline of the paper's comparisons, in the scenarios of a figure: one
// path for each queue pair, the preset's own marking in the switches.
#pragma once

#include <cstddef>
#include <string>

#include "cc/dcqcn.hpp"
#include "evaluation/batch.hpp"

namespace mprdma::figures {

// The preset's name stands in the variant's. Transport timeout 4.2 ms, as DCQCN's simulators have.
extern const Variant kDcqcn;

// RED of every port that marks: the preset's curve at the port's rate.
void use_marking_of(cc::DcqcnPreset preset, switchsim::Scenario* scenario);

// A scenario file with kDcqcn, its marking, and further changes.
switchsim::Scenario load_dcqcn(const std::string& file, const switchsim::Overrides& overrides = {});

// Paths (of Scenario::paths) that carried payload of any flow.
size_t paths_used(const switchsim::Result& result);
// How many of `paths` get something when each of `flows` draws one.
double paths_expected(size_t flows, size_t paths);
// The chance that it is exactly `used` of them.
double paths_used_chance(size_t flows, size_t paths, size_t used);

}  // namespace mprdma::figures
