// An unreliable connection (IBTA volume 1, 9.8.2): one PSN space in each direction, no
// acknowledgement and no retransmission.
//
// Sending: a message's packets have consecutive PSNs; it is complete when the last one was handed
// out. Receiving: a packet that is not the next one ends the message that was arriving, and what
// follows is dropped up to the next first or only packet, which is always taken. A message that
// finds no receive, breaks a rule, or names memory that it may not write is dropped from there on;
// the peer is not told (9.9.3, classes D and E). Data of a message that is dropped later stays
// where it was placed. A receive that such a message had taken serves the next one, unless it came
// from a shared queue: that one completes in error (class E). A marked packet asks its sender for
// less by a CNP, which is all that the peer is told.
//
// qp_core.hpp describes the members.
#pragma once

#include "transport/core/stats.hpp"
#include "transport/pace/notification_point.hpp"
#include "transport/unreliable/unacked_sends.hpp"
#include "transport/work/connection_defaults.hpp"
#include "transport/work/incoming_request.hpp"
#include "transport/work/local_work.hpp"
#include "transport/work/qp_core.hpp"

namespace mprdma::transport {

class UcConnection : public ConnectionDefaults {
 public:
  explicit UcConnection(QpCore& core);

  void enter_rtr();
  void enter_rts();
  void reset(RxActions& actions);
  void resume_sends();
  void set_draining(bool draining) { draining_ = draining; }
  [[nodiscard]] bool drained() const { return next_packet_ == 0; }
  [[nodiscard]] bool supports(WorkOpcode opcode) const {
    return opcode == WorkOpcode::kSend || opcode == WorkOpcode::kSendImm ||
           opcode == WorkOpcode::kWrite || opcode == WorkOpcode::kWriteImm || is_local_work(opcode);
  }
  bool post_send(Time now, const SendRequest& request);
  RxVerdict on_packet(Time now, const wire::Packet& packet, FrameHandle frame, RxActions& actions);
  [[nodiscard]] bool wants_to_send() const;
  bool poll_packet(Time now, TxPacket& out);
  bool poll_completion(Completion& out);
  [[nodiscard]] bool sends_failed() const { return sends_.failed(); }
  [[nodiscard]] bool busy() const { return sends_requests(core_.state) && outstanding() > 0; }
  [[nodiscard]] uint32_t outstanding() const { return sends_.outstanding(); }
  [[nodiscard]] StreamStats request_stats() const;

 private:
  bool fill(uint32_t packet_index, TxPacket& out);
  void abandon();
  void process_request(const wire::Packet& packet, FrameHandle frame, RxActions& actions);
  bool process_send(const wire::Packet& packet, FrameHandle frame, RxActions& actions);
  bool process_write(const wire::Packet& packet, FrameHandle frame, RxActions& actions);

  QpCore& core_;
  UnackedSends sends_;
  Psn snd_nxt_;
  uint32_t next_packet_ = 0;  // next packet of the message that is being sent
  uint64_t packets_sent_ = 0;
  bool draining_ = false;
  Psn rcv_nxt_;
  IncomingMessage message_;
  NotificationPoint notifications_;
};

}  // namespace mprdma::transport
