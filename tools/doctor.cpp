// mprdma doctor: one line for each check, with a remedy where one is needed.
#include "tools/doctor.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/revision.hpp"
#include "tools/results.hpp"
#include "tools/subcommands.hpp"

namespace mprdma::tools {

namespace {

const char* text_of(Health health) {
  switch (health) {
    case Health::kOk:
      return "OK";
    case Health::kWarn:
      return "WARN";
    case Health::kFail:
      return "FAIL";
  }
  return "?";
}

void print(const Finding& finding) {
  fmt::print("{:4}  {}: {}\n", text_of(finding.health), finding.what, finding.detail);
  if (!finding.remedy.empty()) fmt::print("      -> {}\n", finding.remedy);
}

// The schema of docs/testing.md: a claim for each check.
nlohmann::json to_json(const std::vector<Finding>& findings) {
  nlohmann::json claims = nlohmann::json::array();
  for (const Finding& finding : findings) {
    claims.push_back({{"id", "doctor." + finding.id},
                      {"what", finding.what},
                      {"target", "not FAIL"},
                      {"value", text_of(finding.health)},
                      {"unit", ""},
                      {"ok", finding.health != Health::kFail},
                      {"detail", finding.detail},
                      {"remedy", finding.remedy}});
  }
  return {{"schema", 1},
          {"command", "mprdma doctor"},
          {"revision", revision()},
          {"machine", machine_json()},
          {"constants", nlohmann::json::object()},
          {"claims", claims},
          {"series", nlohmann::json::object()}};
}

bool write_json(const std::string& path, const std::vector<Finding>& findings) {
  if (path.empty()) return true;
  return write_result("mprdma doctor", path, to_json(findings).dump(2) + "\n");
}

int examine(const std::string& json_path) {
  std::vector<Finding> findings = check_libraries();
  for (Finding& finding : check_machine()) findings.push_back(std::move(finding));
  for (const Finding& finding : findings) print(finding);
  const auto failed = std::count_if(findings.begin(), findings.end(),
                                    [](const Finding& f) { return f.health == Health::kFail; });
  if (failed > 0) {
    fmt::print("\n{} of {} checks failed: mprdma does not work here yet.\n", failed,
               findings.size());
  } else {
    fmt::print("\nReady. Try: mprdma run -- ibv_devinfo\n");
  }
  return write_json(json_path, findings) && failed == 0 ? 0 : 1;
}

}  // namespace

void add_doctor(CLI::App& app, int* exit_code) {
  auto path = std::make_shared<std::string>();
  auto devices = std::make_shared<bool>(false);
  CLI::App* sub = app.add_subcommand("doctor", "Say what this machine can run, and how to mend it");
  sub->add_option("--json", *path, "Write the findings to this file as well");
  sub->add_flag("--devices", *devices, "Only print the names of all verbs devices");
  sub->callback(
      [path, devices, exit_code] { *exit_code = *devices ? print_devices() : examine(*path); });
}

}  // namespace mprdma::tools
