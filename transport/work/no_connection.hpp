// The connection of a queue pair whose mode is not agreed with the peer yet (design 3.4): it takes
// no work and no packet. The host keeps send requests back until Qp::decided().
#pragma once

#include "transport/work/connection_defaults.hpp"
#include "transport/work/qp_core.hpp"

namespace mprdma::transport {

class NoConnection : public ConnectionDefaults {
 public:
  explicit NoConnection(QpCore& core) : core_(core) {}

  void reset(RxActions&) {}
  void set_draining(bool) {}
  bool post_send(Time, const SendRequest&) { return false; }
  RxVerdict on_packet(Time, const wire::Packet&, FrameHandle, RxActions&) {
    ++core_.device.counters->drop_undecided;
    return RxVerdict::kDone;
  }
  [[nodiscard]] bool wants_to_send() const { return false; }
  bool poll_packet(Time, TxPacket&) { return false; }
  bool poll_completion(Completion&) { return false; }
  [[nodiscard]] bool sends_failed() const { return false; }
  [[nodiscard]] bool busy() const { return false; }
  [[nodiscard]] uint32_t outstanding() const { return 0; }

 private:
  QpCore& core_;
};

}  // namespace mprdma::transport
