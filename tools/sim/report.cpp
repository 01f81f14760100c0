// mprdma sim report: docs/results.md, or a page of some figures. It takes hours at full size, so
// each finished figure is kept in a directory beside the page, and the same command resumes from
// there. The page and its pictures are replaced only when all its figures exist.
#include "tools/sim/report.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/revision.hpp"
#include "evaluation/report.hpp"
#include "evaluation/results.hpp"
#include "tools/sim/figure_options.hpp"
#include "tools/sim/sweep/store.hpp"
#include "tools/subcommands.hpp"

namespace mprdma::tools {

namespace {

using figures::Figure;
using figures::FigureResult;
using nlohmann::json;
using sweep::write_whole;

struct Arguments : FigureOptions {
  std::vector<std::string> only;
  std::string page;  // of the figures in `only`, and no others; empty: results, of all
  bool redo = false;
};

int print_message(const std::string& what, int code) {
  fmt::print(stderr, "mprdma sim report: {}\n", what);
  return code;
}

std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The small report has names of its own, so that it never replaces the full one.
struct Names {
  explicit Names(const Arguments& arguments)
      : stem((arguments.page.empty() ? "results" : arguments.page) + suffix(arguments)),
        pictures("figures" + suffix(arguments)),
        kept(".results" + suffix(arguments)),
        out(arguments.out) {}
  [[nodiscard]] std::string in_out(const std::string& name) const { return out + "/" + name; }
  [[nodiscard]] std::string in_kept(const std::string& name) const {
    return in_out(kept) + "/" + name;
  }

  std::string stem;
  std::string pictures;
  std::string kept;
  std::string out;

 private:
  static std::string suffix(const Arguments& arguments) {
    return arguments.size == "ci" ? ".ci" : "";
  }
};

// A build of uncommitted changes has no revision of its own; the time of the program tells such
// builds apart.
std::string build_name() {
  std::string name = revision();
  if (!name.ends_with("-dirty")) return name;
  std::error_code error;
  const auto made = std::filesystem::last_write_time("/proc/self/exe", error);
  return fmt::format("{} {}", name, made.time_since_epoch().count());
}

// The finished figures: KEPT/ID.json with section, claims and constants, KEPT/ID.svg.
class Kept {
 public:
  Kept(Names names, const figures::RunOptions& options)
      : names_(std::move(names)),
        key_({{"build", build_name()},
              {"size", options.ci() ? "ci" : "full"},
              {"seed", options.seed}}) {}

  // Reads {"made_by": key, "section": text, "figure": as to_json() writes it, and what it cost};
  // nothing unless this build made it with this size and seed.
  [[nodiscard]] std::optional<json> look(const Figure& figure) const {
    const std::string base = names_.in_kept(figure.stem());
    json part = json::parse(contents_of(base + ".json"), nullptr, false);
    if (!part.is_object() || part.value("made_by", json()) != key_) return std::nullopt;
    if (!std::filesystem::exists(base + ".svg")) return std::nullopt;
    return part;
  }
  // Keeps a finished figure. The file that look() reads is written last.
  [[nodiscard]] Status put(const Figure& figure, const figures::RunOptions& options,
                           const FigureResult& result, double processor_s) const {
    const std::string base = names_.in_kept(figure.stem());
    std::error_code error;
    std::filesystem::remove(base + ".json", error);
    Status status = figures::draw(figures::picture_of(figure, result), base);
    if (!status.ok()) return status;
    std::filesystem::remove(base + ".png", error);
    std::filesystem::remove(base + ".csv", error);
    json with_cost = figures::to_json(figure, options, result);
    with_cost["processor_s"] = processor_s;
    const json part = {
        {"made_by", key_},
        {"section", figures::markdown_section(figure, options, result, names_.pictures)},
        {"figure", std::move(with_cost)}};
    return write_whole(base + ".json", part.dump(1) + "\n");
  }

 private:
  Names names_;
  json key_;
};

struct Report {
  std::vector<std::pair<const Figure*, json>> parts;
  std::vector<std::string> missing;  // ids
};

bool is_named(const Arguments& arguments, const Figure& figure) {
  return std::any_of(
      arguments.only.begin(), arguments.only.end(),
      [&figure](const std::string& id) { return figures::find_figure(id) == &figure; });
}

// Of the figures of the page.
Report collect(const Arguments& arguments, const Kept& kept) {
  Report out;
  for (const Figure& figure : figures::all_figures()) {
    if (!arguments.page.empty() && !is_named(arguments, figure)) continue;
    if (std::optional<json> part = kept.look(figure)) {
      out.parts.emplace_back(&figure, std::move(*part));
    } else {
      out.missing.push_back(figure.id);
    }
  }
  return out;
}

bool holds(const json& part) {
  const json& claims = part["figure"]["claims"];
  return std::all_of(claims.begin(), claims.end(), [](const json& claim) {
    return claim["ok"].get<bool>() || !claim["asserted"].get<bool>();
  });
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

// Writes the page; the pictures come first, because the page names them.
Status write_page(const Names& names, const Report& report, const std::string& head) {
  const bool whole = report.missing.empty();
  std::string page = head;
  if (!whole) page += fmt::format("**Not complete**: without {}.\n\n", joined(report.missing));
  for (const auto& [figure, part] : report.parts) {
    std::string section = part["section"].get<std::string>();
    const std::string picture = fmt::format("/{}.svg)", figure->stem());
    if (!whole) {
      const std::string there = "](" + names.pictures + picture;
      const size_t at = section.find(there);
      if (at != std::string::npos) {
        section.replace(at, there.size(), "](" + names.kept + picture);
      }
    } else {
      const std::string name = fmt::format("{}.svg", figure->stem());
      Status status =
          write_whole(names.in_out(names.pictures + "/" + name), contents_of(names.in_kept(name)));
      if (!status.ok()) return status;
    }
    page += section;
  }
  const std::string partial = names.in_out(names.stem + ".partial.md");
  const std::string path = whole ? names.in_out(names.stem + ".md") : partial;
  Status status = write_whole(path, page);
  std::error_code error;
  if (whole && status.ok()) std::filesystem::remove(partial, error);
  return status;
}

int finish(const Arguments& arguments, const Names& names, const Kept& kept,
           const figures::RunOptions& options) {
  const Report report = collect(arguments, kept);
  const Status status = write_page(names, report, figures::markdown_head(options));
  if (!status.ok()) return print_message(status.text, kExitFailed);
  const std::string page = names.in_out(names.stem);
  if (report.missing.empty()) {
    print_message(fmt::format("{}.md has all figures", page), 0);
  } else {
    print_message(
        fmt::format("{0}.partial.md has {1} of {2} figures; {0}.md was left alone; the same "
                    "command goes on with {3}",
                    page, report.parts.size(), report.parts.size() + report.missing.size(),
                    joined(report.missing)),
        0);
  }
  bool good = true;
  std::vector<json> figures;
  for (const auto& [figure, part] : report.parts) {
    good = holds(part) && good;
    figures.push_back(part["figure"]);
  }
  if (!arguments.json.empty()) {
    json all = figures::report_json(options, figures);
    all["missing"] = report.missing;
    good = write_result("mprdma sim", arguments.json, all.dump(2) + "\n") && good;
  }
  return good ? 0 : kExitFailed;
}

// Processor time of all threads of this process so far.
double processor_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

// Runs the figures that are asked for and not kept. False: interrupted. *good: nothing failed.
bool run_figures(const Arguments& arguments, const Kept& kept, const figures::RunOptions& options,
                 const Interruptible& interruptible, bool* good) {
  for (const Figure& figure : figures::all_figures()) {
    if (!arguments.only.empty() && !is_named(arguments, figure)) continue;
    if (!arguments.redo && kept.look(figure)) {
      fmt::print(stderr, "{} is there\n", figure.id);
      continue;
    }
    fmt::print(stderr, "{} ...\n", figure.id);
    const double before = processor_seconds();
    const std::optional<FigureResult> result = run_visibly(figure, options, interruptible);
    if (!result) return false;
    const double cost = processor_seconds() - before;
    fmt::print(stderr, "{}: {:.1f} s of processor time\n", figure.id, cost);
    const Status status = kept.put(figure, options, *result, cost);
    if (interruptible.stopped()) return false;  // Ctrl-C ended gnuplot, too
    if (status.ok()) continue;
    print_message(fmt::format("figure {}: {}; it will be run again", figure.id, status.text), 0);
    *good = false;
  }
  return true;
}

int write_report(const Arguments& arguments) {
  for (const std::string& id : arguments.only) {
    if (figures::find_figure(id) != nullptr) continue;
    return print_message(figures::no_figure(id), kExitUsage);
  }
  if (!arguments.page.empty() && arguments.only.empty()) {
    return print_message("--page needs the figures of that page", kExitUsage);
  }
  const Names names(arguments);
  const Status status = figures::can_draw();
  if (!status.ok()) return print_message(status.text, kExitFailed);
  if (!make_directory(names.in_out(names.kept)) || !make_directory(names.in_out(names.pictures))) {
    return kExitFailed;
  }
  const figures::RunOptions options = run_options(arguments);
  const Kept kept(names, options);
  bool good = true;
  const Interruptible interruptible;
  const bool through = run_figures(arguments, kept, options, interruptible, &good);
  const int code = finish(arguments, names, kept, options);
  if (!through) return interruptible.exit_code();
  return good ? code : kExitFailed;
}

}  // namespace

void add_sim_report(CLI::App& sim, int* exit_code) {
  auto arguments = std::make_shared<Arguments>();
  arguments->out = "docs";
  CLI::App* app = sim.add_subcommand("report", "Run all figures and write the page of results");
  app->add_option("id", arguments->only,
                  "Only these figures; the page is written when all are there");
  app->add_option("--out", arguments->out, "Directory for results.md and figures/*.svg")
      ->capture_default_str();
  app->add_option("--json", arguments->json, "Claims of all figures to this file ('-': output)");
  app->add_option("--page", arguments->page,
                  "Write a page of this name, of the figures that are named, in place of results");
  app->add_flag("--redo", arguments->redo, "Run again what this build has made already");
  add_figure_options(app, arguments);
  app->callback([arguments, exit_code] { *exit_code = write_report(*arguments); });
}

}  // namespace mprdma::tools
