// Figure 20: flowlets of RDMA, whose NIC takes a packet of each flow in turn, and of TCP, whose NIC
// takes 64 KB.
#include <fmt/format.h>

#include <array>

#include "evaluation/batch.hpp"
#include "evaluation/list.hpp"
#include "switchsim/sim/hosts/flowlets.hpp"

namespace mprdma::figures {

namespace {

using switchsim::kFlowletGapsNs;
using switchsim::Result;
using switchsim::Scenario;

// A turn of TCP's NIC: 64 KB in packets of 1024 B.
constexpr uint32_t kOffloadPackets = 64;
constexpr size_t kGap2us = 2;
constexpr size_t kGap100us = 7;
constexpr size_t kGap200us = 8;
static_assert(kFlowletGapsNs[kGap2us] == 2'000 && kFlowletGapsNs[kGap100us] == 100'000 &&
              kFlowletGapsNs[kGap200us] == 200'000);

struct Form {
  const char* id;
  const char* name;
  const char* preset;
  uint32_t turn_packets;
  int colour;
};
constexpr std::array<Form, 3> kForms = {
    {{"20.rdma", "RDMA, one path: a packet at a turn", "mp-single", 1, 0},
     {"20.mp", "mp: a packet at a turn", "mp", 1, 2},
     {"20.burst", "64 KB at a turn, as TCP's segmentation offload", "mp-single", kOffloadPackets,
      1}}};

// The mean size of a flowlet, as a share of what its flow sent, averaged over the flows.
double flowlet_share(const Result& result, size_t gap) {
  double sum = 0;
  for (const auto& flow : result.flows) {
    sum += 1 / static_cast<double>(flow.flowlet_pauses[gap] + 1);
  }
  return sum / static_cast<double>(result.flows.size());
}

double flowlet_kb(const Result& result, size_t gap) {
  double sum = 0;
  for (const auto& flow : result.flows) {
    sum +=
        static_cast<double>(flow.flowlet_bytes) / static_cast<double>(flow.flowlet_pauses[gap] + 1);
  }
  return sum / static_cast<double>(result.flows.size()) / 1e3;
}

void add_claims(const Batch& batch, FigureResult* out) {
  for (size_t f = 0; f < kForms.size(); ++f) {
    const Form& form = kForms[f];
    for (size_t gap = 0; gap < kFlowletGapsNs.size(); ++gap) {
      const Summary size = batch.over(f, [gap](const Result& r) { return flowlet_kb(r, gap); });
      out->report(fmt::format("{}.{}", form.id, kFlowletGapsNs[gap]),
                  fmt::format("{}: flowlet, gap {:.4g} us", form.name,
                              static_cast<double>(kFlowletGapsNs[gap]) / 1e3),
                  "", size.mean, size.deviation, "KB", "");
    }
    if (form.turn_packets != 1) continue;
    const Summary whole = batch.over(f, [](const Result& r) { return flowlet_share(r, kGap2us); });
    out->claim(fmt::format("{}.whole", form.id),
               fmt::format("{}: flowlet / all that the flow sent, gap 2 us", form.name), ">= 1",
               whole.least, 0, "");
  }
  const size_t burst = kForms.size() - 1;
  const Summary size = batch.over(burst, [](const Result& r) { return flowlet_kb(r, kGap100us); });
  out->claim("20.burst.low", "64 KB at a turn: flowlet at a gap of 100 us", ">= 55", size.mean,
             size.deviation, "KB");
  out->claim("20.burst.high", "64 KB at a turn: flowlet at a gap of 100 us", "<= 70", size.mean,
             size.deviation, "KB");
  const Summary whole =
      batch.over(burst, [](const Result& r) { return flowlet_share(r, kGap200us); });
  out->report("20.burst.whole", "64 KB at a turn: flowlet / all that the flow sent, gap 200 us", "",
              whole.mean, whole.deviation, "", "");
}

// Draws the paper's values in KB, up to the gap that a turn of all flows takes.
Panel size_panel(const Batch& batch) {
  const size_t burst = kForms.size() - 1;
  Panel panel{kForms[burst].name, "inactivity gap, us", "mean size of a flowlet, KB", {}};
  Curve curve{kForms[burst].name, {}, {}, {}, Stroke::kLinePoints, kForms[burst].colour};
  for (size_t gap = 0; gap <= kGap100us; ++gap) {
    const Summary size = batch.over(burst, [gap](const Result& r) { return flowlet_kb(r, gap); });
    curve.x.push_back(static_cast<double>(kFlowletGapsNs[gap]) / 1e3);
    curve.y.push_back(size.mean);
    curve.error.push_back(size.deviation);
  }
  panel.curves = {curve};
  panel.marks = {{60, "paper, TCP at 100 us: 60 KB", true}};
  panel.xlog = true;
  panel.legend = false;
  panel.ymax = 100;
  return panel;
}

}  // namespace

FigureResult flowlets(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  Batch batch(options);
  const uint32_t seeds = options.ci() ? 1 : 3;
  for (const Form& form : kForms) {
    Scenario scenario =
        load(figure.scenario, {fmt::format("transport.preset=\"{}\"", form.preset)});
    for (switchsim::FlowSpec& flow : scenario.flows) flow.turn_packets = form.turn_packets;
    if (options.ci()) shorten(&scenario, 4);
    batch.add(scenario, seeds);
  }
  batch.run();
  add_claims(batch, &out);
  Panel panel{"", "inactivity gap, us", "mean size of a flowlet / all that the flow sent", {}};
  for (size_t f = 0; f < kForms.size(); ++f) {
    Curve curve{kForms[f].name, {}, {}, {}, Stroke::kLinePoints, kForms[f].colour};
    for (size_t gap = 0; gap < kFlowletGapsNs.size(); ++gap) {
      const Summary share = batch.over(f, [gap](const Result& r) { return flowlet_share(r, gap); });
      curve.x.push_back(static_cast<double>(kFlowletGapsNs[gap]) / 1e3);
      curve.y.push_back(share.mean);
      curve.error.push_back(share.deviation);
    }
    panel.curves.push_back(curve);
  }
  panel.xlog = true;
  panel.ymax = 1.15;
  panel.marks = {{1, "paper: RDMA beyond 2 us", true}};
  out.panels.push_back(panel);
  out.panels.push_back(size_panel(batch));
  batch.claim_sound("20", &out);
  const Scenario& first = batch.scenario(0);
  out.constants = constants_of(first, first.paths[0], seeds);
  out.deviations = describe_deviations(
      "There is no TCP: a flow whose NIC takes 64 packets at a turn stands for its segmentation "
      "offload. That its flowlets have the size of a turn follows from the set-up; the rows of it "
      "only check that the NIC does so, and are no evidence about TCP.",
      first);
  out.setup = fmt::format(
      "Eight flows of one host share its link; a flowlet is what leaves between two pauses of that "
      "flow longer than the gap. There is no TCP in the simulator: the NIC takes 64 KB of a flow "
      "at "
      "a turn, all else is ours; {}; {}",
      describe(first, first.paths[0]), describe_times(first, seeds));
  out.seen = "A NIC that takes packets in turn leaves no flowlets; segmentation offload does";
  return out;
}

}  // namespace mprdma::figures
