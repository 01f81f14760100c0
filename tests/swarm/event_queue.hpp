// Virtual time: an ordered queue of events, first in first out at equal times. The only source of
// order in a run, so the same seed gives the same run.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "base/units.hpp"

namespace mprdma::swarm {

enum class EventKind : uint8_t {
  kArrival,   // arg: slot of the packet
  kTimer,     // a queue pair's deadline
  kPortRoom,  // the port can take packets again
  kSendApp,   // arg: queue pair whose application may post sends
  kRecvApp,   // arg: queue pair whose application posts receives
  kWake,      // the endpoint is polled again
  kNap,       // the endpoint is not polled for a while
  kCleanUp,   // the network turns perfect
  kHostile,   // somebody forges a packet
  kScript,    // arg: step of the scenario's script
  kOwedAcks,  // an owed acknowledgement may wait no longer
  kChange,    // arg: number of the change of attributes
};

struct Event {
  Time at;
  uint64_t order = 0;
  EventKind kind = EventKind::kTimer;
  uint32_t node = 0;
  uint64_t arg = 0;
};

class EventQueue {
 public:
  void push(Time at, EventKind kind, uint32_t node = 0, uint64_t arg = 0) {
    heap_.push(Event{at, ++pushed_, kind, node, arg});
  }
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] uint64_t pushed() const { return pushed_; }
  Event pop() {
    const Event event = heap_.top();
    heap_.pop();
    return event;
  }

 private:
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };
  std::priority_queue<Event, std::vector<Event>, Later> heap_;
  uint64_t pushed_ = 0;
};

}  // namespace mprdma::swarm
