// A queue pair: all that a host sees of the transport.
//
// Facts in (on_packet, on_deadline, on_back_pressure), commands (modify, post_*), work out
// (poll_packet, poll_completion, poll_event, next_deadline); nothing else acts. Time is an
// argument and never goes back. One thread at a time. Nothing here allocates after construction,
// reads a clock, or touches the application's memory: payload is described, the host copies it.
//
// How a host drives it
//   on receive   v = on_packet(now, packet, frame, actions); do `actions` (see RxActions);
//                give the frame back unless v is kHeld; then drain poll_completion and poll_event
//   to send      while (wants_to_send()) { reserve a frame; poll_packet(now, out) }
//   timers       at next_deadline(): on_deadline(now, actions); then as after a packet
//   after every command or fact: re-read wants_to_send and next_deadline
//
// A completion is handed out only when everything that it promises is placed, in posting order.
#pragma once

#include <cstdint>

#include "base/units.hpp"
#include "transport/counters.hpp"
#include "transport/held_pool.hpp"
#include "transport/memory_table.hpp"
#include "transport/params.hpp"
#include "transport/qp_config.hpp"
#include "transport/requester.hpp"
#include "transport/responder.hpp"
#include "transport/types.hpp"

namespace mprdma::transport {

enum class PostResult : uint8_t {
  kOk,
  kQueueFull,     // ENOMEM
  kBadState,      // EINVAL
  kBadRequest,    // EINVAL: too many SGEs, message too long, unknown opcode
  kNotSupported,  // EOPNOTSUPP
};

class Qp {
 public:
  Qp(const QpConfig& config, const Device& device);
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;

  // ---- Commands
  // Values that may change in a state; kept until the next modify.
  [[nodiscard]] const QpAttributes& attributes() const { return attributes_; }
  void set_attributes(const QpAttributes& attributes);
  // Moves to `next`; false (and no change) if the standard knows no such transition. To kReset:
  // held frames come back in actions.released and everything queued is forgotten. To kErr: the
  // queued work comes out of poll_completion as flushed.
  bool set_state(Time now, QpState next, RxActions& actions);
  PostResult post_send(Time now, const SendRequest& request);
  // A receive may let a waiting SEND in: `actions` as for on_packet.
  PostResult post_recv(Time now, const RecvRequest& request, RxActions& actions);

  // ---- Facts
  RxVerdict on_packet(Time now, const wire::Packet& packet, FrameHandle frame, RxActions& actions);
  void on_deadline(Time now, RxActions& actions);
  // The wire could not take what this queue pair wanted to send: the window is not the limit.
  void on_back_pressure() { requester_.on_back_pressure(), responder_.on_back_pressure(); }

  // ---- Work out
  [[nodiscard]] bool wants_to_send() const;
  // The next packet in `out`; false when there is nothing to send now.
  bool poll_packet(Time now, TxPacket& out);
  bool poll_completion(Completion& out);
  QpEvent poll_event();
  [[nodiscard]] Time next_deadline() const;

  // ---- Getters
  [[nodiscard]] uint32_t qpn() const { return config_.qpn; }
  [[nodiscard]] QpState state() const { return state_; }
  [[nodiscard]] bool sq_draining() const;
  // Work requests, responses or acknowledgements are outstanding: somebody has to keep polling.
  [[nodiscard]] bool busy() const;
  // Send requests posted and not yet completed.
  [[nodiscard]] uint32_t sends_outstanding() const { return requester_.outstanding(); }
  [[nodiscard]] const Requester& requester() const { return requester_; }
  [[nodiscard]] const Responder& responder() const { return responder_; }
  // Of the requests, and of the READ data, that this queue pair sends.
  [[nodiscard]] StreamStats request_stats() const { return requester_.sender().stats(); }
  [[nodiscard]] StreamStats response_stats() const { return responder_.response_sender().stats(); }

 private:
  void enter_error();
  void clean_up_after_error(RxActions& actions);
  void react_to_refusal();
  void raise(QpEvent event);
  [[nodiscard]] bool accepts(wire::PacketStream stream, const wire::Packet& packet) const;
  [[nodiscard]] bool responder_sends() const;

  QpConfig config_;
  Device device_;
  QpAttributes attributes_;
  QpState state_ = QpState::kReset;
  Requester requester_;
  Responder responder_;
  QpEvent event_ = QpEvent::kNone;
  Time now_;  // of the call in progress
  bool heard_peer_ = false;
  bool drain_event_due_ = false;
  // The error state was entered where no frames could be given back; next_deadline() is due.
  bool clean_up_due_ = false;
  bool responses_first_ = false;
};

}  // namespace mprdma::transport
