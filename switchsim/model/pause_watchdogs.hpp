// Watchdogs against hosts that pause their switch without end (a pause storm): at the NIC, which
// stops the pause, and at the switch, which drops what is for the host.
//
// Each looks some times within its patience, as the ones of real switches and NICs do, which poll
// counters: a pause counts as lasting if it stands at every look and none was sent between.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "switchsim/model/network.hpp"

namespace mprdma::switchsim {

struct WatchdogPatience {
  SimSpan nic;  // 0: no watchdog
  SimSpan at_switch;
};

template <class Hosts>
class PauseWatchdogs {
 public:
  PauseWatchdogs(const WatchdogPatience& patience, Network<Hosts>& network)
      : patience_(patience), network_(network), hosts_(network.topology().hosts) {
    const auto [nic, at_switch] = patience;
    if (nic == SimSpan() && at_switch == SimSpan()) return;
    const bool both = nic > SimSpan() && at_switch > SimSpan();
    const SimSpan shorter = both ? std::min(nic, at_switch) : std::max(nic, at_switch);
    every_ = SimSpan::ps(std::max<int64_t>(shorter.count_ps() / kLooks, 1));
    next_ = network.now() + every_;
  }

  // When look() is to be called next; never: there is no watchdog.
  [[nodiscard]] SimTime next() const { return next_; }
  void look() {
    if (network_.now() < next_) return;
    next_ = network_.now() + every_;
    for (NodeId host = 0; host < hosts_.size(); ++host) look_at(host, &hosts_[host]);
  }
  [[nodiscard]] uint64_t nic_trips() const { return nic_trips_; }
  [[nodiscard]] uint64_t nic_trips_of(NodeId host) const { return hosts_[host].nic_trips; }
  [[nodiscard]] uint64_t switch_trips() const { return switch_trips_; }
  // The switch drops what is for this host.
  [[nodiscard]] bool given_up(NodeId host) const { return hosts_[host].given_up; }

 private:
  static constexpr int64_t kLooks = 4;  // within the shorter patience

  struct Watched {
    uint64_t pauses = 0;  // sent before the last look
    SimTime since;        // the host has not changed between pausing and not since
    bool pausing = false;
    bool given_up = false;
    uint64_t nic_trips = 0;
  };

  void look_at(NodeId host, Watched* watched) {
    const SimTime now = network_.now();
    const PortId port = network_.nic(host) ^ 1;  // of the switch, to the host
    const bool pausing = network_.pausing(port);
    const uint64_t pauses = network_.pause_state(port).pause_sent;
    if (pausing != watched->pausing || pauses != watched->pauses) {
      watched->pauses = pauses;
      watched->since = now;
      watched->pausing = pausing;
      return;
    }
    const SimSpan lasted = now - watched->since;
    if (pausing && patience_.nic > SimSpan() && lasted >= patience_.nic) {
      ++nic_trips_;
      ++watched->nic_trips;
      network_.set_host_pausing(host, false);
      return;
    }
    if (patience_.at_switch == SimSpan() || lasted < patience_.at_switch) return;
    const bool give_up = pausing && (watched->given_up || network_.lossless_bytes(port) > 0);
    if (give_up == watched->given_up) return;
    watched->given_up = give_up;
    switch_trips_ += give_up ? 1 : 0;
    network_.set_discarding(host, give_up);
  }

  WatchdogPatience patience_;
  Network<Hosts>& network_;
  SimSpan every_;
  SimTime next_ = SimTime::never();
  std::vector<Watched> hosts_;
  uint64_t nic_trips_ = 0;
  uint64_t switch_trips_ = 0;
};

}  // namespace mprdma::switchsim
