// Figure 13: completion times of messages of web-search sizes over a leaf-spine, by load, over
// several draws of the messages.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "evaluation/batch.hpp"
#include "evaluation/list.hpp"
#include "evaluation/mp_rdma/dcqcn.hpp"
#include "evaluation/mp_rdma/fabric_wait.hpp"
#include "switchsim/sim/scenario/traffic.hpp"

namespace mprdma::figures {

namespace {

using switchsim::FctClass;
using switchsim::FctSummary;
using switchsim::FlowResult;
using switchsim::Result;
using switchsim::Scenario;

constexpr int kLoadCi = 50;
constexpr int kLoadAsserted = 60;
constexpr double kStopMsCi = 24;
constexpr uint32_t kShortStep = 10'000;
constexpr uint32_t kSeeds = 3;  // a seed draws messages, and the paths of DCQCN

struct Form {
  const Variant* variant;
  std::string id;
  std::string name;
  uint32_t step_bytes;     // threshold of the marking; 0: that of the file
  std::vector<int> loads;  // %
  uint32_t seeds = kSeeds;
};
constexpr size_t kMpForm = 0;
constexpr size_t kDcqcnForm = 1;
constexpr size_t kStepForm = 2;  // at full size

std::vector<Form> all_forms(bool ci) {
  const std::vector<int> loads =
      ci ? std::vector<int>{kLoadCi} : std::vector<int>{30, 40, 50, 60, 70, 80};
  std::vector<Form> forms = {{&kMp, "mp", kMp.name, 0, loads},
                             {&kDcqcn, "dcqcn", kDcqcn.name, 0, loads}};
  if (ci) {
    for (Form& form : forms) form.seeds = 2;
    return forms;
  }
  forms.push_back({&kMp, "mp-step10", "mp, step at 10 KB", kShortStep, {30, 50, 80}});
  forms.push_back({&kShipped, "shipped", kShipped.name, 0, {50}, 1});
  forms.push_back({&kPaper, "paper", kPaper.name, 0, {50}, 1});
  return forms;
}

// Makes the scenario of a run. The load counts payload, headers, preamble and gap of mp.
Scenario scenario_for(const Figure& figure, const Form& form, int load_percent, uint64_t seed,
                      bool ci) {
  const bool dcqcn = form.variant == &kDcqcn;
  switchsim::Overrides overrides;
  if (!dcqcn) overrides = form.variant->overrides;
  if (ci) {
    for (const char* one :
         {"topology.leaves=4", "warm_up_us=12_000", "traffic[0].stop_us=24_000"}) {
      overrides.emplace_back(one);
    }
  }
  Scenario scenario =
      dcqcn ? load_dcqcn(figure.scenario, overrides) : load(figure.scenario, overrides);
  for (switchsim::LinkConfig& link : scenario.topology.links) {
    for (switchsim::PortConfig* port : {&link.ab, &link.ba}) {
      if (form.step_bytes == 0 || port->red.kmax_bytes == 0) continue;
      port->red.kmin_bytes = port->red.kmax_bytes = form.step_bytes;
    }
  }
  switchsim::TrafficSpec& traffic = scenario.traffic[0];
  const uint32_t wire = switchsim::data_wire_bytes(traffic.flow.operation, traffic.flow.path_mtu);
  traffic.load = load_percent / 100.0 * traffic.flow.path_mtu / wire;
  scenario.seed = seed;
  switchsim::expand_traffic(&scenario);
  for (switchsim::FlowSpec& flow : scenario.flows) {
    flow.measure_paths = flow.timed_messages[0].bytes > FctSummary::kLargeBytes;
  }
  return scenario;
}

// The runs of each form and load: one group for each seed, in succession.
class Runs {
 public:
  Runs(const Figure& figure, const RunOptions& options)
      : forms_(all_forms(options.ci())), batch_(options) {
    for (const Form& form : forms_) {
      std::vector<size_t>& groups = groups_.emplace_back();
      for (const int load : form.loads) {
        for (uint64_t seed = options.seed; seed < options.seed + form.seeds; ++seed) {
          const size_t group =
              batch_.add_one(scenario_for(figure, form, load, seed, options.ci()), seed);
          if (seed == options.seed) groups.push_back(group);
        }
      }
    }
    batch_.run();
  }
  [[nodiscard]] const Batch& batch() const { return batch_; }
  [[nodiscard]] const std::vector<Form>& forms() const { return forms_; }
  [[nodiscard]] const std::vector<int>& loads() const { return forms_[kMpForm].loads; }
  [[nodiscard]] bool has(size_t form, int load) const {
    if (form >= forms_.size()) return false;
    const std::vector<int>& loads = forms_[form].loads;
    return std::find(loads.begin(), loads.end(), load) != loads.end();
  }
  // Returns the group of the first seed; those of the other seeds follow.
  [[nodiscard]] size_t group(size_t form, int load) const {
    const std::vector<int>& loads = forms_[form].loads;
    const auto found = std::find(loads.begin(), loads.end(), load);
    return groups_[form][static_cast<size_t>(found - loads.begin())];
  }
  [[nodiscard]] const Result& result(size_t form, int load, uint32_t seed) const {
    return batch_.group(group(form, load) + seed)[0];
  }
  // Summarises a value over the runs of all seeds.
  template <typename Value>
  [[nodiscard]] Summary over(size_t form, const Value& value) const {
    std::vector<double> values;
    for (uint32_t seed = 0; seed < forms_[form].seeds; ++seed) values.push_back(value(seed));
    return summarise(values);
  }

 private:
  std::vector<Form> forms_;
  Batch batch_;
  std::vector<std::vector<size_t>> groups_;
};

// ---- Completion times

struct Measure {
  std::string_view id;
  const char* name;
  const char* target;  // the lower end of what the paper reports
  const char* paper;
  const FctClass& (FctSummary::*of)() const;
  int colour;
};
constexpr std::array<Measure, 3> kMeasures = {
    {{"mean", "all messages", ">= 6", "the paper: 6.0 to 17.7 %", &FctSummary::all, 0},
     {"small", "below 100 KB", ">= 3.6", "the paper: 3.6 to 13.3 %", &FctSummary::small, 2},
     {"large", "above 10 MB", ">= 16.7", "the paper: 16.7 to 77.7 %", &FctSummary::large, 1}}};

double mean_us(const Runs& runs, size_t form, int load, uint32_t seed, const Measure& measure) {
  return (runs.result(form, load, seed).fct.*measure.of)().mean_us;
}

// How much shorter mp's completion time is than DCQCN's with the same messages, %.
Summary shorter(const Runs& runs, size_t form, int load, const Measure& measure) {
  return runs.over(form, [&](uint32_t seed) {
    return 100 * (1 - mean_us(runs, form, load, seed, measure) /
                          mean_us(runs, kDcqcnForm, load, seed, measure));
  });
}

// Mean completion time of the messages between two sizes.
double between_us(const Scenario& scenario, const Result& result, uint64_t least, uint64_t below) {
  std::vector<double> times;
  for (const FlowResult& flow : result.flows) {
    for (const switchsim::MessageRecord& one : flow.messages) {
      if (one.bytes < least || one.bytes >= below) continue;
      if (one.posted < switchsim::SimTime() + scenario.warm_up) continue;
      times.push_back(static_cast<double>(one.fct().count_ps()) / 1e6);
    }
  }
  return summarise(times).mean;
}

// Mean completion time of small messages, of a few packets and of dozens of packets.
double few_packets_us(const Scenario& scenario, const Result& result) {
  return between_us(scenario, result, 0, 10'000);
}
double dozens_of_packets_us(const Scenario& scenario, const Result& result) {
  return between_us(scenario, result, 30'000, FctSummary::kSmallBytes);
}

// ---- What a packet meets on its way, while messages arrive

struct Met {
  Summary wait_us;  // of a packet
  Summary use;
  Summary offered;
  Summary carried;
  Summary few_us;  // of messages of few packets
  Summary dozens_us;
};

Met met(const Runs& runs, size_t form, int load) {
  const auto all = [&](double (*value)(const Scenario&, const Result&)) {
    return runs.over(form, [&](uint32_t seed) {
      return value(runs.batch().scenario(runs.group(form, load) + seed),
                   runs.result(form, load, seed));
    });
  };
  return {all(fabric_wait_us), all(server_link_use), all(offered_load),
          all(carried_load),   all(few_packets_us),  all(dozens_of_packets_us)};
}

// Is the load reached that the figure names? Asserted of mp where the links are not near their
// limit.
void add_reached(size_t form, const Form& about, int load, const Met& value, FigureResult* out) {
  const std::string id = fmt::format("13.{}.reached.load-{}", about.id, load);
  const std::string what =
      fmt::format("{}, load {} %: load that arrives / {} %", about.name, load, load);
  const double share = value.carried.mean * 100 / load;
  const double deviation = value.carried.deviation * 100 / load;
  if (form != kMpForm) {
    out->report(id, what, "", share, deviation, "", "while messages arrive");
    return;
  }
  if (load <= kLoadAsserted) {
    out->claim(id, what, ">= 0.9", share, deviation, "");
    out->claims.back().note = "while messages arrive";
  } else {
    out->explain(
        id, what, ">= 0.9", share, deviation, "",
        fmt::format("the draws offer {:.2f} of the links, {:.2f} arrive while they do, and "
                    "the rest later: servers that draw more than their share fall behind "
                    "for longer than is measured, and acknowledgements take room, too (use "
                    "{:.2f})",
                    value.offered.mean, value.carried.mean, value.use.mean));
  }
  out->own_target();
}

void add_met(const Runs& runs, FigureResult* out) {
  for (size_t form = 0; form < runs.forms().size(); ++form) {
    const Form& about = runs.forms()[form];
    for (const int load : about.loads) {
      const Met value = met(runs, form, load);
      const auto add = [&](const char* id, const char* what, const Summary& of, const char* unit,
                           const char* note) {
        out->report(fmt::format("13.{}.{}.load-{}", about.id, id, load),
                    fmt::format("{}, load {} %: {}", about.name, load, what), "", of.mean,
                    of.deviation, unit, note);
      };
      add("wait", "mean wait in the queues between two servers", value.wait_us, "us",
          "while messages arrive");
      add("use", "mean use of the links to servers", value.use, "", "while messages arrive");
      add("offered", "load that the messages of the draws offer", value.offered, "",
          "while messages arrive");
      add_reached(form, about, load, value, out);
      add("few-fct", "mean FCT below 10 KB", value.few_us, "us", "");
      add("dozens-fct", "mean FCT from 30 to 100 KB", value.dozens_us, "us", "");
    }
  }
}

// Explains the times of small messages from the same runs.
std::string small_why(const Runs& runs, int load) {
  const Met mp = met(runs, kMpForm, load);
  const Met dcqcn = met(runs, kDcqcnForm, load);
  std::string out = fmt::format(
      "a packet waits {:.1f} us in switches, with DCQCN {:.1f}; below 10 KB they take {:.1f} us, "
      "with DCQCN {:.1f}, from 30 KB on {:.1f}, {:.1f}: they lose with each packet that shares a "
      "server's link, of which large messages take more (use {:.2f}, with DCQCN {:.2f})",
      mp.wait_us.mean, dcqcn.wait_us.mean, mp.few_us.mean, dcqcn.few_us.mean, mp.dozens_us.mean,
      dcqcn.dozens_us.mean, mp.use.mean, dcqcn.use.mean);
  if (!runs.has(kStepForm, load)) return out;
  const Met step = met(runs, kStepForm, load);
  return out + fmt::format("; with the threshold at 10 KB (mp-step10) {:.1f} us from 30 KB on",
                           step.dozens_us.mean);
}

void add_gains(const Runs& runs, bool ci, FigureResult* out) {
  for (size_t form = 0; form < runs.forms().size(); ++form) {
    if (form == kDcqcnForm) continue;
    const Form& about = runs.forms()[form];
    for (const Measure& measure : kMeasures) {
      for (const int load : about.loads) {
        const std::string id = fmt::format("13.{}.{}.load-{}", about.id, measure.id, load);
        const std::string what = fmt::format("{}, {}, load {} %: mean FCT shorter than DCQCN's by",
                                             about.name, measure.name, load);
        const Summary value = shorter(runs, form, load, measure);
        if (form != kMpForm) {
          out->report(id, what, "", value.mean, value.deviation, "%", measure.paper);
        } else if (measure.id == "small") {
          out->explain(id, what, measure.target, value.mean, value.deviation, "%",
                       small_why(runs, load));
        } else if (ci && measure.id == "large") {
          out->report(id, what, measure.target, value.mean, value.deviation, "%",
                      "a test has too few");
        } else {
          out->claim(id, what, measure.target, value.mean, value.deviation, "%");
          out->claims.back().note = measure.paper;
        }
      }
    }
  }
}

// Reports the times themselves, and the tail of small messages.
void add_times(const Runs& runs, FigureResult* out) {
  for (const size_t form : {kMpForm, kDcqcnForm}) {
    const Form& about = runs.forms()[form];
    for (const int load : about.loads) {
      const auto add = [&](const char* id, const char* what, const auto& of) {
        const Summary value =
            runs.over(form, [&](uint32_t seed) { return of(runs.result(form, load, seed).fct); });
        out->report(fmt::format("13.{}.{}.load-{}", about.id, id, load),
                    fmt::format("{}, load {} %: {}", about.name, load, what), "", value.mean,
                    value.deviation, "us", "");
      };
      add("fct", "mean FCT", [](const FctSummary& fct) { return fct.all().mean_us; });
      add("small-fct", "mean FCT below 100 KB",
          [](const FctSummary& fct) { return fct.small().mean_us; });
      add("small-p99", "99th percentile below 100 KB",
          [](const FctSummary& fct) { return fct.small().p99_us; });
      add("large-fct", "mean FCT above 10 MB",
          [](const FctSummary& fct) { return fct.large().mean_us; });
    }
  }
}

Panel fct_panel(const Runs& runs) {
  Panel panel{"Mean completion times", "load, %", "mp / DCQCN", {}};
  for (const Measure& measure : kMeasures) {
    Curve curve{measure.name, {}, {}, {}, Stroke::kBars, measure.colour};
    for (const int load : runs.loads()) {
      curve.x.push_back(static_cast<double>(curve.x.size()));
      const Summary gain = shorter(runs, kMpForm, load, measure);
      curve.y.push_back(1 - gain.mean / 100);
      curve.error.push_back(gain.deviation / 100);
    }
    panel.curves.push_back(curve);
  }
  panel.marks = {{1 - 0.06, "paper, all messages: 0.94 ..", true}, {1 - 0.177, ".. to 0.82", true}};
  for (const int load : runs.loads()) panel.categories.push_back(fmt::format("{}", load));
  panel.ymax = 1.4;
  return panel;
}

// ---- Virtual paths of large messages

// Virtual paths of the messages under way, averaged by their age in points of the series.
struct PathCounts {
  std::vector<double> ever;
  std::vector<double> recent;
  std::vector<double> messages;
};

void count_paths(const FlowResult& flow, switchsim::SimTime begin, const Result& result,
                 PathCounts* out) {
  const double begin_us = static_cast<double>(begin.ps()) / 1e6;
  const auto first =
      static_cast<size_t>(std::upper_bound(result.time_us.begin(), result.time_us.end(), begin_us) -
                          result.time_us.begin());
  for (size_t i = first; i < flow.virtual_paths_series.size(); ++i) {
    if (flow.delivered_series[i] == flow.posted_bytes) return;
    const size_t age = i - first;
    if (age >= out->ever.size()) {
      for (auto* values : {&out->ever, &out->recent, &out->messages}) values->resize(age + 1);
    }
    out->ever[age] += flow.virtual_paths_series[i];
    out->recent[age] += flow.virtual_paths_recent_series[i];
    out->messages[age] += 1;
  }
}

PathCounts paths_of(const Runs& runs, int load) {
  PathCounts out;
  for (uint32_t seed = 0; seed < runs.forms()[kMpForm].seeds; ++seed) {
    const Result& result = runs.result(kMpForm, load, seed);
    const Scenario& scenario = runs.batch().scenario(runs.group(kMpForm, load) + seed);
    for (size_t i = 0; i < result.flows.size(); ++i) {
      if (result.flows[i].virtual_paths_series.empty()) continue;
      count_paths(result.flows[i], scenario.flows[i].timed_messages[0].at, result, &out);
    }
  }
  for (size_t age = 0; age < out.ever.size(); ++age) {
    out.ever[age] /= out.messages[age];
    out.recent[age] /= out.messages[age];
  }
  return out;
}

Panel paths_panel(const Runs& runs, int load, FigureResult* out) {
  Panel panel{"Messages above 10 MB", "ms since it began", "virtual paths", {}};
  const PathCounts counts = paths_of(runs, load);
  const double point_ms = static_cast<double>(runs.batch().scenario(0).sample.count_ps()) / 1e9;
  Curve ever{"so far", {}, {}, {}, Stroke::kLinePoints, 0};
  Curve recent{fmt::format("in the last {} ms", point_ms), {}, {}, {}, Stroke::kLinePoints, 2};
  constexpr double kFew = 5;
  for (size_t age = 0; age < counts.ever.size() && counts.messages[age] >= kFew; ++age) {
    const double ms = (static_cast<double>(age) + 0.5) * point_ms;
    ever.x.push_back(ms);
    ever.y.push_back(counts.ever[age]);
    recent.x.push_back(ms);
    recent.y.push_back(counts.recent[age]);
  }
  panel.curves = {ever, recent};
  panel.marks = {{54, "paper, at the start: 54", true}, {70, "paper, later: 60 to 70", true}};
  panel.ymax = 100;
  for (const auto& [id, what, curve] :
       {std::tuple{"ever", "so far", &ever}, std::tuple{"recent", "in use", &recent}}) {
    if (curve->y.empty()) continue;
    const std::string text =
        fmt::format("load {} %: virtual paths of a large message, {}, ", load, what);
    out->report(fmt::format("13.paths.{}.first", id), text + "first point", "", curve->y.front(), 0,
                "", "the paper: 54 at the start");
    out->report(fmt::format("13.paths.{}.last", id),
                text + fmt::format("after {:.1f} ms", curve->x.back()), "", curve->y.back(), 0, "",
                "the paper: about 60 to 70 of a long flow");
  }
  return panel;
}

double unfinished(const Runs& runs) {
  double sum = 0;
  for (size_t form = 0; form < runs.forms().size(); ++form) {
    for (const int load : runs.forms()[form].loads) {
      for (uint32_t seed = 0; seed < runs.forms()[form].seeds; ++seed) {
        sum += static_cast<double>(runs.result(form, load, seed).fct.unfinished);
      }
    }
  }
  return sum;
}

std::string setup_of(const Figure& figure, const Runs& runs, bool ci) {
  const Scenario& first = runs.batch().scenario(0);
  const Scenario file = load(figure.scenario);  // with [[traffic]], which runs have not
  const switchsim::LinkConfig& up = file.topology.links[file.link("leaf1-spine1")];
  const auto spines = std::count_if(
      file.topology.links.begin(), file.topology.links.end(),
      [&](const auto& link) { return link.a == up.a && link.b >= file.topology.hosts; });
  const auto messages = [&](int load, const FctClass& (FctSummary::*of)() const) {
    uint64_t sum = 0;
    for (uint32_t seed = 0; seed < runs.forms()[kMpForm].seeds; ++seed) {
      sum += (runs.result(kMpForm, load, seed).fct.*of)().messages;
    }
    return sum;
  };
  const int low = runs.loads().front();
  const int high = runs.loads().back();
  return fmt::format(
      "{} servers under leaves with {:.4g} Gb/s to each of {} spines, base RTT {} us, PFC; "
      "messages of web-search sizes from each to random others at random times (Poisson) for "
      "{:.4g} "
      "ms, each on a connection of its own, and all that came until then; those of the first "
      "{:.4g} ms are not counted; mean and standard deviation of {} seeds, which together count {} "
      "messages at load {} % ({} above 10 MB) to {} at {} % ({}); load: of the links, headers of "
      "mp included; {}; {}: its own RED",
      first.topology.hosts, static_cast<double>(up.ab.rate.bits_per_second()) / 1e9, spines,
      first.flows[0].params.initial_rtt.count_ns() / 1000,  // in the file it is the base RTT
      ci ? kStopMsCi : static_cast<double>(file.traffic[0].flow.stop.ps()) / 1e9,
      static_cast<double>(first.warm_up.count_ps()) / 1e9, runs.forms()[kMpForm].seeds,
      messages(low, &FctSummary::all), low, messages(low, &FctSummary::large),
      messages(high, &FctSummary::all), high, messages(high, &FctSummary::large),
      describe(first, first.link("h1")), kDcqcn.name);
}

}  // namespace

FigureResult completion_times(const Figure& figure, const RunOptions& options) {
  FigureResult out;
  const Runs runs(figure, options);
  add_gains(runs, options.ci(), &out);
  add_times(runs, &out);
  add_met(runs, &out);
  out.claim("13.unfinished", "messages that did not finish, all runs", "<= 0", unfinished(runs), 0,
            "");
  out.own_target();
  out.panels.push_back(fct_panel(runs));
  out.panels.push_back(paths_panel(runs, kLoadCi, &out));
  runs.batch().claim_sound("13", &out);

  const Scenario& first = runs.batch().scenario(0);
  out.constants = constants_of(first, first.link("h1"), runs.forms()[kMpForm].seeds);
  out.deviations = describe_deviations(
      fmt::format(
          "{} draws; the paper states neither their number nor how long it ran. A load counts "
          "data packets with mp's headers; acknowledgements come on top. Messages that "
          "come last complete while no more arrive. mp has the step at 60 KB, the paper's "
          "threshold in this network, DCQCN its own RED and its own headers, 32 B shorter; "
          "DCQCN is our model of it.",
          runs.forms()[kMpForm].seeds),
      first);
  out.setup = setup_of(figure, runs, options.ci());
  out.seen = "Large messages and the mean gain most where one path for each collides";
  return out;
}

}  // namespace mprdma::figures
