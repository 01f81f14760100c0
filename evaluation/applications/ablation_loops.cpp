// What each deviation from the paper is worth to what applications send.
#include "evaluation/ablation_study.hpp"
#include "evaluation/applications/ablation_networks.hpp"
#include "evaluation/applications/bad_paths.hpp"
#include "evaluation/applications/crowd.hpp"
#include "evaluation/applications/longest.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;
using switchsim::Scenario;

double per_p99(const Result& result) {
  return 1e3 / result.fct.all().p99_us;
}
// The inverse of a share of needless copies, none of which is as good as one in a thousand.
double per_needless(const Result& result) {
  const auto copies = static_cast<double>(result.retransmitted());
  return 1 / (1e-3 + (copies == 0 ? 0 : static_cast<double>(result.spurious()) / copies));
}

constexpr Loop kDead8k{"dead-8k", "8 KB, 1 of 4 paths dead: goodput", 8192};
constexpr Loop kDead64k{"dead-64k", "64 KB, 2 of 8 paths dead: goodput", 65'536, 1, 8, 2};
constexpr Loop kDead1m{"dead-1m", "1 MB, 1 of 4 paths dead: 1 / needless copies", 1'048'576};
constexpr Loop kLossy{"loss-8k", "8 KB, 5 % loss on one path: 1 / 99th percentile", 8192};

void add_bad_paths(std::vector<AblationCase>* out) {
  for (const Loop* loop : {&kDead8k, &kDead64k}) {
    out->push_back({loop->id,
                    loop->text,
                    with_loss("loops.toml", *loop, kAllLost),
                    goodput_gbps,
                    "",
                    {"late", "probe", "paths"},
                    "",
                    {"paths"}});
  }
  Scenario sparse =
      load("loops.toml",
           loops_of(32, {"flow[0].message_bytes=1024", "duration_us=40_000", "warm_up_us=6_000"}));
  for (const char* path : {"path2", "path3", "path4"}) lose(&sparse, path, kAllLost);
  out->push_back({"sparse",
                  "32 loops of 1 KB that begin with 3 of 4 paths dead: goodput",
                  sparse,
                  goodput_gbps,
                  "",
                  {"tries", "probe"},
                  "",
                  {"tries", "probe"}});
  Scenario large = with_loss("loops.toml", kDead1m, kAllLost);
  large.warm_up = switchsim::SimSpan();
  out->push_back({kDead1m.id,
                  kDead1m.text,
                  large,
                  per_needless,
                  "",
                  {"ack-map", "map"},
                  "",
                  {"ack-map", "map"}});
  out->push_back({kLossy.id,
                  kLossy.text,
                  with_loss("loops.toml", kLossy, 50'000),
                  per_p99,
                  "",
                  {"give-back"},
                  "",
                  {"give-back"}});
  Scenario slow = load("loops.toml", loops_of(5));
  slow_down(&slow, "path4", 1);
  out->push_back({"slow",
                  "five loops of 8 KB, one path at 1 Gb/s: goodput",
                  slow,
                  goodput_gbps,
                  "",
                  {"paths"},
                  "",
                  {"paths"}});
}

void add_incasts(std::vector<AblationCase>* out) {
  const std::string crowded =
      "give-back returns the window that a crowded receiver took, at each post";
  out->push_back({"incast",
                  "64 loops of 16 KB to one host: 1 / longest",
                  load("incast.toml"),
                  per_longest,
                  "",
                  {"give-back", "growth", "late"},
                  crowded,
                  {"growth", "late"}});
  out->push_back({"crowd",
                  "256 loops of 16 KB to one host, buffer of 150 KB: 1 / 99th percentile",
                  load("incast.toml", crowd_of(256, {"topology.queue_bytes=150_000"})),
                  per_p99,
                  "",
                  {"spacing"},
                  "the rows differ by as much from seed to seed",
                  {"spacing"}});
  out->push_back({"think-100",
                  "64 loops of 16 KB to one host, 100 us between messages: 1 / 99th percentile",
                  load("incast.toml", {"flow[0].think_us=100"}),
                  per_p99,
                  "",
                  {"give-back", "restart"},
                  crowded,
                  {"restart"}});
}

void add_healthy(std::vector<AblationCase>* out) {
  const Scenario healthy =
      load("loops.toml", loops_of(64, {"duration_us=4000", "warm_up_us=1000"}));
  out->push_back({"healthy",
                  "64 loops of 8 KB over four paths: goodput",
                  healthy,
                  goodput_gbps,
                  "",
                  {"give-back"}});
  out->push_back({"fast",
                  "100 Gb/s, RTT 20 us, 1 MB messages: goodput",
                  load("fast.toml"),
                  goodput_gbps,
                  "",
                  {"follow"},
                  "",
                  {"follow"}});
  out->push_back({"cut",
                  "a path is cut under 250 loops of 1 KB: 1 / longest",
                  load("cut.toml", loops_of(250, {"duration_us=8000"})),
                  per_longest,
                  "",
                  {"probe"},
                  "",
                  {"probe"}});
}

}  // namespace

FigureResult ablation_loops(const Figure&, const RunOptions& options) {
  std::vector<AblationCase> cases;
  add_bad_paths(&cases);
  add_incasts(&cases);
  add_healthy(&cases);
  add_hosts_in_software(&cases);
  add_networks_without_marks(&cases);
  return study_ablation("apps-ablation", cases, options, options.ci() ? 2 : 10);
}

}  // namespace mprdma::figures
