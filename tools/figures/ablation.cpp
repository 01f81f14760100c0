// Each mend of the design switched off alone: loss on three paths, and a tail-drop bottleneck.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tools/figures/batch.hpp"
#include "tools/figures/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;
using switchsim::Scenario;
using transport::Params;

struct Mend {
  const char* id;
  const char* tick;  // below the axis, in lines
  const char* name;
  void (*switch_off)(Params*);
};

constexpr std::array<Mend, 12> kMends = {{
    {"all", "all\non", "all on", [](Params*) {}},
    {"growth", "growth\nlimit", "growth limit", [](Params* p) { p->limit_growth = false; }},
    {"loss", "loss\ncounts", "loss counts", [](Params* p) { p->loss_shrinks_window = false; }},
    {"timeout", "RTO\ncounts", "timeout counts",
     [](Params* p) { p->timeout_shrinks_window = false; }},
    {"adapt", "RTO\nadapts", "timeout adapts", [](Params* p) { p->adapt_timeout = false; }},
    {"trigger", "trigger", "sender's trigger", [](Params* p) { p->loss_trigger = 0; }},
    {"early", "early\nretr.", "early retransmission",
     [](Params* p) { p->early_retransmit = false; }},
    {"probe", "tail\nprobe", "tail probe", [](Params* p) { p->tail_probe = false; }},
    {"give-back", "give-\nback", "give-back", [](Params* p) { p->window_give_back = false; }},
    {"restart", "restart", "restart rule",
     [](Params* p) { p->restart = transport::RestartRule::kIdle; }},
    // What reads the map goes with it.
    {"map", "SACK\nmap", "SACK map",
     [](Params* p) {
       p->sack_map = false;
       p->early_retransmit = false;
       p->loss_trigger = 0;
     }},
    {"l64", "L = 64\ninstead", "L = 128 (64 instead)",
     [](Params* p) {
       p->window_slots = 64;
       p->loss_trigger = 0;
     }},
}};

struct Case {
  std::string id;
  std::string name;
  Scenario scenario;
  double ceiling = 0;
  uint32_t senders = 0;  // of the tail-drop cases
};

std::vector<Case> all_cases(const Figure& figure, bool ci) {
  std::vector<Case> out;
  for (const double percent : {0.5, 1.0, 10.0}) {
    Scenario scenario = load(figure.scenario, kMp128.overrides);
    for (switchsim::LinkConfig& link : scenario.topology.links) {
      if (link.ab.loss_ppm != 0) link.ab.loss_ppm = static_cast<uint32_t>(percent * 10'000);
    }
    out.push_back({fmt::format("loss-{}", percent), fmt::format("{} % loss on paths 1-3", percent),
                   scenario, ceiling_bps(scenario, scenario.paths[0])});
  }
  for (const uint32_t senders : {2U, 8U}) {
    Scenario scenario = load("taildrop.toml", kMp128.overrides);
    scenario.flows.resize(senders);
    const switchsim::LinkId bottleneck = scenario.link("bottleneck");
    scenario.topology.links[bottleneck].ab.queue_bytes_max = 60'000;
    out.push_back({fmt::format("taildrop-{}", senders),
                   fmt::format("tail drop, {} senders, 60 KB", senders), scenario,
                   ceiling_bps(scenario, bottleneck), senders});
  }
  for (Case& one : out) {
    if (ci) {
      shorten(&one.scenario, one.senders == 0 ? 20 : 5);
    } else if (one.senders == 0) {
      shorten(&one.scenario, 3);
    }
  }
  return out;
}

}  // namespace

FigureResult ablation(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  Batch batch(options);
  const std::vector<Case> cases = all_cases(figure, options.ci());
  const uint32_t seeds = options.ci() ? 1 : 2;
  for (const Mend& mend : kMends) {
    for (const Case& one : cases) {
      Scenario scenario = one.scenario;
      for (switchsim::FlowSpec& flow : scenario.flows) mend.switch_off(&flow.params);
      batch.add(scenario, seeds);
    }
  }
  batch.run();
  for (size_t c = 0; c < cases.size(); ++c) {
    Panel panel{cases[c].name, "", "goodput / ceiling", {}};
    Curve curve{"", {}, {}, {}, Stroke::kBars, c < 3 ? 0 : 2};
    double best = 0;  // of the runs with something switched off
    for (size_t m = 0; m < kMends.size(); ++m) {
      const size_t group = m * cases.size() + c;
      const Summary share =
          batch.over(group, [&](const Result& r) { return r.goodput_bps / cases[c].ceiling; });
      const Summary timeouts =
          batch.over(group, [](const Result& r) { return static_cast<double>(r.timeouts()); });
      curve.x.push_back(static_cast<double>(m));
      curve.y.push_back(share.mean);
      curve.error.push_back(share.deviation);
      panel.categories.emplace_back(kMends[m].tick);
      const std::string id = fmt::format("ablation.{}.{}", kMends[m].id, cases[c].id);
      const std::string what =
          fmt::format("{}: {}{}", cases[c].name, m == 0 ? "" : "without ", kMends[m].name);
      if (m > 0) best = std::max(best, share.mean);
      if (m == 0) {
        out.claim(id, what, c < 3 ? ">= 0.97" : ">= 0.93", share.mean, share.deviation, "");
      } else {
        out.report(id, what, "", share.mean, share.deviation, "", "");
      }
      out.report(id + ".rto", what + ", timeouts", "", timeouts.mean, timeouts.deviation, "/run",
                 "");
    }
    // No mend does harm.
    const std::string of = cases[c].name + ": ";
    out.claim("ablation.all-against-best." + cases[c].id, of + "all on / the best with one off",
              ">= 0.98", curve.y.front() / best, 0, "x");
    panel.legend = false;
    panel.ymax = 1.1;
    panel.curves = {curve};
    out.panels.push_back(panel);
  }
  batch.claim_sound("ablation", &out);
  const Scenario& first = batch.scenario(0);
  out.constants = constants_of(first, first.paths[0], seeds);
  out.setup = fmt::format(
      "The runs of 11a and of the tail-drop figure with one mend switched off at a time "
      "(l64: the paper's window instead of 128 slots); {}; {} seeds",
      describe(first, first.paths[0]), seeds);
  out.seen = "What each mend is worth where packets are lost: each is switched off alone";
  return out;
}

}  // namespace mprdma::figures
