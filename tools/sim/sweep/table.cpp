#include "tools/sim/sweep/table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/revision.hpp"

namespace mprdma::sweep {

namespace {

using nlohmann::ordered_json;

// Prints six digits, as results do.
std::string number(double value) {
  return fmt::format("{:.6g}", value);
}

// Quotes a field of CSV (RFC 4180).
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

ordered_json cell_json(const Cell& cell) {
  if (cell.count == 0) return {{"runs", 0}, {"mean", nullptr}, {"deviation", nullptr}};
  return {{"runs", cell.count},
          {"mean", std::stod(number(cell.summary.mean))},
          {"deviation", std::stod(number(cell.summary.deviation))}};
}

}  // namespace

void Table::add(size_t run, const ordered_json& result) {
  const size_t point = sweep_.point_of_run(run);
  Values& values = points_[point];
  const std::vector<size_t> choice = sweep_.choice_of(point);
  for (size_t i = 0; i < choice.size(); ++i) {
    run_rows_ += csv_field(sweep_.varied[i].labels[choice[i]]) + ",";
  }
  run_rows_ += fmt::format("{},{}", sweep_.seed_of_run(run), result["errors"].size());
  values.of_measure.resize(sweep_.measures.size());
  ++values.runs;
  ++runs_;
  if (!result["errors"].empty()) {
    ++values.unsound;
    ++unsound_;
  }
  for (size_t i = 0; i < sweep_.measures.size(); ++i) {
    std::optional<double> value;
    Status status = evaluate(sweep_.measures[i], result, &value);
    if (status_.ok()) {
      status_ = prefixed(
          fmt::format("{}: [measures] {}: ", sweep_.measure_places[i], sweep_.measures[i].name),
          std::move(status));
    }
    if (value) values.of_measure[i].push_back(*value);
    run_rows_ += value ? "," + number(*value) : ",";
  }
  run_rows_ += "," + csv_field(sweep_.file_of_run(run)) + "\n";
}

std::vector<Row> Table::rows() const {
  std::vector<Row> out;
  for (size_t point = 0; point < points_.size(); ++point) {
    const Values& values = points_[point];
    if (values.runs == 0) continue;
    Row row{.labels = {}, .runs = values.runs, .unsound = values.unsound, .cells = {}};
    const std::vector<size_t> choice = sweep_.choice_of(point);
    for (size_t i = 0; i < choice.size(); ++i) {
      row.labels.push_back(sweep_.varied[i].labels[choice[i]]);
    }
    for (const std::vector<double>& each : values.of_measure) {
      row.cells.push_back({each.size(), figures::summarise(each)});
    }
    out.push_back(std::move(row));
  }
  return out;
}

std::string Table::csv() const {
  std::string out;
  for (const Vary& vary : sweep_.varied) out += csv_field(vary.name) + ",";
  out += "runs,unsound";
  for (const Measure& measure : sweep_.measures) {
    out += fmt::format(",{},{}", csv_field(measure.name), csv_field(measure.name + ".sd"));
  }
  out += "\n";
  for (const Row& row : rows()) {
    for (const std::string& label : row.labels) out += csv_field(label) + ",";
    out += fmt::format("{},{}", row.runs, row.unsound);
    for (const Cell& cell : row.cells) {
      if (cell.count == 0) {
        out += ",,";
      } else {
        out += fmt::format(",{},{}", number(cell.summary.mean), number(cell.summary.deviation));
      }
    }
    out += "\n";
  }
  return out;
}

std::string Table::runs_csv() const {
  std::string out;
  for (const Vary& vary : sweep_.varied) out += csv_field(vary.name) + ",";
  out += "seed,errors";
  for (const Measure& measure : sweep_.measures) out += "," + csv_field(measure.name);
  return out + ",result\n" + run_rows_;
}

std::string Table::json() const {
  ordered_json points = ordered_json::array();
  for (const Row& row : rows()) {
    ordered_json settings = ordered_json::object();
    for (size_t i = 0; i < row.labels.size(); ++i) settings[sweep_.varied[i].name] = row.labels[i];
    ordered_json measures = ordered_json::object();
    for (size_t i = 0; i < row.cells.size(); ++i) {
      measures[sweep_.measures[i].name] = cell_json(row.cells[i]);
    }
    points.push_back({{"settings", std::move(settings)},
                      {"runs", row.runs},
                      {"unsound", row.unsound},
                      {"measures", std::move(measures)}});
  }
  const ordered_json out = {{"schema", 1},
                            {"command", "mprdma sim sweep"},
                            {"revision", revision()},
                            {"machine", nullptr},
                            {"constants",
                             {{"sweep", sweep_.name},
                              {"sweep_text", sweep_.text},
                              {"scenario_text", sweep_.scenario_text},
                              {"seeds", sweep_.seeds}}},
                            {"claims", ordered_json::array()},
                            {"complete", complete()},
                            {"runs", runs_},
                            {"runs_wanted", sweep_.runs()},
                            {"points", std::move(points)}};
  return out.dump(1) + "\n";
}

std::string Table::text() const {
  std::vector<std::vector<std::string>> lines(1);
  for (const Vary& vary : sweep_.varied) lines[0].push_back(vary.name);
  lines[0].emplace_back("runs");
  for (const Measure& measure : sweep_.measures) lines[0].push_back(measure.name);
  for (const Row& row : rows()) {
    std::vector<std::string>& line = lines.emplace_back(row.labels);
    line.push_back(std::to_string(row.runs) + (row.unsound != 0 ? " UNSOUND" : ""));
    for (const Cell& cell : row.cells) {
      line.push_back(cell.count == 0 ? "-"
                                     : fmt::format("{:.5g} +- {:.2g}", cell.summary.mean,
                                                   cell.summary.deviation));
    }
  }
  std::string out;
  for (const std::vector<std::string>& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      size_t width = 0;
      for (const std::vector<std::string>& other : lines) width = std::max(width, other[i].size());
      const bool label = i < sweep_.varied.size();
      out += label ? fmt::format("{:<{}}", line[i], width) : fmt::format("{:>{}}", line[i], width);
      out += i + 1 < line.size() ? "  " : "\n";
    }
  }
  return out;
}

}  // namespace mprdma::sweep
