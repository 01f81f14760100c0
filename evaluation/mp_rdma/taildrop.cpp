// A tail-drop bottleneck without ECN: loss is the only signal.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "evaluation/batch.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;
using switchsim::Scenario;

constexpr std::array<uint32_t, 2> kSenders = {2, 8};
// The first buffer is half a bandwidth-delay product; its results are shown, and no claim is made
// of them.
constexpr std::array<uint32_t, 5> kBufferKb = {30, 60, 150, 400, 1000};
constexpr uint32_t kBdpKb = 60;
// More timeouts than this, per flow and second, are a storm: at a floor of 500 us a flow that does
// nothing else has up to 2000.
constexpr const char* kStorm = "<= 100";
constexpr const char* kFair = ">= 0.95";
constexpr const char* kLetter = "the paper's letter, to compare";

Scenario scenario_for(const Figure& figure, const Variant& variant, uint32_t senders,
                      uint32_t buffer_kb, bool ci) {
  Scenario scenario = load(figure.scenario, variant.overrides);
  scenario.flows.resize(senders);
  scenario.topology.links[scenario.link("bottleneck")].ab.queue_bytes_max = buffer_kb * 1000ULL;
  if (ci) shorten(&scenario, 4);
  return scenario;
}

// Share of the packets that a flow sends again, of its fastest and of its slowest flow.
struct Resent {
  double fastest;
  double slowest;
};

Resent resent(const Result& result) {
  const auto slower = [](const auto& a, const auto& b) { return a.goodput_bps < b.goodput_bps; };
  const auto [slowest, fastest] =
      std::minmax_element(result.flows.begin(), result.flows.end(), slower);
  const auto share = [](const switchsim::FlowResult& flow) {
    return static_cast<double>(flow.sender.packets_retransmitted) /
           static_cast<double>(std::max<uint64_t>(flow.sender.packets_sent, 1));
  };
  return {share(*fastest), share(*slowest)};
}

// Fairness is asserted wherever goodput is, but among eight flows at the largest buffer, which take
// turns of a hundred round trips.
void add_fairness(const Batch& batch, size_t group, const Variant& variant, uint32_t buffer_kb,
                  const std::string& id, const std::string& what, FigureResult* out) {
  const Summary fair = batch.over(group, [](const Result& r) { return r.jain; });
  const std::string jain = what + ", Jain's index";
  const bool few = batch.scenario(group).flows.size() == kSenders[0];
  const bool asserted = buffer_kb >= kBdpKb && (few || buffer_kb < kBufferKb.back());
  if (&variant == &kPaper) {
    out->report(id + ".jain", jain, "", fair.mean, fair.deviation, "", kLetter);
  } else if (asserted) {
    out->claim(id + ".jain", jain, kFair, fair.mean, fair.deviation, "");
  } else {
    const Summary fastest = batch.over(group, [](const Result& r) { return resent(r).fastest; });
    const Summary slowest = batch.over(group, [](const Result& r) { return resent(r).slowest; });
    out->explain(
        id + ".jain", jain, kFair, fair.mean, fair.deviation, "",
        fmt::format("the full buffer drops {:.1f} % of what the slowest flow sends and {:.1f} % of "
                    "the fastest one's: a flow with a small window grows by less between its "
                    "losses and stays small; marking (ECN) is what shares a link fairly",
                    slowest.mean * 100, fastest.mean * 100));
  }
}

void add_claims(const Batch& batch, size_t group, const Variant& variant, uint32_t senders,
                uint32_t buffer_kb, double ceiling, FigureResult* out) {
  const double seconds =
      static_cast<double>(batch.scenario(group).duration.count_ps()) / 1e12 * senders;
  const Summary share = batch.over(group, [&](const Result& r) { return r.goodput_bps / ceiling; });
  const Summary timeouts = batch.over(
      group, [&](const Result& r) { return static_cast<double>(r.timeouts()) / seconds; });
  const std::string id = fmt::format(
      "taildrop.{}.n{}.{}kb",
      &variant == &kMp ? "mp" : (&variant == &kShipped ? "shipped" : "paper"), senders, buffer_kb);
  const std::string what = fmt::format("{}: {} senders, {} KB", variant.name, senders, buffer_kb);
  const bool ours = &variant != &kPaper;
  if (ours && buffer_kb >= kBdpKb) {
    out->claim(id, what + ", goodput / ceiling", ">= 0.93", share.mean, share.deviation, "");
    out->claim(id + ".rto", what + ", timeouts", kStorm, timeouts.mean, timeouts.deviation,
               "/flow/s");
  } else {
    const char* note = ours ? "less than one BDP: only reported" : kLetter;
    out->report(id, what + ", goodput / ceiling", ours ? ">= 0.93" : "", share.mean,
                share.deviation, "", note);
    out->report(id + ".rto", what + ", timeouts", ours ? kStorm : "", timeouts.mean,
                timeouts.deviation, "/flow/s", note);
  }
  add_fairness(batch, group, variant, buffer_kb, id, what, out);
}

// The groups from `group` on, in which nothing is left to chance.
void add_clockwork(const Batch& batch, size_t group, FigureResult* out) {
  for (const uint32_t buffer_kb : kBufferKb) {
    const Summary fair = batch.over(group++, [](const Result& r) { return r.jain; });
    out->report(fmt::format("taildrop.clockwork.n{}.{}kb.jain", kSenders.back(), buffer_kb),
                fmt::format("{}: {} senders, {} KB, no jitter, Jain's index", kShipped.name,
                            kSenders.back(), buffer_kb),
                kFair, fair.mean, fair.deviation, "",
                "without any chance phases decide whose packets the full queue drops");
  }
}

std::string setup_of(const Scenario& first, switchsim::LinkId bottleneck, uint32_t seeds) {
  return fmt::format(
      "Senders of their own hosts share one link that drops what does not fit; "
      "acknowledgements leave up to {} us late, at random, but in rows without jitter; {}; {}",
      first.ack_jitter.count_ps() / 1'000'000, describe(first, bottleneck),
      describe_times(first, seeds));
}

}  // namespace

FigureResult tail_drop(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  Batch batch(options);
  const std::array<const Variant*, 3> variants = {&kShipped, &kMp, &kPaper};
  const uint32_t seeds = options.ci() ? 1 : 3;
  for (const Variant* variant : variants) {
    for (const uint32_t senders : kSenders) {
      for (const uint32_t buffer_kb : kBufferKb) {
        batch.add(scenario_for(figure, *variant, senders, buffer_kb, options.ci()), seeds);
      }
    }
  }
  for (const uint32_t buffer_kb : kBufferKb) {
    Scenario clockwork = scenario_for(figure, kShipped, kSenders.back(), buffer_kb, options.ci());
    clockwork.ack_jitter = switchsim::SimSpan();
    batch.add(clockwork, seeds);
  }
  batch.run();
  const Scenario& first = batch.scenario(0);
  const switchsim::LinkId bottleneck = first.link("bottleneck");
  const double ceiling = ceiling_bps(first, bottleneck);
  for (const uint32_t senders : kSenders) {
    Panel panel{
        fmt::format("{} senders", senders), "buffer of the bottleneck", "goodput / ceiling", {}};
    for (const uint32_t kb : kBufferKb) panel.categories.push_back(fmt::format("{} KB", kb));
    panel.marks = {{0.93, "0.93"}};
    panel.ymax = 1.1;
    out.panels.push_back(panel);
  }
  size_t group = 0;
  for (const Variant* variant : variants) {
    for (size_t n = 0; n < kSenders.size(); ++n) {
      Curve curve{variant->name, {}, {}, {}, Stroke::kBars, variant->colour};
      for (size_t b = 0; b < kBufferKb.size(); ++b, ++group) {
        const Summary share =
            batch.over(group, [&](const Result& r) { return r.goodput_bps / ceiling; });
        curve.x.push_back(static_cast<double>(b));
        curve.y.push_back(share.mean);
        curve.error.push_back(share.deviation);
        add_claims(batch, group, *variant, kSenders[n], kBufferKb[b], ceiling, &out);
      }
      out.panels[n].curves.push_back(curve);
    }
  }
  add_clockwork(batch, group, &out);
  batch.claim_sound("taildrop", &out);
  out.own_targets();
  out.constants = constants_of(first, bottleneck, seeds);
  out.deviations =
      describe_deviations("The paper has no such network: every target is ours.", first);
  out.setup = setup_of(first, bottleneck, seeds);
  out.seen =
      "Without ECN loss is signal enough at a buffer of a BDP or more; hosts that are no clocks "
      "share the link fairly";
  return out;
}

}  // namespace mprdma::figures
