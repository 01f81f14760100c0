// Figure 19: goodput by the share of messages with the synchronise flag.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "evaluation/batch.hpp"
#include "evaluation/list.hpp"
#include "evaluation/mp_rdma/dcqcn.hpp"
#include "evaluation/mp_rdma/message_sizes.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;
using switchsim::Scenario;

constexpr std::array<uint32_t, 6> kShares = {0, 20, 40, 60, 80, 100};  // %

// The paper's values in Gb/s, derived: it reports them relative to DCQCN's rate of "about 20", for
// which its total of figure 12(a) stands here.
constexpr double kDcqcnGbps = 102.46 / 5;
constexpr const char* kDerived =
    "derived: the paper reports percentages of DCQCN's rate, \"about 20 Gb/s\", for which a fifth "
    "of "
    "its 102.46 Gb/s of figure 12(a) stands; that 49 % belong to a share of 0 and 13 % to 60 % is "
    "our reading of \"13 to 49 % under 0 to 60 %\"";
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
      {&kShipped, "19.shipped", "mp as shipped", transport::SyncPolicy::kOptimistic},
      {&kPaper, "19.paper", "mp-paper", transport::SyncPolicy::kOptimistic},
  };
  return kAll;
}

// The runs of a form and a message size, by share.
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

// ---- What stands behind the reasons: runs in which every message is synchronised, with one thing
// changed

struct Variation {
  const char* id;
  const char* name;
  const MessageSize* size;
  transport::SyncPolicy policy;
  switchsim::Overrides overrides;
};

// Sets the base RTT and the window that fills it. L follows the link: with L = 64 half of the
// window could not wait.
switchsim::Overrides with_rtt(uint32_t us) {
  switchsim::Overrides out = kShipped.overrides;
  out.push_back(fmt::format("topology.base_rtt_us={}", us));
  out.push_back(fmt::format("transport.initial_rtt_us={}", us));
  out.push_back(fmt::format("transport.initial_window={}", us * 54 / 12));
  return out;
}

const std::vector<Variation>& all_variations() {
  using transport::SyncPolicy;
  static const switchsim::Overrides kDelta16 = {kMp.overrides[0], "transport.reorder_delta=16"};
  static const switchsim::Overrides kAlphaHalf = {kMp.overrides[0], "transport.sync_alpha=0.5"};
  static const std::vector<Variation> kAll = {
      {"delta-16", "delta = 16", &kLargeMessages, SyncPolicy::kOptimistic, kDelta16},
      {"alpha-0.5", "alpha = 0.5", &kLargeMessages, SyncPolicy::kOptimistic, kAlphaHalf},
      {"rtt-24", "base RTT 24 us", &kSmallMessages, SyncPolicy::kOptimistic, with_rtt(24)},
      {"wait-rtt-24", "stop and wait, base RTT 24 us", &kSmallMessages, SyncPolicy::kStopAndWait,
       with_rtt(24)},
  };
  return kAll;
}

// The time that a message takes at its connection's rate.
double message_us(const MessageSize& size, double gbps) {
  return static_cast<double>(size.bytes) * 8 / gbps / 1e3;
}

// What the flag on all messages adds to the time of a message.
class Added {
 public:
  Added(const Batch& batch, const Group& mp_large, const Group& mp_small, const Group& wait_small)
      : none_gbps_(rate(batch, mp_large, 0).mean) {
    const auto last = [&](const Group& group) {
      return added_us(*group.size, rate(batch, group, group.by_share.size() - 1).mean);
    };
    large_us = last(mp_large);
    small_us = last(mp_small);
    wait_us = last(wait_small);
  }
  // Adds the claims of the variations, whose groups begin with `first`.
  void add_variations(const Batch& batch, size_t first, FigureResult* out) {
    for (size_t i = 0; i < all_variations().size(); ++i) {
      const Variation& one = all_variations()[i];
      const Summary gbps = batch.over(first + i, mean_gbps);
      out->report(fmt::format("19.why.{}", one.id),
                  fmt::format("mp, {}, {}: goodput, 100 % synchronise", one.size->name, one.name),
                  "", gbps.mean, gbps.deviation, "Gb/s", "");
      varied_us_.push_back(added_us(*one.size, gbps.mean));
      out->report(
          fmt::format("19.why.{}.added", one.id),
          fmt::format("mp, {}, {}: time that this adds to a message", one.size->name, one.name), "",
          varied_us_.back(), 0, "us", "");
    }
  }
  void report(FigureResult* out) const {
    const auto add = [out](const char* id, const std::string& what, double us) {
      out->report(fmt::format("19.why.{}.added", id),
                  what + ": time that 100 % synchronise adds to a message", "", us, 0, "us", "");
    };
    add("mp.512k", "mp, 512 KB", large_us);
    add("mp.32k", "mp, 32 KB", small_us);
    add("wait.32k", "mp, stop and wait, 32 KB", wait_us);
  }
  [[nodiscard]] std::string large_why() const {
    const double alone_us = message_us(kLargeMessages, none_gbps_);
    std::string out = fmt::format(
        "the {:.0f} us of a message at its share of the links grow by {:.1f} us; {:.1f} would do",
        alone_us, large_us, alone_us * (1 / 0.97 - 1));
    if (varied_us_.empty()) return out;
    return out + fmt::format(
                     "; it waits for delta / w of a round trip: {:.1f} us with delta = 16, "
                     "{:.1f} us with alpha = 0.5",
                     varied_us_[0], varied_us_[1]);
  }
  [[nodiscard]] std::string wait_why() const {
    const double alone_us = message_us(kSmallMessages, none_gbps_);
    std::string out = fmt::format(
        "a message takes {:.1f} us at its share of the links; stop and wait adds {:.1f} us, delta "
        "/ w of a round trip {:.1f} us",
        alone_us, wait_us, small_us);
    if (varied_us_.empty()) return out;
    const double ratio = (alone_us + varied_us_[2]) / (alone_us + varied_us_[3]);
    return out + fmt::format(
                     "; with a base RTT of 24 us they add {:.1f} and {:.1f} us, and the "
                     "ratio is {:.2f}",
                     varied_us_[3], varied_us_[2], ratio);
  }

  double large_us = 0;
  double small_us = 0;
  double wait_us = 0;

 private:
  [[nodiscard]] double added_us(const MessageSize& size, double gbps) const {
    return message_us(size, gbps) - message_us(size, none_gbps_);
  }
  double none_gbps_;
  std::vector<double> varied_us_;
};

class Claims {
 public:
  Claims(const Batch& batch, const std::vector<uint32_t>& shares, const Added& added,
         FigureResult* out)
      : batch_(batch), shares_(shares), added_(added), out_(out) {
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
    out_->claim_ours(ours, id + ".ceiling",
                     name + "without the flag / a fifth of four links' ceiling", ">= 0.97",
                     rate(batch_, group, 0).mean * 1e9 / share_bps_, 0, "x");
    if (group.size == &kLargeMessages) {
      large(group, id, name, ours);
    } else {
      small(group, id, name, ours);
    }
  }

  // Compares stop-and-wait with the optimistic delay, where all messages are synchronised.
  void compare(const Group& wait, const Group& optimistic) {
    const size_t all = shares_.size() - 1;
    const double ratio = rate(batch_, wait, all).mean / rate(batch_, optimistic, all).mean;
    const std::string id = fmt::format("19.wait.{}.ratio", wait.size->id);
    const std::string what =
        fmt::format("stop and wait / mp, {}, {} % synchronise", wait.size->name, shares_[all]);
    if (wait.size == &kLargeMessages) {
      out_->report(id, what, "", ratio, 0, "x", "");
    } else {
      out_->explain(id, what, "< 0.5", ratio, 0, "x", added_.wait_why());
    }
  }

 private:
  void large(const Group& group, const std::string& id, const std::string& name, bool ours) {
    double least = 1e9;
    for (size_t s = 1; s < shares_.size(); ++s) {
      least = std::min(least, rate(batch_, group, s).mean);
    }
    out_->explain(id + ".least", name + "least goodput with the flag / without", ">= 0.97",
                  least / rate(batch_, group, 0).mean, 0, "x",
                  ours ? added_.large_why() : "the paper's letter, to compare");
  }
  void small(const Group& group, const std::string& id, const std::string& name, bool ours) {
    for (const PaperPoint& point : kPaper32k) {
      const auto found = std::find(shares_.begin(), shares_.end(), point.share);
      if (found == shares_.end()) continue;
      const auto s = static_cast<size_t>(found - shares_.begin());
      const std::string what = fmt::format(
          "{}goodput at {} % / {:.1f} Gb/s, derived from the paper", name, point.share, point.gbps);
      const std::string point_id = fmt::format("{}.paper-{}", id, point.share);
      const double value = rate(batch_, group, s).mean / point.gbps;
      if (ours && point.share == 0) {
        out_->explain(point_id, what, ">= 1", value, 0, "x",
                      fmt::format("four links carry {:.1f} Gb/s for each of five connections with "
                                  "our headers, and that is reached (.ceiling); {:.1f} is {}",
                                  share_bps_ / 1e9, point.gbps, kDerived));
      } else {
        out_->claim_ours(ours, point_id, what, ">= 1", value, 0, "x");
        if (ours) out_->claims.back().note = kDerived;
      }
    }
  }

  const Batch& batch_;
  const std::vector<uint32_t>& shares_;
  const Added& added_;
  FigureResult* out_;
  double share_bps_ = 0;  // rate of one connection
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
    Curve paper{"derived from the paper", {}, {}, {}, Stroke::kPoints, 6};
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

// Returns the number of the first group.
size_t add_variations(const Figure& figure, uint32_t seeds, Batch* batch) {
  size_t last = 0;
  for (const Variation& one : all_variations()) {
    Scenario scenario = load(figure.scenario, one.overrides);
    for (switchsim::FlowSpec& flow : scenario.flows) {
      flow.message_bytes = one.size->bytes;
      flow.synchronise_ppm = 1'000'000;
      flow.params.sync_policy = one.policy;
    }
    last = batch->add(scenario, seeds);
  }
  return last + 1 - all_variations().size();
}

std::string deviations_of(const Scenario& first, uint32_t seeds) {
  return describe_deviations(
      fmt::format("The paper's curve for 32 KB is {}; for 20 and 40 % it states no value, and none "
                  "is claimed. Posting 16 messages at a time is our choice. {} seeds of {:.4g} ms. "
                  "DCQCN is our model of it, over draws of ECMP.",
                  kDerived, seeds, static_cast<double>(first.duration.count_ps()) / 1e9),
      first);
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
    // A small run covers only what a test asserts.
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
  const size_t variations = options.ci() ? 0 : add_variations(figure, seeds, &batch);
  batch.run();
  // The groups are in the order of all_forms() and kMessageSizes.
  Added added(batch, groups[0], groups[1], groups[kMessageSizes.size() + 1]);
  added.report(&out);
  if (!options.ci()) added.add_variations(batch, variations, &out);
  Claims claims(batch, shares, added, &out);
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
  out.deviations = deviations_of(first, seeds);
  out.setup = fmt::format(
      "Five connections over four paths, always 16 messages posted, alpha = 1; {}; {}. "
      "{}: {} draws of ECMP, its own RED",
      describe(first, first.paths[0]), describe_times(first, seeds), kDcqcn.name,
      batch.group(draws[0]).size());
  out.seen = "Large messages do not feel the synchronise flag, small ones wait";
  return out;
}

}  // namespace mprdma::figures
