// mprdma version: everything that has to match between two installations.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "abi/mprdma_abi.h"
#include "base/revision.hpp"
#include "tools/subcommands.hpp"
#include "wire/constants.hpp"

namespace mprdma::tools {

namespace {

constexpr int kVerbsPrivateAbi = 34;

nlohmann::json version_json() {
  return {{"schema", 1},
          {"command", "mprdma version"},
          {"version", MPRDMA_VERSION},
          {"revision", revision()},
          {"wire_version", wire::kMpVersion},
          {"queue_abi", fmt::format("{}.{}", MPRDMA_ABI_MAJOR, MPRDMA_ABI_MINOR)},
          {"verbs_private_abi", kVerbsPrivateAbi}};
}

}  // namespace

std::string version_line() {
  return fmt::format("mprdma {} ({}), wire version {}, queue ABI {}.{}, rdma-core private ABI {}",
                     MPRDMA_VERSION, revision(), wire::kMpVersion, MPRDMA_ABI_MAJOR,
                     MPRDMA_ABI_MINOR, kVerbsPrivateAbi);
}

void add_version(CLI::App& app, int* exit_code) {
  auto path = std::make_shared<std::string>();
  CLI::App* sub = app.add_subcommand("version", "Print all versions that have to match");
  sub->add_option("--json", *path, "Write them to this file as JSON ('-': standard output)");
  sub->callback([path, exit_code] {
    if (path->empty()) {
      fmt::print("{}\n", version_line());
    } else if (*path == "-") {
      fmt::print("{}\n", version_json().dump(2));
    } else {
      std::ofstream file(*path);
      file << version_json().dump(2) << "\n";
      if (!file.flush()) {
        fmt::print(stderr, "mprdma version: cannot write {}\n", *path);
        *exit_code = 1;
      }
    }
  });
}

}  // namespace mprdma::tools
