// The members of a connection (qp_core.hpp) that do nothing, for the services and modes that have
// nothing to do there. A connection inherits this and declares what it does itself, which hides the
// member here: nothing is virtual, and nobody refers to a connection by this type. What every
// connection has to decide (packets, requests, completions, RESET, SQD) has no default.
#pragma once

#include "base/units.hpp"
#include "transport/core/stats.hpp"
#include "transport/core/types.hpp"

namespace mprdma::transport {

struct ConnectionDefaults {
  void enter_rtr() {}
  void enter_rts() {}
  void follow_attributes() {}
  void fail() {}
  void clean_up(RxActions&) {}  // it holds no frames
  void resume_sends() {}        // it has no SQE
  [[nodiscard]] bool drained() const { return true; }
  [[nodiscard]] bool supports(WorkOpcode) const { return true; }
  bool resume(Time, RxActions&) { return false; }  // no message waits for one
  void on_deadline(Time, RxActions&) {}
  void on_back_pressure() {}
  [[nodiscard]] bool owes_ack() const { return false; }
  [[nodiscard]] Time owed_since() const { return Time::never(); }
  bool take_ack(Time, wire::Packet&) { return false; }
  [[nodiscard]] Time next_deadline() const { return Time::never(); }
  [[nodiscard]] StreamStats request_stats() const { return {}; }
  [[nodiscard]] StreamStats response_stats() const { return {}; }

 protected:
  ConnectionDefaults() = default;
};

}  // namespace mprdma::transport
