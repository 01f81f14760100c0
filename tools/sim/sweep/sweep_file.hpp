// A sweep: a scenario, what is varied in it, seeds, and what is told of the results. From a TOML
// file (docs/simulator.md). A *point* is one choice of a value for each [[vary]], the last one
// fastest; a *run* is a point with a seed. Runs are numbered: point * seeds + index of the seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "switchsim/sim/scenario/scenario_toml.hpp"
#include "tools/sim/sweep/measure.hpp"

namespace mprdma::sweep {

// A place in the sweep's file: "sweep.toml:12:3".
using Place = std::string;

// One [[vary]]: keys that change together.
struct Vary {
  std::string name;  // the column of the table
  std::vector<std::string> keys;
  // For each value: its overrides of the scenario, its label in the table, its place in the file.
  std::vector<switchsim::Overrides> overrides;
  std::vector<std::string> labels;
  std::vector<Place> places;
};

struct Sweep {
  std::string name;
  std::string text;
  std::string scenario_path;
  std::string scenario_text;
  switchsim::Overrides set;  // of all points
  std::vector<Vary> varied;
  std::vector<uint64_t> seeds;
  std::vector<Measure> measures;
  std::vector<Place> measure_places;

  [[nodiscard]] size_t points() const;
  [[nodiscard]] size_t runs() const { return points() * seeds.size(); }
  // Index of a point's value in each [[vary]].
  [[nodiscard]] std::vector<size_t> choice_of(size_t point) const;
  [[nodiscard]] switchsim::Overrides overrides_of(size_t point) const;
  [[nodiscard]] size_t point_of_run(size_t run) const { return run / seeds.size(); }
  [[nodiscard]] uint64_t seed_of_run(size_t run) const { return seeds[run % seeds.size()]; }
  // The scenario of a run that check() accepted.
  [[nodiscard]] switchsim::Scenario scenario_of_run(size_t run) const;
  // Depends on the scenario's text, on what is put over it and on the seed, and on nothing else.
  [[nodiscard]] std::string file_of_run(size_t run) const;
};

// Errors begin with file, line and column. load() reads the scenario as well, check() makes every
// point once.
Status load(const std::string& path, Sweep* out);
Status check(const Sweep& sweep);

}  // namespace mprdma::sweep
