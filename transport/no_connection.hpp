// The connection of a queue pair whose mode is not agreed with the peer yet (design 3.4): it takes
// no work and no packet. The host keeps send requests back until Qp::decided().
#pragma once

#include "transport/qp_core.hpp"
#include "transport/stats.hpp"

namespace mprdma::transport {

class NoConnection {
 public:
  explicit NoConnection(QpCore& core) : core_(core) {}

  void enter_rtr() {}
  void enter_rts() {}
  void reset(RxActions&) {}
  void fail() {}
  void clean_up(RxActions&) {}
  void resume_sends() {}
  void set_draining(bool) {}
  [[nodiscard]] bool drained() const { return true; }
  [[nodiscard]] bool supports(WorkOpcode) const { return true; }
  bool post_send(Time, const SendRequest&) { return false; }
  bool resume(Time, RxActions&) { return false; }
  RxVerdict on_packet(Time, const wire::Packet&, FrameHandle, RxActions&) {
    ++core_.device.counters->drop_undecided;
    return RxVerdict::kDone;
  }
  void on_deadline(Time, RxActions&) {}
  void on_back_pressure() {}
  [[nodiscard]] bool wants_to_send() const { return false; }
  bool poll_packet(Time, TxPacket&) { return false; }
  bool poll_completion(Completion&) { return false; }
  [[nodiscard]] bool sends_failed() const { return false; }
  bool take_refusal(QpEvent*) { return false; }
  [[nodiscard]] Time next_deadline() const { return Time::never(); }
  [[nodiscard]] bool busy() const { return false; }
  [[nodiscard]] uint32_t outstanding() const { return 0; }
  [[nodiscard]] StreamStats request_stats() const { return {}; }
  [[nodiscard]] StreamStats response_stats() const { return {}; }

 private:
  QpCore& core_;
};

}  // namespace mprdma::transport
