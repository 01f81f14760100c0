#include "evaluation/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/revision.hpp"
#include "evaluation/scenario_files.hpp"

namespace mprdma::figures {

namespace {

const char* verdict(const Claim& claim) {
  if (!claim.value) return "not measured";
  if (claim.target.empty()) return "";
  const bool asserted = claim.standing == Standing::kAsserted;
  if (claim.ok()) return asserted ? "met" : "met (reported)";
  return asserted ? "MISSED" : "missed (reported)";
}

std::string target_text(const Claim& claim) {
  std::string text = claim.own_target ? claim.target + " (ours)" : claim.target;
  if (claim.paper.empty()) return text;
  return text + (text.empty() ? "" : "; ") + "paper: " + claim.paper;
}

// The notes below a table. Each note is listed once and numbered; the rows of its claims refer to
// it.
class Notes {
 public:
  std::string refer(const std::string& verdict, std::string_view note) {
    if (note.empty()) return verdict;
    auto found = std::find(notes_.begin(), notes_.end(), note);
    if (found == notes_.end()) found = notes_.emplace(found, note);
    const auto number = found - notes_.begin() + 1;
    return fmt::format("{}{}note {}", verdict, verdict.empty() ? "" : ", ", number);
  }
  [[nodiscard]] std::string list() const {
    std::string out = notes_.empty() ? "" : "\n";
    for (size_t i = 0; i < notes_.size(); ++i) {
      out += fmt::format("- Note {}: {}\n", i + 1, notes_[i]);
    }
    return out;
  }

 private:
  std::vector<std::string> notes_;
};

const char* name_of(Size size) {
  return size == Size::kCi ? "ci" : "full";
}

}  // namespace

std::string value_text(const Claim& claim) {
  if (!claim.value) return "-";
  if (claim.deviation == 0) return fmt::format("{:.4g}", *claim.value);
  return fmt::format("{:.4g} +- {:.2g}", *claim.value, claim.deviation);
}

std::string claim_lines(const FigureResult& result) {
  std::string out;
  for (const Claim& claim : result.claims) {
    out += fmt::format("  {:<24} {:<56} {:>14} {:>20} {:<6} {}\n", claim.id, claim.what,
                       target_text(claim), value_text(claim), claim.unit, verdict(claim));
    if (!claim.reason().empty() && (!claim.ok() || claim.target.empty())) {
      out += fmt::format("  {:<24} {}\n", "", claim.reason());
    }
  }
  return out;
}

std::string markdown_section(const Figure& figure, const RunOptions& options,
                             const FigureResult& result, const std::string& pictures) {
  std::string out = fmt::format("## {}: {}\n\n![{}]({}/{}.svg)\n\n", figure.id, figure.title,
                                result.seen, pictures, figure.stem());
  out += fmt::format("{}.\n\n**Set-up.** {}\n\n**The paper.** {}\n\n", result.seen, result.setup,
                     figure.paper);
  if (!result.deviations.empty()) {
    out += fmt::format("**Deviations.** {}\n\n", result.deviations);
  }
  out += "| claim | target | value | |\n|---|---|---|---|\n";
  Notes notes;
  for (const Claim& claim : result.claims) {
    out += fmt::format("| {} | {} | {} {} | {} |\n", claim.what, target_text(claim),
                       value_text(claim), claim.unit, notes.refer(verdict(claim), claim.reason()));
  }
  out += notes.list();
  out += fmt::format("\n`mprdma sim figure {} --size {} --seed {}`", figure.id,
                     name_of(options.size), options.seed);
  if (!figure.scenario.empty()) {
    out += fmt::format(", scenario `{}`", scenario_path(figure.scenario));
  }
  return out + ".\n\n";
}

std::string markdown_head(const RunOptions& options) {
  return fmt::format(
      "# Results\n\n"
      "Written by `mprdma sim report`; do not edit. Size {}, first seed {}, revision {}. The "
      "simulator is\n"
      "deterministic: the same revision, size and seed give the same figures. How it works:\n"
      "[simulator.md](simulator.md).\n\n"
      "Values are mean and standard deviation over the seeds. The ceiling is what the links can "
      "carry of\n"
      "payload after all headers, preamble and gap. A claim marked \"reported\" is shown beside "
      "its target\n"
      "and not asserted by a test: where it is missed, the note that its row names says why. A "
      "target\n"
      "is the paper's, or what its value is in shares of our ceiling; where the paper states none, "
      "we\n"
      "set one, marked \"ours\". \"Deviations\" are what differs from the paper's set-up.\n\n",
      name_of(options.size), options.seed, revision());
}

Picture picture_of(const Figure& figure, const FigureResult& result) {
  Picture out;
  out.title = fmt::format("{}: {}", figure.id, result.seen);
  out.footnote = result.setup;
  out.panels = result.panels;
  return out;
}

}  // namespace mprdma::figures
