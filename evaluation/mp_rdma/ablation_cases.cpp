#include "evaluation/mp_rdma/ablation_cases.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "evaluation/batch.hpp"
#include "evaluation/mp_rdma/message_sizes.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Direction;
using switchsim::Result;
using switchsim::Scenario;
using switchsim::SimSpan;
using switchsim::SimTime;

constexpr uint64_t kLargeBytes = 1 << 20;
// How long the operating system stops a host, and how often.
constexpr SimSpan kStall = SimSpan::ms(3);
constexpr SimSpan kBetweenStalls = SimSpan::ms(20);

std::function<double(const Result&)> goodput_over(double ceiling) {
  return [ceiling](const Result& r) { return r.goodput_bps / ceiling; };
}

// The inverse of the mean time of a message. A high percentile would be that of the messages whose
// last packet was lost, whose number varies by more than what is compared.
double per_mean_time(const Result& result) {
  return 1e3 / result.fct.all().mean_us;
}

// Returns the inverse of the completion time of the large message, the last of the scenario.
double per_large_time(const Result& result) {
  for (const auto& message : result.flows[0].messages) {
    if (message.bytes == kLargeBytes) {
      return 1e9 / static_cast<double>(message.fct().count_ps());
    }
  }
  return 0;
}

void add_loss(const Figure& figure, bool ci, std::vector<AblationCase>* out) {
  for (const double percent : {0.5, 1.0, 10.0}) {
    Scenario scenario = load(figure.scenario, kShipped.overrides);
    for (switchsim::LinkConfig& link : scenario.topology.links) {
      if (link.ab.loss_ppm != 0) link.ab.loss_ppm = static_cast<uint32_t>(percent * 10'000);
    }
    shorten(&scenario, ci ? 20 : 3);
    out->push_back({fmt::format("loss-{}", percent),
                    fmt::format("{} % loss on paths 1-3", percent),
                    scenario,
                    goodput_over(ceiling_bps(scenario, scenario.paths[0])),
                    ">= 0.97",
                    {}});
  }
}

void add_tail_drop(bool ci, std::vector<AblationCase>* out) {
  struct Drop {
    uint32_t senders;
    uint32_t buffer_kb;
    std::vector<std::string> deviations;
  };
  for (const Drop& drop : {Drop{2, 60, {}}, Drop{8, 60, {}}, Drop{2, 1000, {"cap"}}}) {
    Scenario scenario = load("taildrop.toml", kShipped.overrides);
    scenario.flows.resize(drop.senders);
    const switchsim::LinkId bottleneck = scenario.link("bottleneck");
    scenario.topology.links[bottleneck].ab.queue_bytes_max = drop.buffer_kb * 1000ULL;
    if (ci) shorten(&scenario, 5);
    const std::string id = drop.deviations.empty() ? "taildrop" : "deep";
    out->push_back({fmt::format("{}-{}", id, drop.senders),
                    fmt::format("tail drop, {} senders, {} KB", drop.senders, drop.buffer_kb),
                    scenario, goodput_over(ceiling_bps(scenario, bottleneck)), ">= 0.93",
                    drop.deviations});
  }
}

void add_lost_acks(bool ci, std::vector<AblationCase>* out) {
  Scenario scenario = load("fig12a.toml", kShipped.overrides);
  for (const switchsim::LinkId path : scenario.paths) {
    scenario.topology.links[path].ba.loss_ppm = 10'000;
  }
  shorten(&scenario, ci ? 10 : 2);
  const double ceiling =
      ceiling_bps(scenario, scenario.paths[0]) * static_cast<double>(scenario.paths.size());
  out->push_back({"ack-loss",
                  "1 % of acknowledgements lost, five connections",
                  scenario,
                  goodput_over(ceiling),
                  ">= 0.97",
                  {"map"}});
}

void add_pauses(std::vector<AblationCase>* out) {
  const Scenario scenario = load("restart.toml", kShipped.overrides);
  out->push_back({"restart",
                  "1 MiB after 64 B messages: 1 / time",
                  scenario,
                  per_large_time,
                  "",
                  {"restart", "give-back"}});
}

Scenario small_messages(uint64_t bytes, bool ci) {
  Scenario scenario = load("fig12a.toml", kShipped.overrides);
  for (switchsim::FlowSpec& flow : scenario.flows) {
    flow.message_bytes = bytes;
    flow.post_depth = 1;
  }
  shorten(&scenario, ci ? 10 : 2);
  return scenario;
}

void add_small_messages(bool ci, std::vector<AblationCase>* out) {
  const Scenario closed = small_messages(64 * 1024, ci);
  out->push_back({"closed",
                  "64 KiB messages one at a time: goodput",
                  closed,
                  goodput_gbps,
                  "",
                  {"give-back"},
                  "",
                  {"give-back"}});
  Scenario lossy = small_messages(32 * 1024, ci);
  for (const switchsim::LinkId path : lossy.paths) {
    lossy.topology.links[path].ab.loss_ppm = 10'000;
  }
  out->push_back(
      {"tail",
       "32 KiB messages, 1 % loss: 1 / mean time",
       lossy,
       per_mean_time,
       "",
       {"probe", "late"},
       "the newest paths of the memory are those whose acknowledgements come last, so the queue "
       "that it uses first is the longer one, and losses show later; and the room of a packet "
       "waits for its own acknowledgement, which only helps where ways back differ",
       {"probe", "late"}});
}

void add_synchronise(bool ci, std::vector<AblationCase>* out) {
  Scenario scenario = load("fig18.toml", kShipped.overrides);
  for (switchsim::FlowSpec& flow : scenario.flows) {
    flow.message_bytes = kSmallMessages.bytes;
    flow.synchronise_ppm = 600'000;
  }
  shorten(&scenario, ci ? 8 : 2);
  out->push_back({"synchronise",
                  "32 KiB messages, 60 % synchronise: goodput",
                  scenario,
                  goodput_gbps,
                  "",
                  {"sync-wait"},
                  "without the growth limit the window grows during a delay, to more than the "
                  "network holds, and a delay of alpha delta / w round trips shrinks with it: as a "
                  "smaller alpha would, which lets messages come too early (figure 18)",
                  {"sync-wait"}});
}

// A stopped host: no packet arrives for a while, then all arrive at once.
void add_stalls(bool ci, std::vector<AblationCase>* out) {
  Scenario scenario = load("fig12a.toml", kShipped.overrides);
  shorten(&scenario, ci ? 4 : 1);
  const SimTime end = SimTime() + scenario.duration;
  for (uint32_t host = 1; host <= 5; ++host) {
    const switchsim::LinkId link = scenario.link(fmt::format("b{}", host));
    const SimSpan usual = scenario.topology.links[link].ba.delay;
    // Hosts stop one after the other, so that the network is never idle altogether.
    for (SimTime at = SimTime() + kStall * host; at < end; at = at + kBetweenStalls) {
      switchsim::LinkEvent event{.at = at, .link = link, .direction = Direction::kBoth};
      event.delay = kStall;
      scenario.events.push_back(event);
      event.at = at + SimSpan::us(1);
      event.delay = usual;
      scenario.events.push_back(event);
    }
  }
  std::sort(scenario.events.begin(), scenario.events.end(),
            [](const auto& a, const auto& b) { return a.at < b.at; });
  out->push_back({"stalls",
                  "receivers stopped for 3 ms now and then: goodput",
                  scenario,
                  goodput_gbps,
                  "",
                  {"adapt", "timeout"}});
}

}  // namespace

std::vector<AblationCase> ablation_cases(const Figure& figure, bool ci) {
  std::vector<AblationCase> out;
  add_loss(figure, ci, &out);
  add_tail_drop(ci, &out);
  add_lost_acks(ci, &out);
  add_pauses(&out);
  add_small_messages(ci, &out);
  add_synchronise(ci, &out);
  add_stalls(ci, &out);
  return out;
}

}  // namespace mprdma::figures
