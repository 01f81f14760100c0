// mprdma sim sweep: a scenario with every combination of some values and seeds, on all processors.
// Runs whose results exist are not repeated.
#include "tools/sim/sweep.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <memory>
#include <mutex>
#include <string_view>

#include "base/revision.hpp"
#include "switchsim/sim/simulation.hpp"
#include "tools/interrupt.hpp"
#include "tools/number_option.hpp"
#include "tools/progress_bar.hpp"
#include "tools/sim/sweep/store.hpp"
#include "tools/sim/sweep/sweep_file.hpp"
#include "tools/sim/sweep/table.hpp"
#include "tools/subcommands.hpp"

namespace mprdma::tools {

namespace {

using sweep::Held;
using sweep::Store;
using sweep::Sweep;
using switchsim::Result;

constexpr uint64_t kShardsMax = 1'000'000;

struct Arguments {
  std::string file;
  std::string out;
  std::string shard = "1/1";
  uint32_t jobs = 0;
  bool redo = false;
};

// Run r belongs to shard r % count + 1.
struct Shard {
  uint64_t number = 1;
  uint64_t count = 1;
};

bool parse_shard(const std::string& text, Shard* out) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return false;
  const std::string number = text.substr(0, slash);
  const std::string count = text.substr(slash + 1);
  if (!is_number_in<uint64_t>(count, 1, kShardsMax)) return false;
  out->count = std::stoull(count);
  if (!is_number_in<uint64_t>(number, 1, out->count)) return false;
  out->number = std::stoull(number);
  return true;
}

int print_message(const std::string& what, int code) {
  fmt::print(stderr, "mprdma sim sweep: {}\n", what);
  return code;
}

// Existing results, and the runs that this process must do.
struct Plan {
  size_t here = 0;
  size_t other = 0;  // made by another revision
  std::vector<size_t> todo;
};

Plan make_plan(const Sweep& sweep, const Store& store, const Shard& shard) {
  Plan plan;
  nlohmann::ordered_json result;
  for (size_t run = 0; run < sweep.runs(); ++run) {
    const Held held = store.look(run, &result);
    if (held == Held::kHere) ++plan.here;
    if (held == Held::kOther) ++plan.other;
    if (held != Held::kHere && run % shard.count == shard.number - 1) plan.todo.push_back(run);
  }
  return plan;
}

// An error is one of writing a result.
Status do_runs(const Sweep& sweep, const Store& store, const std::vector<size_t>& todo,
               unsigned jobs, const Interruptible& interruptible) {
  ProgressBar bar;
  std::mutex mutex;
  Status first_error;
  std::atomic<bool> stop = false;
  switchsim::RunOptions options;
  options.stop = &stop;
  options.on_progress = [&](const switchsim::Progress& progress) {
    if (interruptible.stopped()) stop = true;
    bar.show(progress);
  };
  switchsim::simulate_each(
      todo.size(), [&](size_t i) { return sweep.scenario_of_run(todo[i]); },
      [&](size_t i, Result&& result) {
        if (!result.complete) return;  // interrupted: the next sweep repeats it
        Status status = store.put(todo[i], sweep.scenario_of_run(todo[i]), result);
        const std::lock_guard lock(mutex);
        if (!status.ok()) stop = true;
        if (first_error.ok()) first_error = std::move(status);
      },
      jobs, options);
  return first_error;
}

// Writes the table from all existing results, other shards' included.
int write_tables(const Sweep& sweep, const Store& store) {
  sweep::Table table(sweep);
  nlohmann::ordered_json result;
  for (size_t run = 0; run < sweep.runs(); ++run) {
    if (store.look(run, &result) == Held::kHere) table.add(run, result);
  }
  fmt::print("{}", table.text());
  fmt::print("{} of {} runs are there; {}, {}, {}\n", table.runs(), sweep.runs(),
             store.path("runs.csv"), store.path("summary.csv"), store.path("summary.json"));
  for (const auto& [name, text] :
       {std::pair{"runs.csv", table.runs_csv()}, std::pair{"summary.csv", table.csv()},
        std::pair{"summary.json", table.json()}}) {
    const Status status = sweep::write_whole(store.path(name), text);
    if (!status.ok()) return print_message(status.text, kExitFailed);
  }
  if (!table.status().ok()) return print_message(table.status().text, kExitFailed);
  if (table.unsound() == 0) return 0;
  return print_message(fmt::format("{} runs are not sound", table.unsound()), kExitFailed);
}

int run_sweep(const Arguments& arguments) {
  Sweep sweep;
  Status status = sweep::load(arguments.file, &sweep);
  if (status.ok()) status = sweep::check(sweep);
  if (!status.ok()) return print_message(status.text, kExitUsage);
  Shard shard;
  parse_shard(arguments.shard, &shard);
  const std::string out = arguments.out.empty() ? sweep.name : arguments.out;
  const Store store(out, sweep);
  status = store.open();
  if (!status.ok()) return print_message(status.text, kExitFailed);

  const Plan plan = make_plan(sweep, store, shard);
  if (plan.other > 0 && !arguments.redo) {
    const std::string what = fmt::format(
        "{} of {} results in {} are of another revision than {}: --redo runs them "
        "again, another --out leaves them alone",
        plan.other, sweep.runs(), out, revision());
    return print_message(what, kExitFailed);
  }
  if (std::string_view(revision()).ends_with("-dirty")) {
    print_message(
        "this build has changes that its revision does not name: results of it cannot be told "
        "from those of other changes",
        0);
  }
  if (const size_t strangers = store.strangers(); strangers > 0) {
    print_message(
        fmt::format("{} results in {} are of another scenario, other values or seeds: left "
                    "alone, not in the table",
                    strangers, out),
        0);
  }
  fmt::print(stderr, "{}: {} points, {} runs; {} are there, {} to do here\n", sweep.name,
             sweep.points(), sweep.runs(), plan.here, plan.todo.size());
  const Interruptible interruptible;
  status = do_runs(sweep, store, plan.todo, arguments.jobs, interruptible);
  if (!status.ok()) return print_message(status.text, kExitFailed);
  const int code = write_tables(sweep, store);
  return interruptible.stopped() ? interruptible.exit_code() : code;
}

}  // namespace

void add_sim_sweep(CLI::App& sim, int* exit_code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* app = sim.add_subcommand("sweep", "Run a scenario with many values and seeds");
  app->add_option("SWEEP", arguments->file, "A TOML file (docs/simulator.md)")->required();
  app->add_option("--out", arguments->out,
                  "Directory of the results and the table; by default the sweep's name");
  app->add_option("--shard", arguments->shard,
                  "i/n: only every n-th run, from the i-th on; all of them may share a directory")
      ->check(CLI::Validator(
          [](const std::string& text) {
            Shard shard;
            return parse_shard(text, &shard) ? "" : text + ": expected i/n, with i in 1..n";
          },
          ""))
      ->capture_default_str();
  app->add_option("--jobs", arguments->jobs, "Simulations at once; 0: one per processor")
      ->check(whole_number_in(0, kJobsMax, "a number of simulations"))
      ->capture_default_str();
  app->add_flag("--redo", arguments->redo, "Run again what another revision has made");
  app->callback([arguments, exit_code] { *exit_code = run_sweep(*arguments); });
}

}  // namespace mprdma::tools
