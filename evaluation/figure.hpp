// A figure of a paper, drawn from simulations: what it shows, the runs that it makes, the claims
// that it checks, the curves that it draws and the values that the paper reports.
//
// The registry (all_figures) is the only list of figures: `mprdma sim figure`, `mprdma sim list`,
// the tests in tests/sim and docs/results.md all read it. A figure is a scenario file beside its
// code (evaluation/mp_rdma, evaluation/irn, ...) and variations of it; constants stand in the
// scenario file.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evaluation/json_box.hpp"
#include "evaluation/plot.hpp"
#include "switchsim/sim/scenario/scenario_toml.hpp"
#include "switchsim/sim/simulation.hpp"

namespace mprdma::figures {

// kCi: as small as the claim allows, for a test. kFull: as in the paper's set-up, scaled in time.
enum class Size : uint8_t { kCi, kFull };

struct RunOptions {
  Size size = Size::kFull;
  uint64_t seed = 1;  // of the first run; run i takes seed + i
  uint32_t jobs = 1;  // simulations at once
  // Put over the scenarios of figures of cases (evaluation/cases.hpp), for tests that take
  // away what a claim rests on.
  switchsim::Overrides changes = {};
  // As in switchsim::RunOptions. A figure that is stopped throws Interrupted.
  const std::atomic<bool>* stop = nullptr;
  std::function<void(const switchsim::Progress&)> on_progress;
  [[nodiscard]] bool ci() const { return size == Size::kCi; }
};

struct Interrupted : std::exception {
  [[nodiscard]] const char* what() const noexcept override { return "interrupted"; }
  // Complete runs: what was measured, and of what.
  JsonBox complete;
  size_t planned = 0;
};

// Must a test fail when the claim is missed?
enum class Standing : uint8_t {
  kAsserted,
  kReported,  // shown beside the target: a comparison, or known to be out of reach as stated
};

struct Claim {
  std::string id;      // "11a.loss-1%"
  std::string what;    // "goodput / ceiling at 1 % loss"
  std::string target;  // ">= 0.97": an operator and a number; empty: no target, a value only
  std::optional<double> value;
  double deviation = 0;  // standard deviation over the seeds
  std::string unit;
  Standing standing = Standing::kAsserted;
  std::string note;         // why it is only reported; why there is no value
  bool own_target = false;  // we set the target: the paper states none
  std::string paper = {};   // the paper's own figure for this row: "60 %"; empty: it has none
  [[nodiscard]] bool ok() const;
  // The note, if it is about this outcome: one that begins with "missed" says why a claim is.
  [[nodiscard]] std::string_view reason() const;
};

struct FigureResult {
  std::string setup;       // one paragraph: topology, rates, marking, seeds, times
  std::string deviations;  // one paragraph: what differs from the paper's set-up
  std::string seen;        // what is seen, one sentence: the title of the picture
  JsonBox constants;       // an object
  // All runs: each distinct settings_json(), with the seeds (Batch::claim_sound).
  JsonBox runs;
  std::vector<Claim> claims;
  std::vector<Panel> panels;

  void claim(std::string id, std::string what, std::string target, double value, double deviation,
             std::string unit);
  void report(std::string id, std::string what, std::string target, double value, double deviation,
              std::string unit, std::string note);
  // Asserted of our forms; of the paper's letter shown beside the target.
  void claim_ours(bool ours, std::string id, std::string what, std::string target, double value,
                  double deviation, std::string unit);
  // Beside a target that is not always met; `why` is said only where it is missed.
  void explain(std::string id, std::string what, std::string target, double value, double deviation,
               std::string unit, std::string why);
  // The target of the last claim is ours, or that of every claim so far.
  void own_target();
  void own_targets();
  // The paper's own figure beside the last claim.
  void paper(std::string figure) { claims.back().paper = std::move(figure); }
  // Leaves out each row "ID.REST" whose target, standing and value, to the last bit, are those of
  // the row "OF.REST", and says in a row "ID.same" how many there were.
  void fold(const std::string& id, const std::string& of, const std::string& name);
  // Every asserted claim holds.
  [[nodiscard]] bool ok() const;
};

struct Figure {
  std::string id;        // "mp/11a": the paper, and its number there
  std::string title;     // "Random loss on three of four paths"
  std::string paper;     // what the paper reports
  std::string scenario;  // a file beside the code; empty: none
  std::function<FigureResult(const Figure&, const RunOptions&)> run;

  // "11a": what its claims begin with.
  [[nodiscard]] std::string number() const { return id.substr(id.find('/') + 1); }
  // "mp-11a": what its files are called.
  [[nodiscard]] std::string stem() const;
};

const std::vector<Figure>& all_figures();
// By its id, or by the number alone if it is the MP-RDMA paper's. nullptr: there is none.
const Figure* find_figure(const std::string& id);
// Why there is no figure of that id, for people.
std::string no_figure(const std::string& id);

// "12 >= 10" is true. False for a target that is none.
bool holds(double value, const std::string& target);

// The schema of results that programs read, as the other commands write it.
nlohmann::json to_json(const Figure& figure, const RunOptions& options, const FigureResult& result);
// The results of a figure that was stopped: its complete runs, no claims.
nlohmann::json partial_json(const Figure& figure, const RunOptions& options,
                            const Interrupted& interrupted);
// The JSON of a whole report, from the to_json() of its figures with their `processor_s`: all
// claims in one list, and the constants and the processor time of each figure.
nlohmann::json report_json(const RunOptions& options, const std::vector<nlohmann::json>& figures);

}  // namespace mprdma::figures
