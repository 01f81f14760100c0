// mprdma doctor: one line for each check, with a remedy where one is needed.
#include "tools/doctor/doctor_checks.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/revision.hpp"
#include "evaluation/results.hpp"
#include "tools/doctor/path_probe.hpp"
#include "tools/number_option.hpp"
#include "tools/running_fabrics.hpp"
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

// Writes the checks in the schema of docs/testing.md, one claim each.
nlohmann::json to_json(const std::vector<Finding>& findings,
                       const nlohmann::json& series = nlohmann::json::object()) {
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
          {"series", series}};
}

bool write_json(const std::string& path, const std::vector<Finding>& findings,
                const nlohmann::json& series = nlohmann::json::object()) {
  if (path.empty()) return true;
  return write_result("mprdma doctor", path, to_json(findings, series).dump(2) + "\n");
}

size_t count_failed(const std::vector<Finding>& findings) {
  return static_cast<size_t>(std::count_if(findings.begin(), findings.end(), [](const Finding& f) {
    return f.health == Health::kFail;
  }));
}

int examine(const std::string& json_path) {
  std::vector<Finding> findings = check_libraries();
  for (Finding& finding : check_machine()) findings.push_back(std::move(finding));
  for (const Finding& finding : findings) print(finding);
  const size_t failed = count_failed(findings);
  if (failed > 0) {
    fmt::print("\n{} of {} checks failed: mprdma does not work here yet.\n", failed,
               findings.size());
  } else {
    fmt::print("\nReady. Try: mprdma run -- ibv_devinfo\n");
  }
  return write_json(json_path, findings) && failed == 0 ? 0 : 1;
}

void print(const std::vector<PortRow>& rows) {
  fmt::print("\nsource port  answered  least us  median us  hops there  hops back\n");
  for (const PortRow& row : rows) {
    const std::string answered = fmt::format("{}/{}", row.answered, row.sent);
    if (row.answered == 0) {
      fmt::print("{:>11}  {:>8}\n", row.port, answered);
      continue;
    }
    fmt::print("{:>11}  {:>8}  {:>8.1f}  {:>9.1f}  {:>10}  {:>9}\n", row.port, answered,
               static_cast<double>(row.rtt_min_ns) / 1000,
               static_cast<double>(row.rtt_median_ns) / 1000, row.hops_there, row.hops_back);
  }
}

nlohmann::json to_series(const std::vector<PortRow>& rows) {
  nlohmann::json ports = nlohmann::json::array();
  for (const PortRow& row : rows) {
    ports.push_back({{"port", row.port},
                     {"sent", row.sent},
                     {"answered", row.answered},
                     {"rtt_min_ns", row.rtt_min_ns},
                     {"rtt_median_ns", row.rtt_median_ns},
                     {"hops_there", row.hops_there},
                     {"hops_back", row.hops_back}});
  }
  return {{"path.ports", ports}};
}

int examine_path(PathOptions options, const std::string& json_path) {
  const auto environment = [](const char* name) { return std::getenv(name); };
  options.runtime_directory = runtime_directory(environment, geteuid());
  PathMeasured measured;
  const Status status = measure_path(options, &measured);
  std::vector<Finding> findings;
  if (status.ok()) {
    findings = judge_path(measured);
  } else {
    findings.push_back(
        {"path.daemon", "the path could not be looked at", Health::kFail, status.text, ""});
  }
  const std::vector<PortRow> rows = port_rows(measured);
  for (const Finding& finding : findings) print(finding);
  const bool any =
      std::any_of(rows.begin(), rows.end(), [](const PortRow& row) { return row.answered > 0; });
  if (any) print(rows);
  return write_json(json_path, findings, to_series(rows)) && count_failed(findings) == 0 ? 0 : 1;
}

}  // namespace

void add_doctor(CLI::App& app, int* exit_code) {
  auto path = std::make_shared<std::string>();
  auto devices = std::make_shared<bool>(false);
  CLI::App* sub =
      app.add_subcommand("doctor", "Say what this machine can run, and how to repair it");
  sub->add_option("--json", *path, "Write the findings to this file as well");
  sub->add_flag("--devices", *devices, "Only print the names of all verbs devices");
  auto peer = std::make_shared<PathOptions>();
  CLI::Option* wanted = sub->add_option("--path", peer->peer,
                                        "Look at the network to this peer's address instead, "
                                        "through mprdmad");
  sub->add_option("--ports", peer->ports, "UDP source ports to try (default: 16)")
      ->needs(wanted)
      ->check(whole_number_in(1, kPathPortsMax, "a number of ports"));
  sub->add_option("--probes", peer->probes, "Probes on each of them (default: 5)")
      ->needs(wanted)
      ->check(whole_number_in(1, kPathProbesMax, "a number of probes"));
  sub->add_option("--socket", peer->socket, "The socket of the mprdmad that asks")->needs(wanted);
  sub->callback([path, devices, peer, exit_code] {
    if (*devices) {
      *exit_code = print_devices();
    } else {
      *exit_code = peer->peer.empty() ? examine(*path) : examine_path(*peer, *path);
    }
  });
}

}  // namespace mprdma::tools
