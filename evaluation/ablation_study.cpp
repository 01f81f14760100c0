#include "evaluation/ablation_study.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/check.hpp"
#include "evaluation/batch.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;
using switchsim::Scenario;
using transport::Params;

struct Deviation {
  const char* id;
  const char* tick;  // label below the axis
  const char* name;
  void (*switch_off)(Params*);
};

// Every deviation that has a switch (docs/algorithms.md).
constexpr std::array<Deviation, 21> kDeviations = {{
    {"all", "all\non", "all on", [](Params*) {}},
    {"growth", "growth\nlimit", "growth limit", [](Params* p) { p->limit_growth = false; }},
    {"cap", "win.\ncap", "window cap", [](Params* p) { p->window_max = transport::kSendSpanMin; }},
    {"loss", "loss\ncounts", "loss counts", [](Params* p) { p->loss_shrinks_window = false; }},
    {"timeout", "RTO\ncounts", "timeout counts",
     [](Params* p) { p->timeout_shrinks_window = false; }},
    {"adapt", "RTO\nadapts", "timeout adapts", [](Params* p) { p->adapt_timeout = false; }},
    {"trigger", "trig-\nger", "sender's trigger", [](Params* p) { p->loss_trigger = 0; }},
    {"late", "loss\nby time", "loss by time", [](Params* p) { p->loss_by_time = false; }},
    {"probe", "tail\nprobe", "tail probe", [](Params* p) { p->tail_probe = false; }},
    {"tries", "time-\nout tries", "tries at a timeout", [](Params* p) { p->timeout_tries = 1; }},
    {"give-back", "give-\nback", "give-back", [](Params* p) { p->window_give_back = false; }},
    {"spacing", "spac-\ning", "spacing", [](Params* p) { p->window_spacing = false; }},
    {"sync-wait", "sync\nwait", "wait is backlog",
     [](Params* p) { p->sync_wait_is_backlog = false; }},
    {"restart", "re-\nstart", "restart rule",
     [](Params* p) { p->restart = transport::RestartRule::kIdle; }},
    {"paths", "path\nmemory", "memory of paths",
     [](Params* p) { p->path_policy = transport::PathPolicy::kAckClocked; }},
    {"explore", "explore\nby time", "exploring by time",
     [](Params* p) { p->path_probe_interval = Duration::zero(); }},
    {"own-ack", "own\nACK", "room by the own acknowledgement",
     [](Params* p) { p->own_ack_credit = false; }},
    {"follow", "win.\nfollow", "windows that follow the network",
     [](Params* p) { p->window_rtt = Duration::zero(); }},
    {"ack-map", "ACK\nmap", "maps in acknowledgements", [](Params* p) { p->ack_map = false; }},
    // Losses by time and the trigger need the map of SACKed packets.
    {"map", "SACK\nmap", "SACK map",
     [](Params* p) {
       p->recovery = transport::Recovery::kPaper;
       p->loss_by_time = false;
       p->ack_map = false;
       p->loss_trigger = 0;
     }},
    // The trigger of 64 packets (D6) has no place in such a window.
    {"l64", "L =\n64", "L by the link (64 instead)",
     [](Params* p) {
       p->window_slots = 64;
       p->window_rtt = Duration::zero();
       p->loss_trigger = 0;
     }},
}};

// A case, and the batch's group of each deviation that was run in it.
struct Study {
  AblationCase what;
  std::map<size_t, size_t> groups = {};
};

bool contains(const std::vector<std::string>& ids, const char* id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

Summary value_of(const Batch& batch, const Study& study, size_t deviation) {
  return batch.over(study.groups.at(deviation), study.what.value);
}

bool was_run(const Study& study, const std::string& id) {
  return std::any_of(study.groups.begin(), study.groups.end(),
                     [&](const auto& group) { return kDeviations[group.first].id == id; });
}

double all_on(const Batch& batch, const Study& study) {
  return value_of(batch, study, 0).mean;
}

// Returns goodput / ceiling or, for a case without a target, the value relative to the run with
// everything on.
Summary shown(const Batch& batch, const Study& study, size_t deviation) {
  Summary out = value_of(batch, study, deviation);
  if (!study.what.target.empty()) return out;
  const double base = all_on(batch, study);
  if (base == 0) return {};
  out.mean /= base;
  out.deviation /= base;
  return out;
}

void add_claims(const std::string& figure, const Batch& batch, const Study& study,
                FigureResult* out) {
  const AblationCase& what = study.what;
  double best = 0;  // best run with a deviation off
  for (const auto& [deviation, group] : study.groups) {
    const Summary value = shown(batch, study, deviation);
    const Summary timeouts =
        batch.over(group, [](const Result& r) { return static_cast<double>(r.timeouts()); });
    const std::string id = fmt::format("{}.{}.{}", figure, kDeviations[deviation].id, what.id);
    const std::string text = fmt::format("{}: {}{}", what.name, deviation == 0 ? "" : "without ",
                                         kDeviations[deviation].name);
    if (deviation > 0) best = std::max(best, value.mean);
    const bool absolute = !what.target.empty();
    if (deviation == 0 && absolute) {
      out->claim(id, text, what.target, value.mean, value.deviation, "");
    } else if (contains(what.worth, kDeviations[deviation].id)) {
      out->claim(id, text, "<= 0.98", value.mean, value.deviation, "x all on");
    } else {
      out->report(id, text, "", value.mean, value.deviation, absolute ? "" : "x all on", "");
    }
    out->report(id + ".rto", text + ", timeouts", "", timeouts.mean, timeouts.deviation, "/run",
                "");
  }
  CHECK(study.groups.size() > 1);
  CHECK(all_on(batch, study) > 0);  // else everything would be worth something
  for (const std::string& id : what.worth) CHECK(was_run(study, id) && what.target.empty());
  // Claims that no deviation does harm.
  const std::string id = fmt::format("{}.all-against-best.{}", figure, what.id);
  const std::string text = what.name + ": all on / the best with one off";
  const double value = shown(batch, study, 0).mean / best;
  if (what.harm.empty()) {
    out->claim(id, text, ">= 0.98", value, 0, "x");
  } else {
    out->explain(id, text, ">= 0.98", value, 0, "x", what.harm);
  }
}

// Reports what switching each deviation off costs in the case where it costs most.
void add_worth(const std::string& figure, const Batch& batch, const std::vector<Study>& studies,
               FigureResult* out) {
  Panel panel{"What a deviation is worth where it is worth most", "", "share lost without it", {}};
  Curve curve{"", {}, {}, {}, Stroke::kBars, 1};
  for (size_t deviation = 1; deviation < kDeviations.size(); ++deviation) {
    double most = 0;
    std::string where = "nowhere here";
    for (const Study& study : studies) {
      if (!study.groups.contains(deviation)) continue;
      const double base = all_on(batch, study);
      const double lost = base == 0 ? 0 : 1 - value_of(batch, study, deviation).mean / base;
      if (lost <= most) continue;
      most = lost;
      where = study.what.name;
    }
    out->report(fmt::format("{}.worth.{}", figure, kDeviations[deviation].id),
                fmt::format("most that is lost without {}: {}", kDeviations[deviation].name, where),
                "", most, 0, "", "");
    curve.x.push_back(static_cast<double>(deviation - 1));
    curve.y.push_back(most);
    panel.categories.emplace_back(kDeviations[deviation].tick);
  }
  panel.curves = {curve};
  panel.legend = false;
  panel.ymax = 1.05;
  out->panels.push_back(panel);
}

Panel case_panel(const Batch& batch, const Study& study) {
  const bool absolute = !study.what.target.empty();
  Panel panel{study.what.name, "", absolute ? "goodput / ceiling" : "relative to all on", {}};
  Curve curve{"", {}, {}, {}, Stroke::kBars, absolute ? 0 : 2};
  for (const auto& [deviation, group] : study.groups) {
    const Summary value = shown(batch, study, deviation);
    curve.x.push_back(static_cast<double>(curve.x.size()));
    curve.y.push_back(value.mean);
    curve.error.push_back(value.deviation);
    panel.categories.emplace_back(kDeviations[deviation].tick);
  }
  panel.legend = false;
  panel.ymax = 1.1;
  panel.curves = {curve};
  return panel;
}

// The scenario without the deviation. Nothing: the deviation is off there anyway.
std::optional<Scenario> without(const AblationCase& what, size_t deviation) {
  Scenario scenario = what.scenario;
  bool changed = deviation == 0;
  for (switchsim::FlowSpec& flow : scenario.flows) {
    const Params before = flow.params;
    kDeviations[deviation].switch_off(&flow.params);
    changed = changed || !(flow.params == before);
  }
  return changed ? std::optional(scenario) : std::nullopt;
}

bool is_run(const AblationCase& what, size_t deviation, bool ci) {
  if (!ci || deviation == 0 || what.deviations.empty()) return true;
  return contains(what.deviations, kDeviations[deviation].id);
}

}  // namespace

FigureResult study_ablation(const std::string& id, const std::vector<AblationCase>& cases,
                            const RunOptions& options, uint32_t seeds) {
  FigureResult out;
  Batch batch(options);
  std::vector<Study> studies;
  for (const AblationCase& what : cases) {
    Study study{what};
    for (size_t deviation = 0; deviation < kDeviations.size(); ++deviation) {
      if (!is_run(what, deviation, options.ci())) continue;
      const std::optional<Scenario> scenario = without(what, deviation);
      if (scenario) study.groups[deviation] = batch.add(*scenario, seeds);
    }
    studies.push_back(study);
  }
  batch.run();
  for (const Study& study : studies) {
    add_claims(id, batch, study, &out);
    out.panels.push_back(case_panel(batch, study));
  }
  add_worth(id, batch, studies, &out);
  batch.claim_sound(id, &out);
  out.own_targets();
  const Scenario& first = batch.scenario(0);
  out.constants = constants_of(first, first.paths[0], seeds);
  out.deviations = describe_deviations(
      fmt::format("Not in the paper: every target is ours, and {} seeds a case say little about a "
                  "worth of one or two per cent. Cases are those in which a deviation was expected "
                  "to matter, not a sample of networks.",
                  seeds),
      first);
  out.setup = fmt::format(
      "Networks and traffic that the deviations from the paper are for, with one of them switched "
      "off at a time (L = 64: the paper's window instead of what the link needs); the first case "
      "has {}; {} seeds",
      describe(first, first.paths[0]), seeds);
  out.seen = "What each deviation is worth: each is switched off alone";
  return out;
}

}  // namespace mprdma::figures
