// Runs every script of a directory in each of its modes. Each is a test of its own, found at run
// time and named for its file: `--gtest_filter=mp.ghost_ack`.
//
//   conformance DIRECTORY [--json FILE] [GoogleTest's options]
//
// --json writes a claim for each (docs/testing.md).
//
// known_failures.txt of the directory lists what is known to be wrong, `mode/script why` on a line:
// such a script has to fail, and it has to leave the list when it does not.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/revision.hpp"
#include "evaluation/results.hpp"
#include "tests/conformance/runner/mutate.hpp"
#include "tests/conformance/runner/runner.hpp"
#include "tests/conformance/runner/script.hpp"

namespace mprdma::conformance {
namespace {

using KnownFailures = std::map<std::string, std::string>;

KnownFailures read_known_failures(const std::filesystem::path& path) {
  KnownFailures known;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::string why;
    if (!(words >> name) || name[0] == '#') continue;
    std::getline(words >> std::ws, why);
    known[name] = why;
  }
  return known;
}

class ScriptTest : public testing::Test {
 public:
  ScriptTest(const Script& script, const std::string& mode, bool known_to_fail)
      : script_(script), mode_(mode), known_to_fail_(known_to_fail) {}

  void TestBody() override {
    try {
      Runner(script_, mode_of(mode_)).run();
    } catch (const ScriptFailure& failure) {
      if (known_to_fail_) return;
      ADD_FAILURE_AT(script_.path.c_str(), failure.line()) << failure.what();
      return;
    }
    EXPECT_FALSE(known_to_fail_) << "passes: it does not belong in known_failures.txt any more";
    // A script that no change of a value can break protects no rule.
    for (const Script& mutant : mutants_of(script_)) {
      const Step& changed = mutant.steps.at(mutant_step(script_, mutant));
      EXPECT_THROW(Runner(mutant, mode_of(mode_)).run(), ScriptFailure)
          << script_.path << ":" << changed.line << ": holds as well with " << to_text(changed);
    }
  }

 private:
  const Script& script_;
  std::string mode_;
  bool known_to_fail_;
};

// The test of a script that cannot be read: it fails.
class BrokenScript : public testing::Test {
 public:
  BrokenScript(const std::string& path, const ScriptFailure& failure)
      : path_(path), failure_(failure) {}
  void TestBody() override { ADD_FAILURE_AT(path_.c_str(), failure_.line()) << failure_.what(); }

 private:
  std::string path_;
  ScriptFailure failure_;
};

// One claim for each test that ran.
class Claims : public testing::EmptyTestEventListener {
 public:
  void OnTestEnd(const testing::TestInfo& info) override {
    const std::string name = std::string(info.test_suite_name()) + "." + info.name();
    const bool ok = info.result()->Passed();
    claims_.push_back({{"id", "conformance." + name},
                       {"what", rules[info.name()]},
                       {"target", "holds"},
                       {"value", ok ? 1 : 0},
                       {"unit", ""},
                       {"ok", ok}});
  }
  [[nodiscard]] std::string text() const {
    const nlohmann::json all = {{"schema", 1},
                                {"command", "conformance"},
                                {"revision", revision()},
                                {"machine", machine_json()},
                                {"constants", nlohmann::json::object()},
                                {"claims", claims_},
                                {"series", nlohmann::json::object()}};
    return all.dump(2) + "\n";
  }

  std::map<std::string, std::string> rules;  // rule of each script

 private:
  nlohmann::json claims_ = nlohmann::json::array();
};

void add(const std::string& suite, const std::string& name, const std::string& path,
         const std::function<testing::Test*()>& make) {
  testing::RegisterTest(suite.c_str(), name.c_str(), nullptr, nullptr, path.c_str(), 1, make);
}

void add_script(const std::string& path, KnownFailures& known,
                std::vector<std::unique_ptr<Script>>& scripts) {
  const std::string name = std::filesystem::path(path).stem().string();
  try {
    scripts.push_back(std::make_unique<Script>(read_script(path)));
  } catch (const ScriptFailure& failure) {
    add("broken", name, path, [path, failure] { return new BrokenScript(path, failure); });
    return;
  }
  const Script& script = *scripts.back();
  for (const std::string& mode : script.modes) {
    const bool known_to_fail = known.erase(mode + "/" + name) > 0;
    add(mode, name, path,
        [&script, mode, known_to_fail] { return new ScriptTest(script, mode, known_to_fail); });
  }
}

// Exit status 2: nothing was run.
int run(const std::filesystem::path& directory, const std::string& json_path) {
  std::vector<std::string> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".script") paths.push_back(entry->path().string());
  }
  if (error || paths.empty()) {
    std::cerr << "conformance: no scripts in " << directory << (error ? ": " + error.message() : "")
              << '\n';
    return 2;
  }
  std::ranges::sort(paths);
  KnownFailures known = read_known_failures(directory / "known_failures.txt");
  std::vector<std::unique_ptr<Script>> scripts;
  for (const std::string& path : paths) add_script(path, known, scripts);
  for (const auto& [name, why] : known) {
    std::cerr << "known_failures.txt: there is no script " << name << '\n';
  }
  auto* claims = new Claims;  // GoogleTest owns it, as every listener
  for (const auto& script : scripts) claims->rules[script->name] = script->rule;
  testing::UnitTest::GetInstance()->listeners().Append(claims);
  const bool passed = RUN_ALL_TESTS() == 0;
  const bool written = json_path.empty() || write_result("conformance", json_path, claims->text());
  return passed && known.empty() && written ? 0 : 1;
}

}  // namespace
}  // namespace mprdma::conformance

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool json = arguments.size() == 3 && arguments[1] == "--json";
  if (arguments.size() != 1 && !json) {
    std::cerr << "usage: conformance DIRECTORY [--json FILE]\n";
    return 2;
  }
  return mprdma::conformance::run(arguments[0], json ? arguments[2] : "");
}
