// Figures irn/fct, irn/tail, irn/slowdown: what messages take, by transport, PFC and congestion
// control ("Key results"). irn/pfc: what PFC does to IRN and to RoCE.
#include <fmt/format.h>

#include <string_view>

#include "evaluation/irn/forms.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using irn::Control;
using irn::Form;
using irn::kControls;
using irn::Runs;
using irn::Transport;
using switchsim::FctSummary;

struct Measure {
  std::string_view id;
  const char* name;
  Runs::Value value;
  const char* unit;
};
constexpr Measure kMean = {"fct", "mean FCT", [](const FctSummary& f) { return f.all().mean_us; },
                           "us"};
constexpr Measure kTail = {"tail", "99th percentile of FCT",
                           [](const FctSummary& f) { return f.all().p99_us; }, "us"};
constexpr Measure kSlowdown = {"slowdown", "mean slowdown",
                               [](const FctSummary& f) { return f.all().slowdown_mean; }, "x"};

// Seeds at the small size: its few messages make a 99th percentile only together.
constexpr uint32_t kSeedsCi = 1;
constexpr uint32_t kSeedsOfTailCi = 3;

double unfinished(const FctSummary& fct) {
  return static_cast<double>(fct.unfinished);
}

Form irn_form(Control control, bool pfc = false) {
  return {Transport::kIrn, control, pfc};
}
Form roce_form(Control control, bool pfc = true) {
  return {Transport::kRoce, control, pfc};
}
constexpr Form kMpForm = {Transport::kMp};

// `few`: too few messages for the measure.
void claim_ratio(const Runs& runs, const Measure& measure, const std::string& id,
                 const std::string& what, const char* target, const Form& form, const Form& to,
                 bool few, FigureResult* out) {
  const Summary ratio = runs.ratio(form, to, measure.value);
  const std::string text =
      fmt::format("{}: {}: {} / {}", what, measure.name, form.name(), to.name());
  if (few) {
    out->report(id, text, target, ratio.mean, ratio.deviation, "", irn::kFew);
  } else {
    out->claim(id, text, target, ratio.mean, ratio.deviation, "");
  }
}

void report_beside(const Runs& runs, const Measure& measure, const std::string& id,
                   FigureResult* out) {
  const Summary beside = runs.ratio(kMpForm, irn_form(Control::kNone), measure.value);
  out->report(id, fmt::format("{}: mp / IRN without PFC", measure.name), "", beside.mean,
              beside.deviation, "", "one connection uses all paths");
}

void report_values(const Runs& runs, const Measure& measure, std::string_view figure,
                   FigureResult* out) {
  for (const Form& form : runs.forms()) {
    const Summary value = runs.of(form, measure.value);
    out->report(fmt::format("{}.{}.{}", figure, form.id(), measure.id),
                fmt::format("{}: {}", form.name(), measure.name), "", value.mean, value.deviation,
                measure.unit, "");
  }
}

Panel panel_of(const Runs& runs, const Measure& measure, const std::vector<Form>& bars) {
  Panel panel{fmt::format("{}, load 70 %", measure.name), "", measure.unit, {}};
  int colour = 0;
  for (const Form& form : bars) {
    Curve curve{form.name(), {}, {}, {}, Stroke::kBars, colour++};
    const Summary value = runs.of(form, measure.value);
    curve.x.push_back(0);
    curve.y.push_back(value.mean);
    curve.error.push_back(value.deviation);
    panel.curves.push_back(curve);
  }
  panel.categories = {""};
  return panel;
}

std::string setup_of(const Runs& runs) {
  const switchsim::Scenario& first = runs.batch().scenario(0);
  return fmt::format(
      "{} servers under a three-tier fat-tree, links of 40 Gb/s and 2 us; without PFC a port of a "
      "switch holds 240 KB, two bandwidth-delay products; with PFC an ingress pauses its neighbour "
      "at 220 KB; heavy-tailed messages from each to random others at random times (Poisson), at "
      "70 % of the links, each on a connection of its own, and all that came until the end; {} "
      "seeds; BDP-FC 110 packets of 1 KB; RTO_low 100 us, RTO_high 320 us",
      first.topology.hosts, runs.seeds());
}

// What all figures of this file end with.
void finish(const Runs& runs, const std::string& number, FigureResult* out) {
  double sum = 0;
  for (const Form& form : runs.forms()) {
    const bool known = form.transport == Transport::kRoce && !form.pfc;
    if (!known) sum += runs.of(form, unfinished).mean;
  }
  out->claim(number + ".unfinished", "messages that did not finish, but of RoCE without PFC",
             "<= 0", sum, 0, "");
  out->own_targets();
  runs.batch().claim_sound(number, out);
  const switchsim::Scenario& first = runs.batch().scenario(0);
  out->constants = constants_of(first, switchsim::LinkId{0}, runs.seeds());
  out->setup = setup_of(runs);
  out->deviations =
      "The slides state neither the number of servers nor the sizes' distribution, which is a "
      "reconstruction (switchsim/workloads): results are IRN-like. Their values are read from no "
      "picture: the claims are which transport is faster. Timers of the slides, without back-off "
      "there. DCQCN and TIMELY are our models of them; with DCQCN switches mark by RED (1 %, 5 KB, "
      "200 KB), with mp at a step of 60 KB. RoCE has as many packets in flight as PFC or the rate "
      "allows (1024). Where switches drop, its timeout is 0.5 ms; with PFC, where nothing is lost, "
      "67 ms. 1024 B of payload with our headers; hosts take no time.";
}

// IRN without PFC against RoCE with PFC, under each control, and mp beside them.
FigureResult compare(const Figure& figure, const RunOptions& options, const Measure& measure) {
  std::vector<Form> forms;
  for (const Control control : kControls) {
    forms.push_back(irn_form(control));
    forms.push_back(roce_form(control));
  }
  forms.push_back(kMpForm);
  const Runs runs(figure, options, forms, measure.id == kTail.id ? kSeedsOfTailCi : kSeedsCi);
  const std::string number = figure.number();
  FigureResult out;
  for (const Control control : kControls) {
    claim_ratio(runs, measure, fmt::format("{}.{}.ratio", number, irn::id_of(control)),
                "IRN without PFC is faster than RoCE with PFC", "< 1", irn_form(control),
                roce_form(control), false, &out);
  }
  report_beside(runs, measure, number + ".mp.ratio", &out);
  report_values(runs, measure, number, &out);
  out.panels.push_back(panel_of(runs, measure, forms));
  finish(runs, number, &out);
  out.seen = fmt::format("IRN without PFC has a lower {} than RoCE with it", measure.name);
  return out;
}

}  // namespace

FigureResult irn_mean(const Figure& figure, const RunOptions& options) {
  return compare(figure, options, kMean);
}

FigureResult irn_tail(const Figure& figure, const RunOptions& options) {
  return compare(figure, options, kTail);
}

FigureResult irn_slowdown(const Figure& figure, const RunOptions& options) {
  return compare(figure, options, kSlowdown);
}

FigureResult irn_pfc(const Figure& figure, const RunOptions& options) {
  std::vector<Form> forms;
  for (const Control control : kControls) {
    forms.push_back(irn_form(control));
    forms.push_back(irn_form(control, true));
    forms.push_back(roce_form(control));
    forms.push_back(roce_form(control, false));
  }
  forms.push_back(kMpForm);
  const Runs runs(figure, options, forms, kSeedsCi);
  const std::string number = figure.number();
  FigureResult out;
  for (const Measure& measure : {kMean, kTail, kSlowdown}) {
    const bool few = options.ci() && measure.id == kTail.id;
    for (const Control control : kControls) {
      claim_ratio(runs, measure,
                  fmt::format("{}.irn.{}.{}", number, irn::id_of(control), measure.id),
                  "IRN does not need PFC", "<= 1.05", irn_form(control), irn_form(control, true),
                  few, &out);
    }
    for (const Control control : kControls) {
      const bool bare = control == Control::kNone;
      claim_ratio(runs, measure,
                  fmt::format("{}.roce.{}.{}", number, irn::id_of(control), measure.id),
                  "RoCE needs PFC", bare ? ">= 2" : "> 1", roce_form(control, false),
                  roce_form(control), !bare && few, &out);
    }
    report_beside(runs, measure, fmt::format("{}.mp.{}.ratio", number, measure.id), &out);
    report_values(runs, measure, number, &out);
  }
  for (const Control control : kControls) {
    const Form form = roce_form(control, false);
    const Summary failed = runs.of(form, unfinished);
    out.report(fmt::format("{}.roce.{}.unfinished", number, irn::id_of(control)),
               form.name() + ": messages that did not finish, which no measure counts", "",
               failed.mean, failed.deviation, "", "");
  }
  out.panels.push_back(panel_of(runs, kMean, forms));
  finish(runs, number, &out);
  out.seen = "PFC does not help IRN; without it RoCE is slower, and alone collapses";
  return out;
}

}  // namespace mprdma::figures
