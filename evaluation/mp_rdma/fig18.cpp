// Figure 18: synchronise messages that come before the data that they follow, by alpha.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/prng.hpp"
#include "evaluation/batch.hpp"
#include "evaluation/list.hpp"
#include "evaluation/mp_rdma/message_sizes.hpp"
#include "evaluation/mp_rdma/sync_beside.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;
using switchsim::Scenario;

constexpr double kLoad = 0.8;
constexpr std::array<double, 5> kAlphas = {0, 0.25, 0.5, 0.75, 1};

// Gives each connection messages at random times (Poisson), so that all together offer `load` of
// the paths' capacity.
void make_open_loop(double load, Scenario* scenario) {
  const double paths_bps =
      ceiling_bps(*scenario, scenario->paths[0]) * static_cast<double>(scenario->paths.size());
  const auto flows = static_cast<double>(scenario->flows.size());
  const Prng draws = Prng(scenario->seed).split("arrivals");
  for (size_t f = 0; f < scenario->flows.size(); ++f) {
    switchsim::FlowSpec& flow = scenario->flows[f];
    Prng prng = draws.split(f);
    const double mean_ps =
        static_cast<double>(flow.message_bytes) * 8e12 / (load * paths_bps / flows);
    double at_ps = 0;
    while (true) {
      // A random number, uniform in (0, 1].
      const double u = (static_cast<double>(prng.next_u64() >> 11) + 1) / 9007199254740992.0;
      at_ps -= std::log(u) * mean_ps;
      if (at_ps >= static_cast<double>(scenario->duration.count_ps())) break;
      flow.timed_messages.push_back(
          {switchsim::SimTime::from_ps(static_cast<int64_t>(at_ps)), flow.message_bytes});
    }
  }
}

Scenario scenario_for(const Figure& figure, const Variant& variant, const MessageSize& size,
                      double alpha, bool ci) {
  Scenario scenario = load(figure.scenario, variant.overrides);
  if (ci) shorten(&scenario, 4);
  for (switchsim::FlowSpec& flow : scenario.flows) {
    flow.message_bytes = size.bytes;
    flow.params.sync_alpha = Fixed16::from_raw(static_cast<uint32_t>(std::lround(alpha * 65536)));
  }
  return scenario;
}

double early(const Result& result) {
  double sum = 0;
  for (const auto& flow : result.flows) sum += static_cast<double>(flow.sync_early);
  return sum;
}

double early_share(const Result& result) {
  double posted = 0;
  for (const auto& flow : result.flows) posted += static_cast<double>(flow.sync_posted);
  return posted == 0 ? 0 : early(result) / posted;
}

struct Group {
  const Variant* variant;
  const MessageSize* size;
  std::vector<size_t> by_alpha;  // numbers of groups of runs
};

std::vector<double> shares_of(const Batch& batch, const Group& group) {
  std::vector<double> out;
  for (const size_t number : group.by_alpha) {
    out.push_back(batch.over(number, early_share).mean);
  }
  return out;
}

// The largest ratio of a value to the one before it; below 1 if all values fall, or stay 0 once one
// is 0.
double least_fall(const std::vector<double>& values) {
  double most = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    if (values[i] != 0) most = std::max(most, values[i - 1] == 0 ? 1 : values[i] / values[i - 1]);
  }
  return most;
}

void add_claims(const Batch& batch, const Group& group, const std::vector<double>& alphas,
                FigureResult* out) {
  const bool ours = group.variant != &kPaper;
  const std::string id = fmt::format(
      "18.{}.{}", group.variant == &kMp ? "mp" : (ours ? "shipped" : "paper"), group.size->id);
  const std::string name = fmt::format("{}, {}: ", group.variant->name, group.size->name);
  for (size_t a = 0; a < alphas.size(); ++a) {
    const Summary share = batch.over(group.by_alpha[a], early_share);
    out->report(fmt::format("{}.alpha-{}", id, alphas[a]),
                fmt::format("{}too early, alpha = {}", name, alphas[a]), "", share.mean * 100,
                share.deviation * 100, "%", "");
  }
  const Summary last = batch.over(group.by_alpha.back(), early);
  out->claim_ours(ours, id + ".none", name + "messages too early with alpha = 1, most in a run",
                  "<= 0", last.most, 0, "");
  // The next claim needs early messages at alpha = 0.
  const std::vector<double> shares = shares_of(batch, group);
  out->claim_ours(ours, id + ".some", name + "too early with alpha = 0", ">= 5", shares[0] * 100, 0,
                  "%");
  if (ours) out->own_target();
  out->claim_ours(ours, id + ".falling",
                  name + "too early, most of an alpha / that of the next smaller one", "< 1",
                  least_fall(shares), 0, "");
}

// Compares larger messages with smaller ones.
void compare_sizes(const Batch& batch, const Group& large, const Group& small,
                   const std::vector<double>& alphas, FigureResult* out) {
  for (const double alpha : {0.0, 0.5}) {
    const auto a =
        static_cast<size_t>(std::find(alphas.begin(), alphas.end(), alpha) - alphas.begin());
    const double least = std::max(shares_of(batch, small)[a], 1e-9);
    out->explain(fmt::format("18.mp.larger.alpha-{}", alpha),
                 fmt::format("mp, too early, 512 KB / 32 KB, alpha = {}", alpha), "> 1",
                 shares_of(batch, large)[a] / least, 0, "x",
                 "as shares of the messages it is the other way round here; why is not shown");
  }
}

std::string deviations_of(const Batch& batch, const Scenario& first, uint32_t seeds) {
  uint64_t counted = 0;
  for (const Result& result : batch.group(0)) counted += result.fct.all().messages;
  return describe_deviations(
      fmt::format("{} seeds of {:.4g} ms, which count {} messages of 512 KB with and without the "
                  "flag for each alpha: none too early among so few does not tell a rate below one "
                  "in a few hundred. The paper does not state its number.",
                  seeds, static_cast<double>((first.duration - first.warm_up).count_ps()) / 1e9,
                  counted),
      first);
}

}  // namespace

FigureResult synchronise_order(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  Batch batch(options);
  const uint32_t seeds = options.ci() ? 1 : 2;
  std::vector<double> alphas(kAlphas.begin(), kAlphas.end());
  std::vector<const Variant*> variants = {&kMp, &kShipped, &kPaper};
  if (options.ci()) {
    alphas = {0, 0.5, 1};
    variants = {&kMp};
  }
  std::vector<Group> groups;
  for (const Variant* variant : variants) {
    for (const MessageSize* size : kMessageSizes) {
      Group group{variant, size, {}};
      for (const double alpha : alphas) {
        Scenario scenario = scenario_for(figure, *variant, *size, alpha, options.ci());
        group.by_alpha.push_back(
            batch.add_each(scenario, seeds, [](Scenario* one) { make_open_loop(kLoad, one); }));
      }
      groups.push_back(group);
    }
  }
  const SyncBeside beside = add_sync_beside(seeds, options.ci(), &batch);
  batch.run();
  for (const Group& group : groups) add_claims(batch, group, alphas, &out);
  compare_sizes(batch, groups[0], groups[1], alphas, &out);
  claim_sync_beside(batch, beside, &out);
  for (const MessageSize* size : kMessageSizes) {
    Panel panel{size->name, "alpha", "synchronise messages too early, %", {}};
    for (const Group& group : groups) {
      if (group.size != size) continue;
      Curve curve{group.variant->name, {}, {}, {}, Stroke::kLinePoints, group.variant->colour};
      for (size_t a = 0; a < alphas.size(); ++a) {
        const Summary share = batch.over(group.by_alpha[a], early_share);
        curve.x.push_back(alphas[a]);
        curve.y.push_back(share.mean * 100);
        curve.error.push_back(share.deviation * 100);
      }
      panel.curves.push_back(curve);
    }
    panel.marks = {{0, "paper: none at alpha = 1", true}};
    out.panels.push_back(panel);
  }
  batch.claim_sound("18", &out);
  const Scenario& first = batch.scenario(0);
  out.constants = constants_of(first, first.paths[0], seeds);
  out.constants.set("load", kLoad);
  out.deviations = deviations_of(batch, first, seeds);
  out.setup = fmt::format(
      "Five connections over four paths, messages at random times (Poisson), load {} of the four "
      "paths, every second one (drawn) with the synchronise flag; {}; {}. Beside a connection: "
      "scenario synchronise-beside.toml, 64 messages posted, all of them with the flag",
      kLoad, describe(first, first.paths[0]), describe_times(first, seeds));
  out.seen = "alpha = 1 lets no synchronise message come too early";
  return out;
}

}  // namespace mprdma::figures
