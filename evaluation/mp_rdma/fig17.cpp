// Figure 17: incast of one to nine senders, the same amount from each.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/prng.hpp"
#include "evaluation/batch.hpp"
#include "evaluation/list.hpp"
#include "evaluation/mp_rdma/dcqcn.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;
using switchsim::Scenario;

constexpr uint32_t kSendersMax = 9;

// Keeps `degree` random flows of the file, which has one for each possible sender.
void choose_senders(uint32_t degree, uint64_t seed, Scenario* scenario) {
  Prng prng = Prng(seed).split("incast");
  while (scenario->flows.size() > degree) {
    const uint64_t out = prng.below(scenario->flows.size());
    scenario->flows.erase(scenario->flows.begin() + static_cast<int64_t>(out));
  }
}

double goodput_bps(const Result& result) {
  double bytes = 0;
  int64_t last_ps = 0;
  for (const auto& flow : result.flows) {
    bytes += static_cast<double>(flow.completed_bytes);
    for (const auto& message : flow.messages) {
      last_ps = std::max(last_ps, message.completed.ps());
    }
  }
  return last_ps == 0 ? 0 : bytes * 8e12 / static_cast<double>(last_ps);
}

bool unfinished(const Result& result) {
  return std::any_of(result.flows.begin(), result.flows.end(), [](const auto& flow) {
    return flow.messages_completed == 0 || flow.messages_completed != flow.messages_posted;
  });
}

struct Form {
  const Variant* variant;
  bool step;
  const char* name;
  const char* id;
  const char* target;  // empty: the value is only reported
};
constexpr size_t kForms = 5;

std::array<Form, kForms> all_forms() {
  return {{{&kMp, false, "mp, RED (1.0, 20, 40)", "17.mp", ">= 0.985"},
           {&kShipped, false, "mp as shipped, RED (1.0, 20, 40)", "17.shipped", ">= 0.985"},
           {&kMp, true, "mp, step at 20 KB", "17.mp-step", ">= 0.95"},
           {&kPaper, true, "mp-paper, step at 20 KB", "17.paper", ""},
           {&kDcqcn, false, "DCQCN (dcqcn-paper), its RED", "17.dcqcn", ""}}};
}

Scenario scenario_for(const Figure& figure, const Form& form, uint32_t degree, uint64_t seed,
                      bool ci) {
  const bool dcqcn = form.variant == &kDcqcn;
  Scenario scenario =
      dcqcn ? load_dcqcn(figure.scenario) : load(figure.scenario, form.variant->overrides);
  choose_senders(degree, seed, &scenario);
  for (auto& link : scenario.topology.links) {
    if (!form.step) break;
    link.ab.red.kmax_bytes = link.ab.red.kmin_bytes;
    link.ba.red.kmax_bytes = link.ba.red.kmin_bytes;
  }
  for (auto& flow : scenario.flows) flow.message_bytes /= ci ? 3 : 1;
  return scenario;
}

void add_totals(const std::vector<Result>& results, const Form& form, FigureResult* out) {
  double lost = 0;
  double timeouts = 0;
  double copies = 0;
  double open = 0;
  for (const Result& result : results) {
    lost += drops_of_switches(result);
    timeouts += static_cast<double>(result.timeouts());
    copies += static_cast<double>(result.retransmitted());
    open += unfinished(result) ? 1 : 0;
  }
  const std::string id = form.id;
  const std::string name = std::string(form.name) + ": ";
  const std::array<std::tuple<const char*, const char*, double>, 4> all = {
      {{".lost", "packets dropped, all runs", lost},
       {".rto", "timeouts, all runs", timeouts},
       {".copies", "retransmissions, all runs", copies},
       {".open", "runs that did not finish", open}}};
  for (const auto& [suffix, what, value] : all) {
    if (*form.target != 0) {
      out->claim(id + suffix, name + what, "<= 0", value, 0, "");
      out->own_target();
    } else {
      out->report(id + suffix, name + what, "", value, 0, "", "");
    }
  }
}

// Goodput by degree and seed; the seed draws the senders.
using Rates = std::vector<std::vector<double>>;

void add_rate(const Form& form, uint32_t degree, const Summary& rate, double ceiling,
              FigureResult* out) {
  const std::string id = fmt::format("{}.n{}", form.id, degree);
  const std::string what = fmt::format("{}: goodput / ceiling, {} senders", form.name, degree);
  if (*form.target != 0) {
    out->claim(id, what, form.target, rate.mean / ceiling, rate.deviation / ceiling, "");
  } else {
    out->report(id, what, "", rate.mean / ceiling, rate.deviation / ceiling, "",
                form.variant == &kDcqcn ? "the ceiling is that of mp, whose headers are 32 B longer"
                                        : "the paper's letter, to compare");
  }
}

// Compares runs with the same senders, seed by seed. `ceilings`: ceiling of DCQCN / ceiling of mp.
void add_gains(const Rates& mp, const Rates& dcqcn, const std::vector<uint32_t>& degrees,
               double ceilings, FigureResult* out) {
  std::vector<double> all;
  for (size_t d = 0; d < degrees.size(); ++d) {
    std::vector<double> gains;
    for (size_t s = 0; s < mp[d].size(); ++s) gains.push_back(mp[d][s] / dcqcn[d][s]);
    const Summary gain = summarise(gains);
    out->report(fmt::format("17.gain.n{}", degrees[d]),
                fmt::format("mp / DCQCN, {} senders", degrees[d]), "", gain.mean, gain.deviation,
                "x", "");
    all.insert(all.end(), gains.begin(), gains.end());
  }
  const Summary gain = summarise(all);
  out->report("17.gain", fmt::format("mp / DCQCN, all {} draws of senders and paths", all.size()),
              "", gain.mean, gain.deviation, "x", "the paper: about 1.03");
  out->report("17.gain.least", "the same, least", "", gain.least, 0, "x", "");
  out->report("17.gain.most", "the same, most", "", gain.most, 0, "x", "");
  out->report(
      "17.gain.of-ceilings", "the same, each as a share of its own ceiling", "",
      gain.mean * ceilings, gain.deviation * ceilings, "x",
      "headers of mp are 32 B longer than DCQCN's: with both at their ceilings mp has less");
}

Panel rate_panel(double ceiling) {
  Panel panel{"", "senders", "goodput at the receiver, Gb/s", {}};
  panel.marks = {{ceiling / 1e9, fmt::format("ceiling {:.1f}", ceiling / 1e9)},
                 {37.65, "paper: 37.65", true},
                 {37.65 / 1.03, "paper, DCQCN: about 3 % less", true}};
  panel.ymin = 30;
  panel.ymax = 39;
  return panel;
}

std::string deviations_of(const Scenario& first, uint32_t seeds) {
  return describe_deviations(
      fmt::format(
          "The marking is RED (1.0, 20 KB, 40 KB), the paper's testbed has a step at 20 KB: "
          "its form is beside, with a lower target. {} draws of the senders, in the paper "
          "five. The ratio to DCQCN is to our model of it.",
          seeds),
      first);
}

}  // namespace

FigureResult incast(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  const std::vector<uint32_t> degrees =
      options.ci() ? std::vector<uint32_t>{1, 3, 9}
                   : std::vector<uint32_t>{1, 2, 3, 4, 5, 6, 7, 8, kSendersMax};
  const uint32_t seeds = options.ci() ? 1 : 3;
  const std::array<Form, kForms> forms = all_forms();
  Batch batch(options);
  for (const Form& form : forms) {
    for (const uint32_t degree : degrees) {
      for (uint32_t s = 0; s < seeds; ++s) {
        const uint64_t seed = options.seed + s;
        batch.add_one(scenario_for(figure, form, degree, seed, options.ci()), seed);
      }
    }
  }
  batch.run();

  const Scenario& first = batch.scenario(0);
  const switchsim::LinkId last_hop = first.link(first.host_names[first.flows[0].to]);
  const double ceiling = ceiling_bps(first, last_hop);
  Panel panel = rate_panel(ceiling);
  std::array<Rates, kForms> rates;
  size_t group = 0;
  for (size_t f = 0; f < kForms; ++f) {
    const Form& form = forms[f];
    Curve curve{form.name, {}, {}, {}, Stroke::kLinePoints, form.variant->colour};
    if (form.step && form.variant == &kMp) curve.colour = 5;
    std::vector<Result> results;
    for (const uint32_t degree : degrees) {
      std::vector<double>& of_seeds = rates[f].emplace_back();
      for (uint32_t s = 0; s < seeds; ++s, ++group) {
        of_seeds.push_back(goodput_bps(batch.group(group)[0]));
        results.push_back(batch.group(group)[0]);
      }
      const Summary rate = summarise(of_seeds);
      curve.x.push_back(degree);
      curve.y.push_back(rate.mean / 1e9);
      curve.error.push_back(rate.deviation / 1e9);
      add_rate(form, degree, rate, ceiling, &out);
    }
    add_totals(results, form, &out);
    panel.curves.push_back(curve);
  }
  const double dcqcn_ceiling = ceiling_bps(batch.scenario(group - 1), last_hop);
  add_gains(rates[0], rates[kForms - 1], degrees, dcqcn_ceiling / ceiling, &out);
  out.panels.push_back(panel);
  batch.claim_sound("17", &out);
  out.constants = constants_of(first, last_hop, seeds);
  out.deviations = deviations_of(first, seeds);
  out.setup = fmt::format(
      "{:.4g} MB from each of 1 to 9 servers, drawn at random under both ToRs, to one; {}; {} "
      "seeds",
      static_cast<double>(first.flows[0].message_bytes) / 1e6, describe(first, last_hop), seeds);
  out.seen = "Goodput at the receiver is flat from one sender to nine, and nothing is lost";
  return out;
}

}  // namespace mprdma::figures
