#include "switchsim/sim/simulation.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/check.hpp"
#include "switchsim/model/network.hpp"
#include "switchsim/model/pause_watchdogs.hpp"
#include "switchsim/sim/hosts/host_set.hpp"
#include "switchsim/sim/result/meter.hpp"
#include "switchsim/sim/scenario/traffic.hpp"

namespace mprdma::switchsim {

namespace {

// simulate() checks for a stop and reports progress after a thousandth of the time or this many
// events (tens of milliseconds of a processor), whichever comes first.
constexpr int64_t kProgressSteps = 1000;
constexpr uint64_t kProgressEvents = 250'000;
// The longest simulated time between two counts of events, also where samples are far apart.
constexpr SimSpan kCountEvery = SimSpan::us(20);

NetworkConfig network_config(const Scenario& scenario, const HostSet& hosts) {
  NetworkConfig config;
  config.topology = scenario.topology;
  config.seed = Prng(scenario.seed).split("network").next_u64();
  config.packets_max = hosts.packets_max();
  config.timers = hosts.timers();
  config.reroute = scenario.reroute;
  config.reroute_after = scenario.reroute_after;
  return config;
}

Scenario checked(Scenario scenario) {
  CHECK(validate(scenario).ok());
  expand_traffic(&scenario);
  std::stable_sort(scenario.events.begin(), scenario.events.end(),
                   [](const LinkEvent& a, const LinkEvent& b) { return a.at < b.at; });
  return scenario;
}

}  // namespace

class Simulation::Impl {
 public:
  Impl(Scenario scenario, TraceFile* trace)
      : scenario_(checked(std::move(scenario))),
        hosts_(scenario_, trace),
        network_(network_config(scenario_, hosts_), hosts_),
        meter_(scenario_, hosts_, network_),
        watchdogs_({scenario_.nic_watchdog, scenario_.switch_watchdog}, network_),
        end_(SimTime() + scenario_.duration) {
    hosts_.start(network_);
    apply_events();  // events at time 0 come first
  }

  bool run_until(SimTime until, uint64_t events_max) {
    until = std::min(until, end_);
    const uint64_t begun = network_.events_handled();
    while (network_.now() < until && !ended_ && network_.events_handled() - begun < events_max) {
      const SimTime due = std::min({next_change(), meter_.next(), watchdogs_.next(), end_});
      network_.run_until(std::min({until, due, network_.now() + kCountEvery}));
      // The end is judged at fixed times only, so it does not depend on how often run() is called.
      if (network_.now() < due) continue;
      apply_events();
      watchdogs_.look();
      meter_.look();
      if (scenario_.end_when_idle && hosts_.all_done()) ended_ = true;
    }
    return !ended_ && network_.now() < end_;
  }

  void capture(Capture* capture) {
    hosts_.set_capture(capture);
    if (!capture->link()) return;
    for (const PortId side : {0u, 1u}) network_.tap(2 * *capture->link() + side);
  }

  [[nodiscard]] SimTime now() const { return network_.now(); }
  [[nodiscard]] SimTime end() const { return end_; }
  [[nodiscard]] const Scenario& scenario() const { return scenario_; }
  [[nodiscard]] const Network<HostSet>& network() const { return network_; }

  [[nodiscard]] Result result() const {
    Result result = meter_.result();
    result.nic_watchdog_trips = watchdogs_.nic_trips();
    result.switch_watchdog_trips = watchdogs_.switch_trips();
    result.complete = ended_ || network_.now() >= end_;
    return result;
  }

 private:
  [[nodiscard]] SimTime next_change() const {
    return next_event_ < scenario_.events.size() ? scenario_.events[next_event_].at
                                                 : SimTime::never();
  }

  void apply_events() {
    while (next_event_ < scenario_.events.size() &&
           scenario_.events[next_event_].at <= network_.now()) {
      apply(scenario_.events[next_event_++]);
    }
  }

  void apply(const LinkEvent& event) {
    if (event.up) network_.set_link_up(event.link, *event.up);
    if (event.pausing) {
      const LinkConfig& link = scenario_.topology.links[event.link];
      network_.set_host_pausing(std::min(link.a, link.b), *event.pausing);
    }
    for (const PortId port : {2 * event.link, 2 * event.link + 1}) {
      const bool ab = port % 2 == 0;
      if (event.direction == (ab ? Direction::kBa : Direction::kAb)) continue;
      if (event.rate) {
        meter_.on_rate(port, *event.rate);
        network_.set_rate(port, *event.rate);
      }
      if (event.loss_ppm) network_.set_loss(port, *event.loss_ppm);
      if (event.delay) network_.set_delay(port, *event.delay);
      if (event.red) network_.set_red(port, *event.red);
      if (event.queue_bytes_max) network_.set_queue_limit(port, *event.queue_bytes_max);
    }
  }

  const Scenario scenario_;
  HostSet hosts_;
  Network<HostSet> network_;
  Meter meter_;
  PauseWatchdogs<HostSet> watchdogs_;
  SimTime end_;
  size_t next_event_ = 0;
  bool ended_ = false;
};

Simulation::Simulation(Scenario scenario, TraceFile* trace)
    : impl_(std::make_unique<Impl>(std::move(scenario), trace)) {}
Simulation::~Simulation() = default;

bool Simulation::run_until(SimTime until, uint64_t events_max) {
  return impl_->run_until(until, events_max);
}
void Simulation::capture(Capture* capture) {
  impl_->capture(capture);
}
SimTime Simulation::now() const {
  return impl_->now();
}
SimTime Simulation::end() const {
  return impl_->end();
}
uint64_t Simulation::events() const {
  return impl_->network().events_handled();
}
uint64_t Simulation::packet_hops() const {
  return impl_->network().packet_hops();
}
const Scenario& Simulation::scenario() const {
  return impl_->scenario();
}
Result Simulation::result() const {
  return impl_->result();
}

Result simulate(const Scenario& scenario, const RunOptions& options) {
  Simulation simulation(scenario, options.trace);
  if (options.capture != nullptr) simulation.capture(options.capture);
  const int64_t step_ps = std::max<int64_t>(simulation.end().ps() / kProgressSteps, 1);
  bool more = true;
  while (more && (options.stop == nullptr || !options.stop->load(std::memory_order_relaxed))) {
    more = simulation.run_until(simulation.now() + SimSpan::ps(step_ps), kProgressEvents);
    if (options.on_progress) {
      const double share =
          static_cast<double>(simulation.now().ps()) / static_cast<double>(simulation.end().ps());
      options.on_progress({simulation.now(), simulation.end(), simulation.events(), share});
    }
  }
  return simulation.result();
}

}  // namespace mprdma::switchsim
