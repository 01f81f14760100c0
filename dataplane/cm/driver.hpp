// Carries out the work of a CM agent in the required order: address resolutions and datagrams until
// there are no more, then events. The host resolves, sends and delivers.
//
// A datagram that found the wire full is kept and sent first the next time. Pure; the agent and its
// driver are called by one thread.
#pragma once

#include <algorithm>
#include <optional>

#include "base/units.hpp"
#include "dataplane/cm/agent.hpp"

namespace mprdma::dataplane {

class CmDriver {
 public:
  // A wire that was full is tried again after this.
  static constexpr Duration kFullWirePause = Duration::ms(1);

  explicit CmDriver(const CmConfig& config) : agent_(config) {}

  // After a command or a fact for the agent, serve_again() is due.
  [[nodiscard]] CmAgent& agent() { return agent_; }
  [[nodiscard]] const CmAgent& agent() const { return agent_; }

  [[nodiscard]] Time next_deadline() const { return deadline_; }
  void serve_again() { deadline_ = Time(); }

  // Does `most` pieces of work at most. resolve(ip) starts a resolution that ends in
  // agent().on_resolved(), perhaps at once; send(mad) is false if the wire is full; deliver(event)
  // may not call the agent. Returns how many pieces were tried: `most` if there may be more.
  template <class Resolve, class Send, class Deliver>
  unsigned serve(Time now, unsigned most, Resolve&& resolve, Send&& send, Deliver&& deliver) {
    if (agent_.next_deadline() <= now) agent_.on_deadline(now);
    unsigned left = most;
    bool full = false;
    for (bool any = true; any && left > 0;) {
      any = false;
      wire::IpAddress to;
      for (; left > 0 && agent_.poll_resolve(&to); --left) {
        resolve(to);
        any = true;
      }
      for (; left > 0 && !full && next_mad(); --left) {
        full = !send(*unsent_);
        if (!full) unsent_.reset();
        any = true;
      }
    }
    CmAgent::ClientEvent event;
    for (; left > 0 && agent_.poll_event(&event); --left) deliver(event);
    deadline_ = left == 0 ? Time() : agent_.next_deadline();
    if (full) deadline_ = std::min(deadline_, now + kFullWirePause);
    return most - left;
  }

 private:
  // True: *unsent_ is the next datagram.
  bool next_mad() {
    if (unsent_) return true;
    if (agent_.poll_mad(&unsent_.emplace())) return true;
    unsent_.reset();
    return false;
  }

  CmAgent agent_;
  std::optional<CmAgent::OutgoingMad> unsent_;
  Time deadline_ = Time::never();
};

}  // namespace mprdma::dataplane
