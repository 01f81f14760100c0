#include "evaluation/applications/ablation_networks.hpp"

#include <algorithm>
#include <string>

#include "base/check.hpp"
#include "evaluation/applications/bad_paths.hpp"
#include "evaluation/applications/longest.hpp"

namespace mprdma::figures {

namespace {

using switchsim::LinkEvent;
using switchsim::LinkId;
using switchsim::PortResult;
using switchsim::Result;
using switchsim::Scenario;
using switchsim::SimSpan;
using switchsim::SimTime;

// A stop and an outage are longer than the least timeout, 4 ms.
constexpr SimSpan kStop = SimSpan::ms(5);
constexpr SimSpan kOutage = SimSpan::ms(8);
constexpr SimSpan kBetween = SimSpan::ms(20);

double jain(const Result& result) {
  return result.jain;
}
// The inverse of the mean queue of the one link between the switches, 1/KB.
double per_queue(const Result& result) {
  const PortResult* port = result.port_named("path1.ab");
  CHECK(port != nullptr);
  return 1e3 / std::max(1.0, port->queue_mean_bytes);
}

// Two hosts, and paths and queues of switchsim/scenarios/fabric-four-paths.toml.
Scenario software(uint32_t rtt_us, std::vector<std::string> others = {}) {
  others.insert(others.end(),
                {"topology.path_gbps=1", "topology.access_gbps=4",
                 "topology.base_rtt_us=" + std::to_string(rtt_us), "topology.queue_bytes=400_000",
                 "topology.red=[1.0, 60_000, 120_000]", "transport.path_mtu=4096",
                 "duration_us=400_000", "warm_up_us=100_000"});
  return load("loops.toml", others);
}

// Bulk, where one path loses 1 %.
Scenario lossy_path() {
  Scenario scenario = software(200, {"flow[0].message_bytes=1_048_576", "flow[0].post_depth=4"});
  scenario.topology.links[scenario.link("path4")].ab.loss_ppm = 10'000;
  return scenario;
}

void lose_all(Scenario* scenario, const char* path, SimTime from, SimSpan length) {
  LinkEvent event{.at = from, .link = scenario->link(path)};
  event.loss_ppm = kAllLost;
  scenario->events.push_back(event);
  event.at = from + length;
  event.loss_ppm = 0;
  scenario->events.push_back(event);
}

// The operating system stops the receiver for kStop, again and again.
Scenario stopped_receiver() {
  Scenario scenario = lossy_path();
  const LinkId host = scenario.link("b1");
  const SimSpan usual = scenario.topology.links[host].ba.delay;
  const SimTime end = SimTime() + scenario.duration;
  for (SimTime at = SimTime() + kStop; at < end; at = at + kBetween) {
    LinkEvent event{.at = at, .link = host};
    event.delay = kStop;
    scenario.events.push_back(event);
    event.at = at + SimSpan::us(1);
    event.delay = usual;
    scenario.events.push_back(event);
  }
  return scenario;
}

// The way back is the shorter the higher the path's number, and the last path loses packets.
Scenario uneven_ways_back() {
  Scenario scenario = lossy_path();
  int64_t longer_us = 150;
  for (const char* path : {"path1", "path2", "path3"}) {
    auto& back = scenario.topology.links[scenario.link(path)].ba;
    back.delay = back.delay + SimSpan::us(longer_us);
    longer_us -= 50;
  }
  return scenario;
}

// A path is cut, and repaired when the warm-up ends.
Scenario repaired_path() {
  Scenario scenario = software(1000, {"flow[0].message_bytes=65_536"});
  constexpr SimSpan kWhole = SimSpan::ms(20);
  lose_all(&scenario, "path4", SimTime() + kWhole, scenario.warm_up - kWhole);
  return scenario;
}

struct Senders {
  uint32_t count;
  uint32_t message_bytes;
  uint32_t posted;
  uint32_t buffer_bytes;
  uint32_t duration_us = 40'000;
};

// Each sends from a host of its own over one link that marks nothing.
Scenario without_marks(const Senders& senders) {
  return load(
      "loops.toml",
      loops_of(senders.count,
               {"topology.paths=1", "topology.red=false",
                "topology.queue_bytes=" + std::to_string(senders.buffer_bytes),
                "flow[0].message_bytes=" + std::to_string(senders.message_bytes),
                "flow[0].post_depth=" + std::to_string(senders.posted), "ack_jitter_us=1",
                "duration_us=" + std::to_string(senders.duration_us), "warm_up_us=10_000"}));
}

Scenario with_outages() {
  Scenario scenario = without_marks({.count = 32,
                                     .message_bytes = 65'536,
                                     .posted = 1,
                                     .buffer_bytes = 60'000,
                                     .duration_us = 100'000});
  const SimTime end = SimTime() + scenario.duration;
  for (SimTime at = SimTime() + SimSpan::ms(12); at + kOutage < end; at = at + kBetween) {
    lose_all(&scenario, "path1", at, kOutage);
  }
  return scenario;
}

}  // namespace

void add_hosts_in_software(std::vector<AblationCase>* out) {
  out->push_back({.id = "stops",
                  .name = "1 % loss on one path of hosts in software, the receiver stops for 5 ms: "
                          "goodput",
                  .scenario = stopped_receiver(),
                  .value = goodput_gbps,
                  .deviations = {"adapt", "trigger", "l64"},
                  .worth = {"adapt", "trigger", "l64"}});
  out->push_back({.id = "ways-back",
                  .name = "the same, and ways back that differ by 50 us, no stops: goodput",
                  .scenario = uneven_ways_back(),
                  .value = goodput_gbps,
                  .deviations = {"own-ack"},
                  .worth = {"own-ack"}});
  out->push_back({.id = "repair",
                  .name = "loop of 64 KB of hosts in software, one path repaired: goodput",
                  .scenario = repaired_path(),
                  .value = goodput_gbps,
                  .deviations = {"explore"},
                  .worth = {"explore"}});
}

void add_networks_without_marks(std::vector<AblationCase>* out) {
  out->push_back(
      {.id = "fair",
       .name = "no marks, 8 senders, buffer of 60 KB: Jain's index",
       .scenario = without_marks(
           {.count = 8, .message_bytes = 1'048'576, .posted = 4, .buffer_bytes = 60'000}),
       .value = jain,
       .deviations = {"loss"},
       .worth = {"loss"}});
  out->push_back(
      {.id = "deep",
       .name = "no marks, 2 senders, buffer of 1 MB: 1 / mean queue",
       .scenario = without_marks(
           {.count = 2, .message_bytes = 1'048'576, .posted = 4, .buffer_bytes = 1'000'000}),
       .value = per_queue,
       .deviations = {"cap"},
       .worth = {"cap"}});
  out->push_back({.id = "outages",
                  .name = "no marks, 32 loops of 64 KB, outages of 8 ms: 1 / longest",
                  .scenario = with_outages(),
                  .value = per_longest,
                  .deviations = {"timeout"},
                  .harm = "the longest message differs by two fifths from run to run",
                  .worth = {"timeout"}});
}

}  // namespace mprdma::figures
