// Breakages of a script, one for each value that it expects: a script that holds all the same would
// hold whatever the device does.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/conformance/runner/script.hpp"

namespace mprdma::conformance {

// Scripts that differ from this one in one expected value.
std::vector<Script> mutants_of(const Script& script);

// The step in which a mutant differs.
size_t mutant_step(const Script& script, const Script& mutant);

std::string to_text(const Step& step);

}  // namespace mprdma::conformance
