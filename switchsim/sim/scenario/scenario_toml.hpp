// A scenario from TOML. Strict: an unknown key, a wrong type or a value out of range is an error
// with file, line, key and what was expected. Schema: docs/simulator.md.
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"
#include "switchsim/sim/scenario/scenario.hpp"

namespace mprdma::switchsim {

// "key=value" with a dotted path as in TOML, applied before anything is read:
//   seed=7   transport.preset="mp-paper"   flow[2].transport.reorder_delta=64   link[0].loss=0.01
// A value that is no TOML literal is a string. Arrays of tables are indexed from 0, by [name] or
// all at once by [*].
using Overrides = std::vector<std::string>;

// `path` is what errors call the text. *out is touched by success only.
Status parse_scenario(const std::string& text, const std::string& path, const Overrides& overrides,
                      Scenario* out);
Status load_scenario(const std::string& path, const Overrides& overrides, Scenario* out);

}  // namespace mprdma::switchsim
