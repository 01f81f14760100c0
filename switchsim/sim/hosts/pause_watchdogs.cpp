#include "switchsim/sim/hosts/pause_watchdogs.hpp"

#include <algorithm>

namespace mprdma::switchsim {

namespace {

constexpr int64_t kLooks = 4;  // within the shorter patience

}  // namespace

PauseWatchdogs::PauseWatchdogs(const Scenario& scenario, Network<HostSet>& network)
    : scenario_(scenario), network_(network), hosts_(scenario.topology.hosts) {
  const SimSpan nic = scenario.nic_watchdog;
  const SimSpan at_switch = scenario.switch_watchdog;
  if (nic == SimSpan() && at_switch == SimSpan()) return;
  const bool both = nic > SimSpan() && at_switch > SimSpan();
  const SimSpan shorter = both ? std::min(nic, at_switch) : std::max(nic, at_switch);
  every_ = SimSpan::ps(std::max<int64_t>(shorter.count_ps() / kLooks, 1));
  next_ = network.now() + every_;
}

void PauseWatchdogs::look() {
  if (network_.now() < next_) return;
  next_ = network_.now() + every_;
  for (NodeId host = 0; host < hosts_.size(); ++host) look_at(host, &hosts_[host]);
}

void PauseWatchdogs::look_at(NodeId host, Watched* watched) {
  const SimTime now = network_.now();
  const PortId port = network_.nic(host) ^ 1;  // of the switch, to the host
  const bool pausing = network_.pausing(port);
  const uint64_t pauses = network_.pause_state(port).pause_sent;
  if (pausing != watched->pausing || pauses != watched->pauses) {
    *watched = {.pauses = pauses, .since = now, .pausing = pausing, .given_up = watched->given_up};
    return;
  }
  const SimSpan lasted = now - watched->since;
  if (pausing && scenario_.nic_watchdog > SimSpan() && lasted >= scenario_.nic_watchdog) {
    ++nic_trips_;
    network_.set_host_pausing(host, false);
    return;
  }
  if (scenario_.switch_watchdog == SimSpan() || lasted < scenario_.switch_watchdog) return;
  const bool give_up = pausing && (watched->given_up || network_.lossless_bytes(port) > 0);
  if (give_up == watched->given_up) return;
  watched->given_up = give_up;
  switch_trips_ += give_up ? 1 : 0;
  network_.set_discarding(host, give_up);
}

}  // namespace mprdma::switchsim
