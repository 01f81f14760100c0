// The CM agent of the daemon, between the switch, which moves its datagrams, and the server, which
// has its clients. One thread.
#pragma once

#include "dataplane/cm/agent.hpp"
#include "dataplane/nic/nic_switch.hpp"

namespace mprdma::dataplane::nic {

class CmHost final : public Management {
 public:
  explicit CmHost(const CmConfig& config) : agent_(config) {}

  void on_mad(std::span<const unsigned char> bytes, const wire::IpAddress& from,
              Time now) override {
    agent_.on_mad(bytes, from, now);
  }
  void on_resolved(const wire::IpAddress& to, const wire::MacAddress* mac, Time now) override {
    agent_.on_resolved(to, mac, now);
  }

  // Moves what the agent wants moved, and calls deliver(event) for each event. True: there may be
  // more.
  template <class Deliver>
  bool pump(NicSwitch& nic, Time now, Deliver&& deliver) {
    if (agent_.next_deadline() <= now) agent_.on_deadline(now);
    wire::IpAddress to;
    CmAgent::OutgoingMad mad;
    unsigned left = kWorkPerPump;
    for (bool any = true; any && left > 0;) {
      any = false;
      while (left > 0 && agent_.poll_resolve(&to)) {
        --left;
        any = true;
        nic.resolve(to, now);
      }
      while (left > 0 && agent_.poll_mad(&mad)) {
        --left;
        any = true;
        nic.send_mad(mad, now);
      }
    }
    CmAgent::ClientEvent event;
    while (left > 0 && agent_.poll_event(&event)) {
      --left;
      deliver(event);
    }
    if (left < kWorkPerPump) nic.flush();
    return left == 0;
  }

  [[nodiscard]] CmAgent& agent() { return agent_; }

 private:
  static constexpr unsigned kWorkPerPump = 512;

  CmAgent agent_;
};

}  // namespace mprdma::dataplane::nic
