// mprdma sim figure: one figure of a paper, with its claims; sim report: docs/results.md.
#include "tools/sim_figure.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <thread>

#include "tools/figures/figure.hpp"
#include "tools/figures/report.hpp"
#include "tools/interrupt.hpp"
#include "tools/number_option.hpp"
#include "tools/progress_bar.hpp"
#include "tools/results.hpp"
#include "tools/subcommands.hpp"

namespace mprdma::tools {

namespace {

using figures::Figure;
using figures::FigureResult;

constexpr uint32_t kJobsMax = 1024;  // a thread each

struct Arguments {
  std::string id;
  std::string json;
  std::string out = ".";
  std::string size = "full";
  uint64_t seed = 1;
  uint32_t jobs = 0;
};

figures::RunOptions run_options(const Arguments& arguments) {
  figures::RunOptions options;
  options.size = arguments.size == "ci" ? figures::Size::kCi : figures::Size::kFull;
  options.seed = arguments.seed;
  options.jobs =
      arguments.jobs != 0 ? arguments.jobs : std::max(std::thread::hardware_concurrency(), 1U);
  return options;
}

void add_options(CLI::App* app, const std::shared_ptr<Arguments>& arguments) {
  app->add_option("--size", arguments->size, "ci: as small as the claims allow; full")
      ->check(CLI::IsMember({"ci", "full"}))
      ->capture_default_str();
  app->add_option("--seed", arguments->seed, "Of the first run; run i takes seed + i")
      ->check(whole_number_in(0, UINT64_MAX, "a whole number"))
      ->capture_default_str();
  app->add_option("--jobs", arguments->jobs, "Simulations at once; 0: one per processor")
      ->check(whole_number_in(0, kJobsMax, "a number of simulations"))
      ->capture_default_str();
}

// Before the simulations, which take minutes.
bool make_directory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fmt::print(stderr, "mprdma sim: {}: {}\n", path, error.message());
  return !error;
}

bool draw(const Figure& figure, const FigureResult& result, const std::string& directory) {
  const std::string base = directory + "/" + figure.id;
  std::string error;
  if (figures::draw(figures::picture_of(figure, result), base, &error)) return true;
  fmt::print(stderr, "mprdma sim figure: no picture: {}\n", error);
  return false;
}

// Nothing if it was interrupted.
std::optional<FigureResult> run_visibly(const Figure& figure, figures::RunOptions options,
                                        const Interruptible& interruptible) {
  ProgressBar bar(figure.id + " ");
  options.stop = interruptible.stop();
  options.on_progress = [&bar](const switchsim::Progress& progress) { bar.show(progress); };
  try {
    return figure.run(figure, options);
  } catch (const figures::Interrupted&) {
    return std::nullopt;
  }
}

int draw_figure(const Arguments& arguments) {
  const Figure* figure = figures::find_figure(arguments.id);
  if (figure == nullptr) {
    fmt::print(stderr, "mprdma sim figure: there is no figure {}; see mprdma sim list\n",
               arguments.id);
    return kExitUsage;
  }
  if (!make_directory(arguments.out)) return kExitFailed;
  const figures::RunOptions options = run_options(arguments);
  const Interruptible interruptible;
  const std::optional<FigureResult> finished = run_visibly(*figure, options, interruptible);
  if (!finished) {
    fmt::print(stderr, "mprdma sim figure: interrupted: a figure needs all of its runs\n");
    return interruptible.exit_code();
  }
  const FigureResult& result = *finished;
  // Standard output is JSON alone, or text alone.
  FILE* const text_to = arguments.json == "-" ? stderr : stdout;
  fmt::print(text_to, "{}: {}\n{}\n{}\n", figure->id, figure->title, result.setup,
             figures::claim_lines(result));
  bool written = draw(*figure, result, arguments.out);
  if (written) {
    fmt::print(text_to, "{0}/{1}.png {0}/{1}.svg {0}/{1}.csv\n", arguments.out, figure->id);
  }
  if (!arguments.json.empty()) {
    const std::string text = figures::to_json(*figure, options, result).dump(2) + "\n";
    written = write_result("mprdma sim", arguments.json, text) && written;
  }
  return result.ok() && written ? 0 : 1;
}

int write_report(const Arguments& arguments) {
  const std::string pictures = arguments.out + "/figures";
  if (!make_directory(pictures)) return kExitFailed;
  const figures::RunOptions options = run_options(arguments);
  std::string page = figures::markdown_head(options);
  std::vector<nlohmann::json> parts;
  bool good = true;
  const Interruptible interruptible;
  for (const Figure& figure : figures::all_figures()) {
    fmt::print(stderr, "{} ...\n", figure.id);
    const std::optional<FigureResult> result = run_visibly(figure, options, interruptible);
    if (!result) {
      page += fmt::format("**Interrupted** before figure {} was complete.\n", figure.id);
      break;
    }
    page += figures::markdown_section(figure, options, *result);
    parts.push_back(figures::to_json(figure, options, *result));
    good = result->ok() && good;
    if (!draw(figure, *result, pictures)) return kExitFailed;
    std::filesystem::remove(pictures + "/" + figure.id + ".png");
    std::filesystem::remove(pictures + "/" + figure.id + ".csv");
  }
  good = write_result("mprdma sim", arguments.out + "/results.md", page) && good;
  if (!arguments.json.empty()) {
    const std::string text = figures::report_json(options, parts).dump(2) + "\n";
    good = write_result("mprdma sim", arguments.json, text) && good;
  }
  if (interruptible.stopped()) return interruptible.exit_code();
  return good ? 0 : kExitFailed;
}

void print_list() {
  for (const Figure& figure : figures::all_figures()) {
    fmt::print("{:<10} {:<48} {}\n", figure.id, figure.title, figure.scenario);
  }
}

void add_figure(CLI::App& sim, int* exit_code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* app = sim.add_subcommand("figure", "Run, check and draw one figure of a paper");
  app->add_option("id", arguments->id, "As mprdma sim list names it")->required();
  app->add_option("--json", arguments->json, "Claims and series to this file ('-': output)");
  app->add_option("--out", arguments->out, "Directory for ID.png, ID.svg and ID.csv")
      ->capture_default_str();
  add_options(app, arguments);
  app->callback([arguments, exit_code] { *exit_code = draw_figure(*arguments); });
}

}  // namespace

void add_sim_figures(CLI::App& sim, int* exit_code) {
  add_figure(sim, exit_code);
  sim.add_subcommand("list", "List the figures")->callback(print_list);
  auto arguments = std::make_shared<Arguments>();
  arguments->out = "docs";
  CLI::App* report = sim.add_subcommand("report", "Run all figures and write the page of results");
  report->add_option("--out", arguments->out, "Directory for results.md and figures/*.svg")
      ->capture_default_str();
  report->add_option("--json", arguments->json, "Claims of all figures to this file ('-': output)");
  add_options(report, arguments);
  report->callback([arguments, exit_code] { *exit_code = write_report(*arguments); });
}

}  // namespace mprdma::tools
