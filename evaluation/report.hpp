// What a person reads of a figure: a table on the terminal, a section of docs/results.md.
#pragma once

#include <string>

#include "evaluation/figure.hpp"

namespace mprdma::figures {

// "0.9931 +- 0.0008"
std::string value_text(const Claim& claim);
// Lines for the terminal.
std::string claim_lines(const FigureResult& result);
// Title, set-up, picture (ID.svg in the directory `pictures`), table of claims, notes on them, the
// command.
std::string markdown_section(const Figure& figure, const RunOptions& options,
                             const FigureResult& result, const std::string& pictures);
std::string markdown_head(const RunOptions& options);
Picture picture_of(const Figure& figure, const FigureResult& result);

}  // namespace mprdma::figures
