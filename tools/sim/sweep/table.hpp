// The tables of a sweep: a row for each point, with mean and standard deviation over its seeds of
// each measure. Made of the results that are there; depends on them and on the sweep only.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "evaluation/stats.hpp"
#include "tools/sim/sweep/sweep_file.hpp"

namespace mprdma::sweep {

struct Cell {
  size_t count = 0;  // of the runs that gave a number
  figures::Summary summary;
};

struct Row {
  std::vector<std::string> labels;  // by [[vary]]
  size_t runs = 0;                  // that are there
  size_t unsound = 0;               // of those: broke an invariant, or ended in an error
  std::vector<Cell> cells;          // by measure
};

class Table {
 public:
  explicit Table(const Sweep& sweep) : sweep_(sweep) {}

  // In the order of the runs.
  void add(size_t run, const nlohmann::ordered_json& result);

  [[nodiscard]] std::vector<Row> rows() const;
  [[nodiscard]] size_t runs() const { return runs_; }
  [[nodiscard]] size_t unsound() const { return unsound_; }
  [[nodiscard]] bool complete() const { return runs_ == sweep_.runs(); }
  // An error names the first measure that a result did not have.
  [[nodiscard]] const Status& status() const { return status_; }

  [[nodiscard]] std::string csv() const;
  // A row for each run instead: its settings, seed, errors, measures, and the name of its result.
  [[nodiscard]] std::string runs_csv() const;
  [[nodiscard]] std::string json() const;
  // For people, columns aligned.
  [[nodiscard]] std::string text() const;

 private:
  struct Values {
    size_t runs = 0;
    size_t unsound = 0;
    std::vector<std::vector<double>> of_measure;
  };

  const Sweep& sweep_;
  std::string run_rows_;
  std::vector<Values> points_ = std::vector<Values>(sweep_.points());
  size_t runs_ = 0;
  size_t unsound_ = 0;
  Status status_;
};

}  // namespace mprdma::sweep
