// Figure 19: goodput by the share of messages with the synchronise flag.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tools/figures/batch.hpp"
#include "tools/figures/dcqcn.hpp"
#include "tools/figures/list.hpp"
#include "tools/figures/message_sizes.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;
using switchsim::Scenario;

constexpr std::array<uint32_t, 6> kShares = {0, 20, 40, 60, 80, 100};  // %

// What the paper reports in Gb/s, as it says: relative to DCQCN's 20 or so.
constexpr double kDcqcnGbps = 102.46 / 5;
struct PaperPoint {
  uint32_t share;
  double gbps;
};
constexpr std::array<PaperPoint, 3> kPaper32k = {
    {{0, kDcqcnGbps * 1.49}, {60, kDcqcnGbps * 1.13}, {80, kDcqcnGbps*(1 - 0.1628)}}};

struct Form {
  const Variant* variant;
  const char* id;
  std::string name;
  transport::SyncPolicy policy;
};

const std::vector<Form>& all_forms() {
  static const std::vector<Form> kAll = {
      {&kMp, "19.mp", "mp", transport::SyncPolicy::kOptimistic},
      {&kMp, "19.wait", "mp, stop and wait", transport::SyncPolicy::kStopAndWait},
      {&kMp128, "19.mp128", "mp, L = 128", transport::SyncPolicy::kOptimistic},
      {&kPaper, "19.paper", "mp-paper", transport::SyncPolicy::kOptimistic},
  };
  return kAll;
}

// Why targets are missed.
constexpr const char* kAboveCeiling =
    "four links carry 28.8 Gb/s for each of five connections with our headers, and that is reached";
constexpr const char* kDelayed =
    "where all messages are synchronised the 146 us of one at its share of the links grow by 5.2 "
    "us "
    "of waiting, delta / w of a round trip less what the burst behind it wins back; 4.4 us would "
    "do";
constexpr const char* kRoundTrip =
    "a message takes 9 us at its share of the links; stop and wait adds a round trip, the delay "
    "delta / w of one, 0.6: that makes 0.7, and no factor of two";

// The runs of a form and a size, by share.
struct Group {
  const Form* form;
  const MessageSize* size;
  std::vector<size_t> by_share;
};

double mean_gbps(const Result& result) {
  return result.goodput_bps / 1e9 / static_cast<double>(result.flows.size());
}

Summary rate(const Batch& batch, const Group& group, size_t share) {
  return batch.over(group.by_share[share], mean_gbps);
}

class Claims {
 public:
  Claims(const Batch& batch, const std::vector<uint32_t>& shares, FigureResult* out)
      : batch_(batch), shares_(shares), out_(out) {
    const Scenario& scenario = batch.scenario(0);
    share_bps_ = ceiling_bps(scenario, scenario.paths[0]) *
                 static_cast<double>(scenario.paths.size()) /
                 static_cast<double>(scenario.flows.size());
  }

  void add(const Group& group) {
    const std::string id = fmt::format("{}.{}", group.form->id, group.size->id);
    const std::string name = fmt::format("{}, {}: ", group.form->name, group.size->name);
    for (size_t s = 0; s < shares_.size(); ++s) {
      const Summary value = rate(batch_, group, s);
      out_->report(fmt::format("{}.{}", id, shares_[s]),
                   fmt::format("{}goodput of a connection, {} % synchronise", name, shares_[s]), "",
                   value.mean, value.deviation, "Gb/s", "");
    }
    if (group.form->policy == transport::SyncPolicy::kStopAndWait) return;
    const bool ours = group.form->variant != &kPaper;
    claim(ours, id + ".ceiling", name + "without the flag / a fifth of four links' ceiling",
          ">= 0.97", rate(batch_, group, 0).mean * 1e9 / share_bps_, "");
    if (group.size == &kLargeMessages) {
      large(group, id, name, ours);
    } else {
      small(group, id, name, ours);
    }
  }

  // Stop and wait, against waiting for the time only, where everything is synchronised.
  void compare(const Group& wait, const Group& optimistic) {
    const size_t all = shares_.size() - 1;
    const double ratio = rate(batch_, wait, all).mean / rate(batch_, optimistic, all).mean;
    out_->report(
        fmt::format("19.wait.{}.ratio", wait.size->id),
        fmt::format("stop and wait / mp, {}, {} % synchronise", wait.size->name, shares_[all]),
        wait.size == &kLargeMessages ? "" : "< 0.5", ratio, 0, "x",
        wait.size == &kLargeMessages ? "" : kRoundTrip);
  }

 private:
  void claim(bool ours, const std::string& id, const std::string& what, const char* target,
             double value, const char* note) {
    if (ours && *note == 0) {
      out_->claim(id, what, target, value, 0, "x");
    } else {
      out_->report(id, what, target, value, 0, "x", ours ? note : "the paper's letter, to compare");
    }
  }
  void large(const Group& group, const std::string& id, const std::string& name, bool ours) {
    double least = 1e9;
    for (size_t s = 1; s < shares_.size(); ++s) {
      least = std::min(least, rate(batch_, group, s).mean);
    }
    claim(ours, id + ".least", name + "least goodput with the flag / without", ">= 0.97",
          least / rate(batch_, group, 0).mean, kDelayed);
  }
  void small(const Group& group, const std::string& id, const std::string& name, bool ours) {
    for (const PaperPoint& point : kPaper32k) {
      const auto found = std::find(shares_.begin(), shares_.end(), point.share);
      if (found == shares_.end()) continue;
      const auto s = static_cast<size_t>(found - shares_.begin());
      claim(
          ours, fmt::format("{}.paper-{}", id, point.share),
          fmt::format("{}goodput at {} % / the paper's {:.1f} Gb/s", name, point.share, point.gbps),
          ">= 1", rate(batch_, group, s).mean / point.gbps, point.share == 0 ? kAboveCeiling : "");
    }
  }

  const Batch& batch_;
  const std::vector<uint32_t>& shares_;
  FigureResult* out_;
  double share_bps_ = 0;  // of a connection
};

// ---- DCQCN: one path for each connection, as ECMP draws it. It is in order by itself: the flag
// means nothing to it.

constexpr uint32_t kDraws = 20;
constexpr uint32_t kDrawsCi = 4;

size_t add_draws(const Figure& figure, const MessageSize& size, bool ci, Batch* batch) {
  Scenario scenario = load_dcqcn(figure.scenario);
  if (ci) shorten(&scenario, 2);
  for (switchsim::FlowSpec& flow : scenario.flows) {
    flow.message_bytes = size.bytes;
    flow.synchronise_ppm = 0;
  }
  return batch->add(scenario, ci ? kDrawsCi : kDraws);
}

void add_draw_claims(const Batch& batch, size_t draws, const Group& mp,
                     const std::vector<uint32_t>& shares, FigureResult* out) {
  const Summary dcqcn = batch.over(draws, mean_gbps);
  const MessageSize& size = *mp.size;
  const std::string what = fmt::format("{}, {}: ", kDcqcn.name, size.name);
  out->report(fmt::format("19.dcqcn.{}", size.id), what + "goodput of a connection, over the draws",
              "", dcqcn.mean, dcqcn.deviation, "Gb/s", "the paper: about 20");
  const auto gain = [&](const std::string& id, const std::string& text, double of, double than,
                        const std::string& note) {
    out->report(fmt::format("19.gain.{}.{}", size.id, id), fmt::format("{}: {}", size.name, text),
                "", of / than, 0, "x", note);
  };
  for (size_t s = 0; s < shares.size(); ++s) {
    std::string note = "the paper: 1.48 at every share";
    if (&size == &kSmallMessages) {
      const auto* point = std::find_if(kPaper32k.begin(), kPaper32k.end(),
                                       [&](const auto& one) { return one.share == shares[s]; });
      note = point == kPaper32k.end() ? ""
                                      : fmt::format("the paper: {:.2f}", point->gbps / kDcqcnGbps);
    }
    gain(fmt::format("{}", shares[s]),
         fmt::format("mp at {} % synchronise / mean of the draws of {}", shares[s], kDcqcn.name),
         rate(batch, mp, s).mean, dcqcn.mean, note);
  }
  const double none = rate(batch, mp, 0).mean;
  gain("least", "mp without the flag / best draw", none, dcqcn.most, "");
  gain("most", "mp without the flag / worst draw", none, dcqcn.least, "");
  const Scenario& scenario = batch.scenario(draws);
  const size_t paths = scenario.paths.size();
  gain("expected", "mp without the flag / what random paths carry at best", none,
       ceiling_bps(scenario, scenario.paths[0]) / 1e9 *
           paths_expected(scenario.flows.size(), paths) /
           static_cast<double>(scenario.flows.size()),
       fmt::format("five random flows on four paths use {:.2f}; the paper's draw used three",
                   paths_expected(scenario.flows.size(), paths)));
}

Curve draws_curve(const Batch& batch, size_t draws, const std::vector<uint32_t>& shares) {
  const Summary dcqcn = batch.over(draws, mean_gbps);
  Curve curve{fmt::format("{}, {} draws", kDcqcn.name, batch.group(draws).size()),
              {},
              {},
              {},
              Stroke::kLine,
              7};
  for (const uint32_t share : shares) {
    curve.x.push_back(share);
    curve.y.push_back(dcqcn.mean);
    curve.error.push_back(dcqcn.deviation);
  }
  return curve;
}

Panel size_panel(const Batch& batch, const std::vector<Group>& groups, const MessageSize& size,
                 const std::vector<uint32_t>& shares) {
  Panel panel{size.name, "share of synchronise messages, %", "goodput of a connection, Gb/s", {}};
  int colour = 0;
  for (const Group& group : groups) {
    if (group.size != &size) continue;
    Curve curve{group.form->name, {}, {}, {}, Stroke::kLinePoints, colour++};
    for (size_t s = 0; s < shares.size(); ++s) {
      const Summary value = rate(batch, group, s);
      curve.x.push_back(shares[s]);
      curve.y.push_back(value.mean);
      curve.error.push_back(value.deviation);
    }
    panel.curves.push_back(curve);
  }
  if (&size == &kSmallMessages) {
    Curve paper{"paper", {}, {}, {}, Stroke::kPoints, 6};
    for (const PaperPoint& point : kPaper32k) {
      paper.x.push_back(point.share);
      paper.y.push_back(point.gbps);
    }
    panel.curves.push_back(paper);
  } else {
    panel.marks.push_back({30, "paper: about 30", true});
  }
  panel.marks.push_back({kDcqcnGbps, "paper: DCQCN", true});
  panel.ymax = 36;
  return panel;
}

}  // namespace

FigureResult synchronise_goodput(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  Batch batch(options);
  const uint32_t seeds = options.ci() ? 1 : 2;
  std::vector<uint32_t> shares(kShares.begin(), kShares.end());
  if (options.ci()) shares = {0, 60, 100};
  std::vector<Group> groups;
  for (const Form& form : all_forms()) {
    // A test runs what it asserts.
    if (options.ci() && form.variant != &kMp) continue;
    for (const MessageSize* size : kMessageSizes) {
      Group group{&form, size, {}};
      for (const uint32_t share : shares) {
        Scenario scenario = load(figure.scenario, form.variant->overrides);
        if (options.ci()) shorten(&scenario, 4);
        for (switchsim::FlowSpec& flow : scenario.flows) {
          flow.message_bytes = size->bytes;
          flow.synchronise_ppm = share * 10'000;
          flow.params.sync_policy = form.policy;
        }
        group.by_share.push_back(batch.add(scenario, seeds));
      }
      groups.push_back(group);
    }
  }
  std::array<size_t, kMessageSizes.size()> draws{};
  for (size_t s = 0; s < kMessageSizes.size(); ++s) {
    draws[s] = add_draws(figure, *kMessageSizes[s], options.ci(), &batch);
  }
  batch.run();
  Claims claims(batch, shares, &out);
  for (const Group& group : groups) claims.add(group);
  for (size_t s = 0; s < kMessageSizes.size(); ++s)
    claims.compare(groups[kMessageSizes.size() + s], groups[s]);
  for (size_t s = 0; s < kMessageSizes.size(); ++s) {
    out.panels.push_back(size_panel(batch, groups, *kMessageSizes[s], shares));
    out.panels.back().curves.push_back(draws_curve(batch, draws[s], shares));
    add_draw_claims(batch, draws[s], groups[s], shares, &out);
  }
  batch.claim_sound("19", &out);
  const Scenario& first = batch.scenario(0);
  out.constants = constants_of(first, first.paths[0], seeds);
  out.setup = fmt::format(
      "Five connections over four paths, always 16 messages posted, alpha = 1; {}; {}. "
      "{}: {} draws of ECMP, its own RED",
      describe(first, first.paths[0]), describe_times(first, seeds), kDcqcn.name,
      batch.group(draws[0]).size());
  out.seen = "Large messages do not feel the synchronise flag, small ones wait";
  return out;
}

}  // namespace mprdma::figures
