// Watchdogs against hosts that pause their switch without end (a pause storm): at the NIC, which
// stops the pause, and at the switch, which drops what is for the host.
//
// Each looks some times within its patience, as the ones of real switches and NICs do, which poll
// counters: a pause counts as lasting if it stands at every look and none was sent between.
#pragma once

#include <cstdint>
#include <vector>

#include "switchsim/sim/hosts/host_set.hpp"

namespace mprdma::switchsim {

class PauseWatchdogs {
 public:
  PauseWatchdogs(const Scenario& scenario, Network<HostSet>& network);

  // When look() is to be called next; never: there is no watchdog.
  [[nodiscard]] SimTime next() const { return next_; }
  void look();
  [[nodiscard]] uint64_t nic_trips() const { return nic_trips_; }
  [[nodiscard]] uint64_t switch_trips() const { return switch_trips_; }

 private:
  struct Watched {
    uint64_t pauses = 0;  // sent before the last look
    SimTime since;        // the host has not changed between pausing and not since
    bool pausing = false;
    bool given_up = false;
  };
  void look_at(NodeId host, Watched* watched);

  const Scenario& scenario_;
  Network<HostSet>& network_;
  SimSpan every_;
  SimTime next_ = SimTime::never();
  std::vector<Watched> hosts_;
  uint64_t nic_trips_ = 0;
  uint64_t switch_trips_ = 0;
};

}  // namespace mprdma::switchsim
