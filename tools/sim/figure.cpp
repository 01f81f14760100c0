// mprdma sim figure: one figure of a paper, with its claims; sim list.
#include "tools/sim/figure.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "evaluation/figure.hpp"
#include "evaluation/report.hpp"
#include "evaluation/results.hpp"
#include "tools/interrupt.hpp"
#include "tools/sim/figure_options.hpp"
#include "tools/sim/report.hpp"
#include "tools/subcommands.hpp"

namespace mprdma::tools {

namespace {

using figures::Figure;
using figures::FigureResult;

struct Arguments : FigureOptions {
  std::string id;
};

bool draw(const Figure& figure, const FigureResult& result, const std::string& directory) {
  const std::string base = directory + "/" + figure.stem();
  const Status status = figures::draw(figures::picture_of(figure, result), base);
  if (!status.ok()) fmt::print(stderr, "mprdma sim figure: no picture: {}\n", status.text);
  return status.ok();
}

// Keeps the complete runs of an interrupted figure: they may have taken hours.
void keep_partial(const Figure& figure, const figures::RunOptions& options,
                  const figures::Interrupted& partial, const std::string& directory) {
  const size_t complete = (*partial.complete).size();
  fmt::print(stderr,
             "mprdma sim figure: interrupted: {} of {} runs are complete, and a figure "
             "needs all of them\n",
             complete, partial.planned);
  if (complete == 0) return;
  const std::string path = directory + "/" + figure.stem() + ".partial.json";
  const std::string text = figures::partial_json(figure, options, partial).dump(1) + "\n";
  if (write_result("mprdma sim", path, text)) {
    fmt::print(stderr, "mprdma sim figure: what they measured is in {}\n", path);
  }
}

int draw_figure(const Arguments& arguments) {
  const Figure* figure = figures::find_figure(arguments.id);
  if (figure == nullptr) {
    fmt::print(stderr, "mprdma sim figure: {}\n", figures::no_figure(arguments.id));
    return kExitUsage;
  }
  if (!make_directory(arguments.out)) return kExitFailed;
  const figures::RunOptions options = run_options(arguments);
  const Interruptible interruptible;
  figures::Interrupted partial;
  const std::optional<FigureResult> finished =
      run_visibly(*figure, options, interruptible, &partial);
  if (!finished) {
    keep_partial(*figure, options, partial, arguments.out);
    return interruptible.exit_code();
  }
  const FigureResult& result = *finished;
  // Standard output has JSON only, or text only.
  FILE* const text_to = arguments.json == "-" ? stderr : stdout;
  fmt::print(text_to, "{}: {}\n{}\n{}\n", figure->id, figure->title, result.setup,
             figures::claim_lines(result));
  bool written = draw(*figure, result, arguments.out);
  if (written) {
    fmt::print(text_to, "{0}/{1}.png {0}/{1}.svg {0}/{1}.csv\n", arguments.out, figure->stem());
  }
  if (!arguments.json.empty()) {
    const std::string text = figures::to_json(*figure, options, result).dump(2) + "\n";
    written = write_result("mprdma sim", arguments.json, text) && written;
  }
  return result.ok() && written ? 0 : 1;
}

void print_list() {
  for (const Figure& figure : figures::all_figures()) {
    fmt::print("{:<10} {:<48} {}\n", figure.id, figure.title, figure.scenario);
  }
}

void add_figure(CLI::App& sim, int* exit_code) {
  auto arguments = std::make_shared<Arguments>();
  arguments->out = ".";
  CLI::App* app = sim.add_subcommand("figure", "Run, check and draw one figure of a paper");
  app->add_option("id", arguments->id, "As mprdma sim list names it")->required();
  app->add_option("--json", arguments->json, "Claims and series to this file ('-': output)");
  app->add_option("--out", arguments->out, "Directory for ID.png, ID.svg and ID.csv")
      ->capture_default_str();
  add_figure_options(app, arguments);
  app->callback([arguments, exit_code] { *exit_code = draw_figure(*arguments); });
}

}  // namespace

void add_sim_figures(CLI::App& sim, int* exit_code) {
  add_figure(sim, exit_code);
  sim.add_subcommand("list", "List the figures")->callback(print_list);
  add_sim_report(sim, exit_code);
}

}  // namespace mprdma::tools
