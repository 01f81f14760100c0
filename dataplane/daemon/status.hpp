// Status of mprdmad for its monitoring interfaces: copied by the loop at a regular interval, read
// by other threads. The loop never waits for a reader: it skips an interval while a reader copies.
#pragma once

#include <sys/types.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/ipv4.hpp"
#include "dataplane/cm/agent.hpp"
#include "dataplane/daemon/counters.hpp"
#include "dataplane/port/port.hpp"
#include "wire/ethernet.hpp"

namespace mprdma::dataplane::mprdmad {

struct ClientStatus {
  uint32_t block = 0;
  pid_t pid = 0;
  std::string program;  // the process's own claim: printable ASCII
  StationCounters counters;
};

struct DaemonStatus {
  std::string device_name;
  Ipv4 ipv4{};
  uint32_t prefix_bits = 0;
  wire::MacAddress mac{};
  uint32_t mtu = 0;
  bool link_up = false;
  bool has_wire = false;
  StationCounters wire;
  PortCounters wire_port;
  StationCounters gone;  // of clients that left
  DaemonServerCounters server;
  CmCounters cm;
  uint32_t cm_ids = 0;
  std::vector<ClientStatus> clients;  // by block; kBlocks at most
};

class StatusBoard {
 public:
  // The loop's copy, filled again before each publish().
  DaemonStatus& draft() { return draft_; }
  // Never waits.
  void publish() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock.owns_lock()) std::swap(draft_, shown_);
  }
  // Any thread.
  [[nodiscard]] DaemonStatus read() const {
    const std::lock_guard lock(mutex_);
    return shown_;
  }

 private:
  DaemonStatus draft_;
  mutable std::mutex mutex_;
  DaemonStatus shown_;
};

}  // namespace mprdma::dataplane::mprdmad
