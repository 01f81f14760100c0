// Shared by `mprdma sim figure` and `sim report`: options, and a figure that is run with a progress
// bar.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "evaluation/figure.hpp"
#include "tools/interrupt.hpp"

namespace CLI {
class App;
}

namespace mprdma::tools {

struct FigureOptions {
  std::string json;
  std::string out;
  std::string size = "full";
  uint64_t seed = 1;
  uint32_t jobs = 0;  // 0: one per processor
};

// --size, --seed and --jobs.
void add_figure_options(CLI::App* app, const std::shared_ptr<FigureOptions>& options);
figures::RunOptions run_options(const FigureOptions& options);

// Creates the directory before the simulations, which take minutes. False: the reason was printed.
bool make_directory(const std::string& path);

// Runs a figure. nullopt if interrupted; then *partial holds the completed part.
std::optional<figures::FigureResult> run_visibly(const figures::Figure& figure,
                                                 figures::RunOptions options,
                                                 const Interruptible& interruptible,
                                                 figures::Interrupted* partial = nullptr);

}  // namespace mprdma::tools
