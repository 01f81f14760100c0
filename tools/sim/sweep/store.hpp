// The results of a sweep in a directory: runs/<file_of_run>, one for each run that is through, and
// what is made of them. A file is written beside its place and renamed, so that it is whole or not
// there, however the program ends and whoever else works on the same sweep.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/status.hpp"
#include "switchsim/sim/result/result.hpp"
#include "tools/sim/sweep/sweep_file.hpp"

namespace mprdma::sweep {

Status write_whole(const std::string& path, const std::string& text);

enum class Held : uint8_t {
  kMissing,  // or not a result: it is run
  kHere,
  kOther,  // made by another revision
};

class Store {
 public:
  Store(std::string directory, const Sweep& sweep)
      : directory_(std::move(directory)), sweep_(sweep) {}

  // Makes the directories.
  [[nodiscard]] Status open() const;
  // *result: what the file holds, if it is of this run.
  Held look(size_t run, nlohmann::ordered_json* result) const;
  [[nodiscard]] Status put(size_t run, const switchsim::Scenario& scenario,
                           const switchsim::Result& result) const;
  // Results that are no run of the sweep as it is now: its scenario, values or seeds were others.
  [[nodiscard]] size_t strangers() const;
  [[nodiscard]] std::string path(const std::string& name) const { return directory_ + "/" + name; }

 private:
  [[nodiscard]] std::string path_of(size_t run) const;
  [[nodiscard]] bool same_sizes(const nlohmann::ordered_json& constants, size_t run) const;

  std::string directory_;
  const Sweep& sweep_;
};

}  // namespace mprdma::sweep
