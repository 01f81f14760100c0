// swarm: many runs of two transport endpoints over a simulated network, each drawn from one seed.
//
//   swarm --seeds A..B           a range of seeds; stops at the first finding
//   swarm --seed N --verbose     one run, with what its hosts and its network do
//   swarm --seed N --trace FILE  one run, with the events of its queue pairs, a JSON object a line
//   swarm --kind K ..            every run of this kind
//   swarm --roce ..              between connections of the standard, instead of the mode mp
//   swarm --irn ..               between connections of the mode irn
//   swarm --engine ..            between hosts that owe acknowledgements and send segments
//   swarm --set KEY=VALUE ..     with a parameter of every queue pair set (docs/parameters.md)
//   swarm --sabotage S ..        with a harness that is broken on purpose: must find something
//
// A finding prints one line with the command that replays it, and the exit status is 1. So does a
// failed CHECK, a crash and a run that takes too long.

#include <malloc.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/swarm/overrides.hpp"
#include "tests/swarm/world.hpp"

namespace {

using mprdma::swarm::expect;
using mprdma::swarm::Failure;
using mprdma::swarm::Kind;
using mprdma::swarm::Options;
using mprdma::swarm::override_param;
using mprdma::swarm::Sabotage;
using mprdma::swarm::Scenario;
using mprdma::swarm::World;
using mprdma::transport::Protocol;
using mprdma::transport::TransportCounters;

constexpr time_t kSecondsPerSeed = 10;

// The replay line of the current run, ready for a signal handler.
char g_replay[512];

void on_fatal_signal(int signal) {
  const char* why = signal == SIGVTALRM ? "swarm: a run without end\n" : "swarm: crashed\n";
  (void)!write(STDOUT_FILENO, why, strlen(why));
  (void)!write(STDOUT_FILENO, g_replay, strlen(g_replay));
  _exit(1);
}

void prepare_replay(const std::string& program, uint64_t seed, const std::string& extra) {
  std::snprintf(g_replay, sizeof(g_replay), "replay: %s --seed %llu%s --verbose\n", program.c_str(),
                static_cast<unsigned long long>(seed), extra.c_str());
  // Limit of a run, in processor time, so that a busy machine causes no finding.
  const itimerval limit{.it_interval = {}, .it_value = {.tv_sec = kSecondsPerSeed, .tv_usec = 0}};
  setitimer(ITIMER_VIRTUAL, &limit, nullptr);
}

// Over all runs.
struct Totals {
  TransportCounters counters;
  uint64_t copies_after_jumps = 0;
};

void print_totals(const Totals& total) {
  total.counters.for_each(
      [](std::string_view name, uint64_t value) { fmt::print("{:>12} {}\n", value, name); });
  fmt::print("{:>12} copies on perfect networks after a jump of the round trip\n",
             total.copies_after_jumps);
}

// What is drawn, beside the seed.
struct Draw {
  Kind kind = Kind::kCount;
  bool roce = false;
  bool irn = false;
  bool engine = false;
};

// What is done in the common case must be what is done in general: runs the seed without it.
void compare_without_plain(const Scenario& scenario, const Options& options, const World& before) {
  Options general = options;
  general.verbose = general.plain = false;
  World world(scenario, general);
  world.run();
  const auto& a = before.notes();
  const auto& b = world.notes();
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const bool same = a[i].at == b[i].at && a[i].node == b[i].node && a[i].what == b[i].what &&
                      a[i].queue_pair == b[i].queue_pair && a[i].hash == b[i].hash;
    expect(same, "note {}, at {}: n{} qp{} {}; without the plain functions, at {}: n{} qp{} {}", i,
           (a[i].at - scenario.start).count_ns(), a[i].node, a[i].queue_pair, a[i].what,
           (b[i].at - scenario.start).count_ns(), b[i].node, b[i].queue_pair, b[i].what);
  }
  expect(a.size() == b.size(), "{} notes, {} without the plain functions", a.size(), b.size());
  expect(before.counters() == world.counters(), "the plain functions count something else");
}

// Runs one seed; true if it found nothing.
bool run_seed(uint64_t seed, const Draw& draw, const Options& options, Totals& total) {
  const Protocol protocol = draw.roce ? Protocol::kRoce : draw.irn ? Protocol::kIrn : Protocol::kMp;
  Scenario scenario = draw_scenario(seed, draw.kind, protocol);
  if (draw.engine) add_engines(scenario);
  for (const std::string& setting : options.settings) {
    if (override_param(setting, scenario)) continue;
    fmt::print("swarm: seed {}: --set {} does not fit\n", seed, setting);
    return false;
  }
  if (options.verbose) fmt::print("{}", to_string(scenario));
  if (options.verbose && draw.engine) fmt::print("{}", engines_to_string(scenario));
  std::string finding;
  try {
    World world(scenario, options);
    try {
      world.run();
    } catch (const Failure& failure) {
      finding = failure.what;
    }
    if (options.verbose) fmt::print("{}\n", world.summary());
    total.counters += world.counters();
    total.copies_after_jumps += world.copies_after_jumps();
    // With a trace there is no common case.
    if (finding.empty() && draw.engine && options.trace == nullptr) {
      compare_without_plain(scenario, options, world);
    }
  } catch (const Failure& failure) {
    finding = failure.what;
  }
  if (finding.empty()) return true;
  std::fflush(stdout);
  fmt::print("swarm: seed {} ({}): {}\n{}", seed, kind_name(scenario.kind), finding, g_replay);
  std::fflush(stdout);
  return false;
}

bool parse_range(const std::string& text, uint64_t& first, uint64_t& last) {
  const size_t dots = text.find("..");
  if (dots == std::string::npos) return false;
  try {
    first = std::stoull(text.substr(0, dots));
    last = std::stoull(text.substr(dots + 2));
  } catch (const std::exception&) {
    return false;
  }
  return first <= last;
}

template <class Enum, class NameOf>
bool parse_name(const std::string& text, NameOf name_of, Enum& out) {
  for (uint8_t i = 0; i < static_cast<uint8_t>(Enum::kCount); ++i) {
    if (text != name_of(static_cast<Enum>(i))) continue;
    out = static_cast<Enum>(i);
    return true;
  }
  return false;
}

// False: it has printed that there is no such name. Without a text everything stays.
template <class Enum, class NameOf>
bool read_name(const char* what, const std::string& text, NameOf name_of, Enum& out) {
  if (text.empty() || parse_name(text, name_of, out)) return true;
  fmt::print(stderr, "swarm: no {} '{}'\n", what, text);
  return false;
}

void prepare_process(bool verbose) {
  if (verbose) setlinebuf(stdout);  // a crash must not swallow the trace
  // Keeps freed memory, because the next run needs it again.
  mallopt(M_MMAP_THRESHOLD, 64 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  for (const int s : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGVTALRM}) signal(s, on_fatal_signal);
}

// What a replay needs beside the seed.
std::string replay_options(const Draw& draw, const std::string& kind, const std::string& sabotage,
                           const std::vector<std::string>& settings) {
  std::string options = draw.roce     ? " --roce"
                        : draw.irn    ? " --irn"
                        : draw.engine ? " --engine"
                                      : "";
  if (!kind.empty()) options += " --kind " + kind;
  if (!sabotage.empty()) options += " --sabotage " + sabotage;
  for (const std::string& setting : settings) options += " --set " + setting;
  return options;
}

using TraceFile = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

// nullptr: no trace is wanted, or it has printed why there is none.
TraceFile open_trace(const std::string& path) {
  TraceFile file(path.empty() ? nullptr : std::fopen(path.c_str(), "w"), &std::fclose);
  if (file != nullptr) setlinebuf(file.get());  // a crash must not swallow the last events
  if (!path.empty() && file == nullptr) {
    fmt::print(stderr, "swarm: cannot write {}: {}\n", path, std::strerror(errno));
  }
  return file;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("two transport endpoints, a simulated network, everything drawn from a seed");
  std::string range = "1..1000";
  uint64_t seed = 0;
  std::string kind_text;
  std::string sabotage_text;
  Options options;
  std::string trace;
  bool keep_going = false;
  bool counters = false;
  Draw draw;
  app.add_option("--seeds", range, "range of seeds, A..B");
  const auto* one = app.add_option("--seed", seed, "one seed");
  app.add_option("--kind", kind_text, "every run of this kind");
  app.add_option("--sabotage", sabotage_text, "break the harness: must find something");
  app.add_option("--set", options.settings, "KEY=VALUE: a parameter of every queue pair");
  auto* const roce = app.add_flag("--roce", draw.roce, "connections of the standard");
  auto* const irn = app.add_flag("--irn", draw.irn, "connections of the mode irn")->excludes(roce);
  app.add_flag("--engine", draw.engine, "hosts that owe acknowledgements and send segments")
      ->excludes(roce)
      ->excludes(irn);
  app.add_flag("--verbose", options.verbose, "print what happens");
  app.add_option("--trace", trace, "write the transport's events to this file, as JSON");
  app.add_flag("--keep-going", keep_going, "do not stop at the first finding");
  app.add_flag("--counters", counters, "print what the transport counted, over all runs");
  CLI11_PARSE(app, argc, argv);

  uint64_t first = seed, last = seed;
  if (one->count() == 0 && !parse_range(range, first, last)) {
    fmt::print(stderr, "swarm: --seeds takes A..B, not '{}'\n", range);
    return 2;
  }
  if (!read_name("kind", kind_text, mprdma::swarm::kind_name, draw.kind) ||
      !read_name("sabotage", sabotage_text, mprdma::swarm::sabotage_name, options.sabotage)) {
    return 2;
  }
  prepare_process(options.verbose);
  const TraceFile trace_file = open_trace(trace);
  if (!trace.empty() && trace_file == nullptr) return 2;
  options.trace = trace_file.get();

  const std::string extra = replay_options(draw, kind_text, sabotage_text, options.settings);
  uint64_t failed = 0;
  uint64_t runs = 0;
  Totals total;
  for (uint64_t s = first; s <= last; ++s) {
    prepare_replay(argv[0], s, extra);
    ++runs;
    if (run_seed(s, draw, options, total)) continue;
    ++failed;
    if (!keep_going) break;
  }
  if (counters) print_totals(total);
  fmt::print("[{}] {} runs, {} findings\n", failed == 0 ? "  PASSED  " : "  FAILED  ", runs,
             failed);
  return failed == 0 ? 0 : 1;
}
