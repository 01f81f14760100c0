#include "evaluation/figure.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/revision.hpp"
#include "evaluation/results.hpp"
#include "evaluation/scenario_files.hpp"

namespace mprdma::figures {

namespace {

nlohmann::json claim_json(const Claim& claim) {
  nlohmann::json out = {{"id", claim.id},
                        {"what", claim.what},
                        {"target", claim.target},
                        {"value", nullptr},
                        {"deviation", claim.deviation},
                        {"unit", claim.unit},
                        {"ok", claim.ok()},
                        {"asserted", claim.standing == Standing::kAsserted}};
  if (!claim.target.empty()) out["own_target"] = claim.own_target;
  if (claim.value) out["value"] = *claim.value;
  if (!claim.paper.empty()) out["paper"] = claim.paper;
  if (!claim.reason().empty()) out["reason"] = claim.reason();
  return out;
}

nlohmann::json series_json(const FigureResult& result) {
  nlohmann::json out = nlohmann::json::object();
  for (const Panel& panel : result.panels) {
    for (const Curve& curve : panel.curves) {
      nlohmann::json& one = out[panel.title.empty() ? curve.name : panel.title + ": " + curve.name];
      one = {{"x", curve.x}, {"y", curve.y}, {"xlabel", panel.xlabel}, {"ylabel", panel.ylabel}};
      if (!curve.error.empty()) one["deviation"] = curve.error;
      if (!panel.categories.empty()) one["categories"] = panel.categories;
    }
  }
  return out;
}

nlohmann::json common_constants(const Figure& figure, const RunOptions& options) {
  nlohmann::json out = {{"size", options.ci() ? "ci" : "full"},
                        {"seed", options.seed},
                        {"scenario", figure.scenario}};
  if (const char* text = scenario_file(figure.scenario)) out["scenario_text"] = text;
  return out;
}

}  // namespace

bool holds(double value, const std::string& target) {
  std::istringstream in(target);
  std::string comparison;
  double number = 0;
  if (!(in >> comparison >> number)) return false;
  if (comparison == ">=") return value >= number;
  if (comparison == ">") return value > number;
  if (comparison == "<=") return value <= number;
  if (comparison == "<") return value < number;
  return comparison == "==" && value == number;
}

bool Claim::ok() const {
  if (!value) return false;
  return target.empty() || holds(*value, target);
}

std::string_view Claim::reason() const {
  const bool of_a_miss = note.rfind("missed", 0) == 0;
  return of_a_miss && ok() ? std::string_view() : std::string_view(note);
}

void FigureResult::claim(std::string id, std::string what, std::string target, double value,
                         double deviation, std::string unit) {
  claims.push_back({std::move(id), std::move(what), std::move(target), value, deviation,
                    std::move(unit), Standing::kAsserted, ""});
}

void FigureResult::report(std::string id, std::string what, std::string target, double value,
                          double deviation, std::string unit, std::string note) {
  claims.push_back({std::move(id), std::move(what), std::move(target), value, deviation,
                    std::move(unit), Standing::kReported, std::move(note)});
}

void FigureResult::claim_ours(bool ours, std::string id, std::string what, std::string target,
                              double value, double deviation, std::string unit) {
  claim(std::move(id), std::move(what), std::move(target), value, deviation, std::move(unit));
  if (ours) return;
  claims.back().standing = Standing::kReported;
  claims.back().note = "the paper's letter, to compare";
}

void FigureResult::explain(std::string id, std::string what, std::string target, double value,
                           double deviation, std::string unit, std::string why) {
  const bool met = holds(value, target);
  report(std::move(id), std::move(what), std::move(target), value, deviation, std::move(unit),
         met ? "" : std::move(why));
}

void FigureResult::own_target() {
  claims.back().own_target = true;
}

void FigureResult::own_targets() {
  for (Claim& claim : claims) claim.own_target = !claim.target.empty();
}

void FigureResult::fold(const std::string& id, const std::string& of, const std::string& name) {
  const auto same_as_first = [&](const Claim& claim) {
    if (claim.id.rfind(id + ".", 0) != 0) return false;
    const std::string first = of + claim.id.substr(id.size());
    return std::any_of(claims.begin(), claims.end(), [&](const Claim& other) {
      return other.id == first && other.value == claim.value &&
             other.deviation == claim.deviation && other.target == claim.target &&
             other.standing == claim.standing;
    });
  };
  std::vector<Claim> kept;
  size_t same = 0;
  size_t all = 0;
  for (const Claim& claim : claims) {
    if (claim.id.rfind(id + ".", 0) == 0) ++all;
    if (same_as_first(claim)) {
      ++same;
    } else {
      kept.push_back(claim);
    }
  }
  if (same == 0) return;
  claims = std::move(kept);
  report(id + ".same", name + ": rows left out, those of mp to the last bit", "",
         static_cast<double>(same), 0, "of " + std::to_string(all), "");
}

bool FigureResult::ok() const {
  return std::all_of(claims.begin(), claims.end(), [](const Claim& claim) {
    return claim.ok() || claim.standing == Standing::kReported;
  });
}

std::string Figure::stem() const {
  std::string out = id;
  std::replace(out.begin(), out.end(), '/', '-');
  return out;
}

const Figure* find_figure(const std::string& id) {
  const std::vector<Figure>& all = all_figures();
  const auto found = std::find_if(all.begin(), all.end(), [&id](const Figure& figure) {
    return figure.id == id || figure.id == "mp/" + id;
  });
  return found == all.end() ? nullptr : &*found;
}

std::string no_figure(const std::string& id) {
  if (id == "9" || id == "mp/9") {
    return "figure 9 measures the dataplane, not the simulator: bench/figure9 draws it";
  }
  return "there is no figure " + id + "; see mprdma sim list";
}

nlohmann::json to_json(const Figure& figure, const RunOptions& options,
                       const FigureResult& result) {
  nlohmann::json constants = nlohmann::json::object();
  if (!(*result.constants).empty()) constants = *result.constants;
  constants.update(common_constants(figure, options));
  constants["runs"] = *result.runs;
  nlohmann::json claims = nlohmann::json::array();
  for (const Claim& claim : result.claims) claims.push_back(claim_json(claim));
  return {{"schema", 1},
          {"command", "mprdma sim figure " + figure.id},
          {"revision", revision()},
          {"machine", machine_json()},
          {"figure",
           {{"id", figure.id},
            {"title", figure.title},
            {"paper", figure.paper},
            {"setup", result.setup},
            {"deviations", result.deviations},
            {"seen", result.seen}}},
          {"constants", constants},
          {"claims", claims},
          {"series", series_json(result)}};
}

nlohmann::json partial_json(const Figure& figure, const RunOptions& options,
                            const Interrupted& interrupted) {
  return {{"schema", 1},
          {"command", "mprdma sim figure " + figure.id},
          {"revision", revision()},
          {"machine", machine_json()},
          {"complete", false},
          {"figure", {{"id", figure.id}, {"title", figure.title}, {"paper", figure.paper}}},
          {"constants", common_constants(figure, options)},
          {"claims", nlohmann::json::array()},
          {"runs_planned", interrupted.planned},
          {"runs_complete", (*interrupted.complete).size()},
          {"runs", *interrupted.complete}};
}

nlohmann::json report_json(const RunOptions& options, const std::vector<nlohmann::json>& figures) {
  nlohmann::json claims = nlohmann::json::array();
  nlohmann::json shown = nlohmann::json::array();
  for (const nlohmann::json& figure : figures) {
    for (const nlohmann::json& claim : figure["claims"]) claims.push_back(claim);
    shown.push_back({{"figure", figure["figure"]},
                     {"constants", figure["constants"]},
                     {"processor_s", figure["processor_s"]}});
  }
  return {{"schema", 1},
          {"command", "mprdma sim report"},
          {"revision", revision()},
          {"machine", machine_json()},
          {"constants", {{"size", options.ci() ? "ci" : "full"}, {"seed", options.seed}}},
          {"claims", claims},
          {"figures", shown}};
}

}  // namespace mprdma::figures
