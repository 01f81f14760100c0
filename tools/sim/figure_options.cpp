#include "tools/sim/figure_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "tools/number_option.hpp"
#include "tools/progress_bar.hpp"

namespace mprdma::tools {

void add_figure_options(CLI::App* app, const std::shared_ptr<FigureOptions>& options) {
  app->add_option("--size", options->size, "ci: as small as the claims allow; full")
      ->check(CLI::IsMember({"ci", "full"}))
      ->capture_default_str();
  app->add_option("--seed", options->seed, "Of the first run; run i takes seed + i")
      ->check(whole_number_in(0, UINT64_MAX, "a whole number"))
      ->capture_default_str();
  app->add_option("--jobs", options->jobs, "Simulations at once; 0: one per processor")
      ->check(whole_number_in(0, kJobsMax, "a number of simulations"))
      ->capture_default_str();
}

figures::RunOptions run_options(const FigureOptions& options) {
  figures::RunOptions out;
  out.size = options.size == "ci" ? figures::Size::kCi : figures::Size::kFull;
  out.seed = options.seed;
  out.jobs = options.jobs != 0 ? options.jobs : std::max(std::thread::hardware_concurrency(), 1U);
  return out;
}

bool make_directory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fmt::print(stderr, "mprdma sim: {}: {}\n", path, error.message());
  return !error;
}

std::optional<figures::FigureResult> run_visibly(const figures::Figure& figure,
                                                 figures::RunOptions options,
                                                 const Interruptible& interruptible,
                                                 figures::Interrupted* partial) {
  ProgressBar bar(figure.id + " ");
  options.stop = interruptible.stop();
  options.on_progress = [&bar](const switchsim::Progress& progress) { bar.show(progress); };
  try {
    return figure.run(figure, options);
  } catch (const figures::Interrupted& interrupted) {
    if (partial != nullptr) *partial = interrupted;
    return std::nullopt;
  }
}

}  // namespace mprdma::tools
