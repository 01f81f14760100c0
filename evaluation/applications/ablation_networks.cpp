#include "evaluation/applications/ablation_hosts.hpp"

#include <algorithm>
#include <string>

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

// Both longer than the least timeout, 4 ms.
constexpr SimSpan kStop = SimSpan::ms(5);
constexpr SimSpan kOutage = SimSpan::ms(8);
constexpr SimSpan kBetween = SimSpan::ms(20);

double jain(const Result& result) {
  return result.jain;
}
// The inverse of the mean queue in front of the receivers.
double per_queue(const Result& result) {
  const PortResult* port = result.port_named("path1.ab");
  return port == nullptr ? 0 : 1e3 / std::max(1.0, port->queue_mean_bytes);
}

// Four paths of 1 Gb/s between two hosts, as `mprdma fabric` has them.
Scenario software(uint32_t rtt_us, std::vector<std::string> others = {}) {
  others.insert(
      others.end(),
      {"topology.path_gbps=1", "topology.access_gbps=4",
       "topology.base_rtt_us=" + std::to_string(rtt_us), "topology.red=[1.0, 100_000, 200_000]",
       "flow[0].transport.path_mtu=4096", "duration_us=400_000", "warm_up_us=100_000"});
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
  lose_all(&scenario, "path4", SimTime() + SimSpan::ms(20), SimSpan::ms(80));
  return scenario;
}

// So many loops, each from a host of its own, over one link that marks nothing.
Scenario without_marks(uint32_t pairs, uint32_t bytes, uint32_t buffer_bytes, uint32_t depth) {
  return load("loops.toml",
              loops_of(pairs, {"topology.paths=1", "topology.red=false",
                               "topology.queue_bytes=" + std::to_string(buffer_bytes),
                               "flow[0].message_bytes=" + std::to_string(bytes),
                               "flow[0].post_depth=" + std::to_string(depth), "ack_jitter_us=1",
                               "duration_us=40_000", "warm_up_us=10_000"}));
}

Scenario with_outages() {
  Scenario scenario = without_marks(32, 65'536, 60'000, 1);
  scenario.duration = SimSpan::ms(100);
  const SimTime end = SimTime() + scenario.duration;
  for (SimTime at = SimTime() + SimSpan::ms(12); at + kOutage < end; at = at + kBetween) {
    lose_all(&scenario, "path1", at, kOutage);
  }
  return scenario;
}

}  // namespace

void add_hosts_in_software(std::vector<AblationCase>* out) {
  out->push_back({"stops",
                  "1 % loss on one path of hosts in software, the receiver stops for 5 ms: goodput",
                  stopped_receiver(),
                  goodput_gbps,
                  "",
                  {"adapt", "trigger", "l64"},
                  "",
                  {"adapt", "trigger", "l64"}});
  out->push_back({"ways-back",
                  "the same, and ways back that differ by 50 us, no stops: goodput",
                  uneven_ways_back(),
                  goodput_gbps,
                  "",
                  {"own-ack"},
                  "",
                  {"own-ack"}});
  out->push_back({"repair",
                  "loop of 64 KB of hosts in software, one path repaired: goodput",
                  repaired_path(),
                  goodput_gbps,
                  "",
                  {"explore"},
                  "",
                  {"explore"}});
}

void add_networks_without_marks(std::vector<AblationCase>* out) {
  out->push_back({"fair",
                  "no marks, 8 senders, buffer of 60 KB: Jain's index",
                  without_marks(8, 1'048'576, 60'000, 4),
                  jain,
                  "",
                  {"loss"},
                  "",
                  {"loss"}});
  out->push_back({"deep",
                  "no marks, 2 senders, buffer of 1 MB: 1 / mean queue",
                  without_marks(2, 1'048'576, 1'000'000, 4),
                  per_queue,
                  "",
                  {"cap"},
                  "",
                  {"cap"}});
  out->push_back({"outages",
                  "no marks, 32 loops of 64 KB, outages of 8 ms: 1 / longest",
                  with_outages(),
                  per_longest,
                  "",
                  {"timeout"},
                  "the longest message of a run varies by a tenth from seed to seed",
                  {"timeout"}});
}

}  // namespace mprdma::figures
