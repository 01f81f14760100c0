#include "tools/sim/sweep/store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/revision.hpp"
#include "switchsim/sim/result/result_json.hpp"
#include "switchsim/sim/scenario/scenario_json.hpp"

namespace mprdma::sweep {

using nlohmann::ordered_json;

namespace {

constexpr const char* kRuns = "runs";

bool write_all(int fd, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = write(fd, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

}  // namespace

Status write_whole(const std::string& path, const std::string& text) {
  // No other process has the temporary name: O_EXCL holds between hosts that share the directory,
  // too.
  std::string beside;
  int fd = -1;
  for (int i = 0; fd < 0; ++i) {
    beside = fmt::format("{}.{}.{}", path, getpid(), i);
    fd = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno != EEXIST) return system_status(path, errno);
  }
  const bool written = write_all(fd, text);
  const int failure = errno;
  if (close(fd) == 0 && written && std::rename(beside.c_str(), path.c_str()) == 0) return {};
  const int error = written ? errno : failure;
  unlink(beside.c_str());
  return system_status(path, error);
}

std::string Store::path_of(size_t run) const {
  return fmt::format("{}/{}/{}", directory_, kRuns, sweep_.file_of_run(run));
}

Status Store::open() const {
  std::error_code error;
  std::filesystem::create_directories(path(kRuns), error);
  if (!error) return {};
  return {error.value(), fmt::format("{}: {}", path(kRuns), error.message())};
}

// Files beside the scenario may have changed while its text has not.
bool Store::same_sizes(const ordered_json& constants, size_t run) const {
  if (!constants.contains("sizes")) return true;
  return constants["sizes"] == switchsim::sizes_json(sweep_.scenario_of_run(run));
}

Held Store::look(size_t run, ordered_json* result) const {
  std::ifstream file(path_of(run));
  if (!file) return Held::kMissing;
  ordered_json json = ordered_json::parse(file, nullptr, false);
  if (!json.is_object() || !json.contains("constants") || !json["constants"].is_object()) {
    return Held::kMissing;
  }
  const ordered_json& constants = json["constants"];
  const ordered_json overrides = sweep_.overrides_of(sweep_.point_of_run(run));
  const bool ours = constants.value("scenario_text", ordered_json()) == sweep_.scenario_text &&
                    constants.value("overrides", ordered_json()) == overrides &&
                    json.value("seed", ordered_json()) == sweep_.seed_of_run(run) &&
                    same_sizes(constants, run);
  if (!ours) return Held::kMissing;
  if (json.value("revision", std::string()) != revision()) return Held::kOther;
  *result = std::move(json);
  return Held::kHere;
}

Status Store::put(size_t run, const switchsim::Scenario& scenario,
                  const switchsim::Result& result) const {
  const ordered_json json =
      switchsim::to_json(result, scenario, "mprdma sim sweep", revision(), false);
  return write_whole(path_of(run), json.dump(1) + "\n");
}

size_t Store::strangers() const {
  std::set<std::string> known;
  for (size_t run = 0; run < sweep_.runs(); ++run) known.insert(sweep_.file_of_run(run));
  size_t count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path(kRuns), error)) {
    const std::filesystem::path name = entry.path().filename();
    if (name.extension() == ".json" && known.count(name.string()) == 0) ++count;
  }
  return count;
}

}  // namespace mprdma::sweep
