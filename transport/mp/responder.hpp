// The responder half of a queue pair (IBTA volume 1, 9.7.4 and 9.7.5; design 3.2 and 3.3): takes
// the peer's request stream, fills receive work requests, places WRITEs, and sends READ data in a
// response stream of its own.
//
// Everything executes at the head of line; only WRITE data may be placed earlier, on arrival
// (PlacementPolicy). A request that breaks a rule is answered with a terminal NAK, after which the
// responder executes nothing more and repeats that NAK. It never gives up on an unacknowledged
// response: it backs off, falls silent, and resumes on any packet.
#pragma once

#include <cstdint>
#include <memory>

#include "base/ring.hpp"
#include "base/units.hpp"
#include "transport/core/types.hpp"
#include "transport/stream/stream_receiver.hpp"
#include "transport/stream/stream_sender.hpp"
#include "transport/work/incoming_request.hpp"
#include "transport/work/qp_core.hpp"
#include "transport/work/sge_list.hpp"

namespace mprdma::transport {

class Responder {
 public:
  explicit Responder(QpCore& core);

  // Entering RTR. Receives that were posted before stay.
  void connect();
  // The verbs set the timeout in RTR, or later.
  void follow_attributes();
  // Back to RESET: forgets everything, gives held frames back.
  void reset(RxActions& actions);
  // Entering ERR: no further request is taken.
  void fail() { failed_ = true; }
  void release_held(RxActions& actions) { receiver_.release_held(actions); }

  // Executes a message that waited for a receive. True if `actions` is not empty.
  bool resume(Time now, RxActions& actions);

  RxVerdict on_request(Time now, const wire::Packet& packet, FrameHandle frame, RxActions& actions);
  // responder_plain.cpp: false if nothing was done and on_request() has to be called.
  bool take_plain_write(Time now, const wire::BarePacket& packet, RxActions& actions, uint64_t* to);
  bool take_plain_send(Time now, const wire::BarePacket& packet, RxActions& actions, uint64_t* to);
  // What take_plain_write() will do with packets of which none has been taken yet.
  bool begin_plan(uint32_t psn, PlannedWrites& plan) const;
  bool plan_plain_write(const wire::BarePacket& packet, PlannedWrites& plan, uint64_t* to) const;
  void take_planned(Time now, const wire::BarePacket& packet, const PlannedWrites& plan,
                    RxActions& actions) {
    now_ = now;
    message_ = plan.message;
    receiver_.pass(now, packet.vp, packet.time, actions);
  }
  void on_response_ack(Time now, const wire::Packet& ack);
  // The response stream is silent until the peer is heard.
  [[nodiscard]] bool dormant() const {
    return response_sender_.timeouts_in_a_row() >= kDormantAfterTimeouts &&
           !response_sender_.asks_often();
  }
  // Called for any packet of the peer. True if the response stream tries again.
  bool on_sign_of_life(Time now) {
    if (!dormant()) [[likely]]
      return false;
    response_sender_.wake(now);
    return true;
  }
  void on_deadline(Time now);
  void on_back_pressure() { response_sender_.on_back_pressure(); }

  // True if there is no response that is not acknowledged.
  [[nodiscard]] bool quiet() const { return response_sender_.idle() && !has_new(); }
  [[nodiscard]] bool wants_to_send() const {
    return !quiet() && response_sender_.choose(has_new()).any();
  }
  bool poll_packet(Time now, TxPacket& out);
  [[nodiscard]] Time next_deadline() const;

  // True once a request was refused, or a READ failed midway: the response stream goes on in the
  // error state until everything in it is acknowledged.
  [[nodiscard]] bool refused() const { return receiver_.refused() || response_failed_; }
  // True if requests get the terminal NAK once more and are not executed.
  [[nodiscard]] bool repeats_nak() const { return receiver_.repeats_nak(); }
  [[nodiscard]] bool busy() const { return !quiet() && !dormant(); }
  // True if a response is outstanding, or may be, whose packets are longer than the path MTU.
  [[nodiscard]] bool sends_long() const {
    return !quiet() && has_long_ && response_sender_.una().before(long_end_);
  }
  [[nodiscard]] const StreamSender& response_sender() const { return response_sender_; }
  // Of the requests (owed acknowledgements).
  [[nodiscard]] StreamReceiver& receiver() { return receiver_; }
  [[nodiscard]] const StreamReceiver& receiver() const { return receiver_; }

 private:
  // Timeouts in a row after which the response stream falls silent until the peer is heard again.
  static constexpr uint32_t kDormantAfterTimeouts = 7;

  // A READ or an atomic whose response may have to be sent (again).
  struct ReadContext {
    Psn first;
    uint32_t packets = 0;
    uint32_t segment = 0;  // READ: bytes of its packets but for the last one
    bool atomic = false;
    wire::Reth reth;
    uint32_t message_number = 0;
    uint64_t original = 0;  // atomic: old value of the memory
  };

  // The owner that the receiver of the request stream calls (StreamReceiver).
  struct RequestStream {
    Responder& self;
    RxActions& actions;
    ExecuteResult execute(const wire::Packet& packet, FrameHandle frame, bool placed) const {
      return self.execute(packet, frame, placed, actions);
    }
    PlacementVerdict place(const wire::Packet& packet, FrameHandle frame) const {
      return self.place(packet, frame, actions);
    }
  };

  bool continues_plain(const wire::BarePacket& packet, IncomingMessage& message,
                       uint64_t* to) const;
  PlacementVerdict place(const wire::Packet& packet, FrameHandle frame, RxActions& actions) const;
  ExecuteResult execute(const wire::Packet& packet, FrameHandle frame, bool placed,
                        RxActions& actions);
  ExecuteResult execute_whole(const wire::Packet& packet, FrameHandle frame, bool placed,
                              RxActions& actions);
  [[nodiscard]] wire::Packet complete(const wire::Packet& packet) const;
  ExecuteResult execute_send(const wire::Packet& packet, FrameHandle frame, RxActions& actions);
  ExecuteResult execute_write(const wire::Packet& packet, FrameHandle frame, bool placed,
                              RxActions& actions);
  ExecuteResult execute_read(const wire::Packet& packet);
  ExecuteResult execute_atomic(const wire::Packet& packet, RxActions& actions);
  [[nodiscard]] bool may_be_answered(const wire::Packet& packet) const;
  ExecuteResult add_context(const wire::Packet& packet, uint32_t packets, uint32_t segment);
  [[nodiscard]] bool write_fits(const wire::Packet& packet) const;
  [[nodiscard]] bool continues_write(const wire::Packet& packet) const;
  [[nodiscard]] bool continues(const wire::Packet& packet, wire::Operation operation) const;
  void complete_receive(const wire::Packet& packet, WcOpcode opcode, uint32_t byte_len);
  ExecuteResult refuse(wire::NackCode code);
  ExecuteResult refuse_receive(WcStatus status, wire::NackCode code);
  ExecuteResult refuse_write(const wire::Packet& packet);
  ExecuteResult refuse_invalidate();
  [[nodiscard]] bool receive_ready(const wire::Packet& packet) {
    return core_.receives.ready(core_.shared_for(packet));
  }
  [[nodiscard]] ExecuteResult not_ready() const;

  [[nodiscard]] bool has_new() const { return response_sender_.nxt() != response_end_; }
  [[nodiscard]] const ReadContext& context_of(Psn psn) const;
  void free_acknowledged_contexts();
  void fill_response(const ReadContext& context, uint32_t index, bool retransmission,
                     TxPacket& out);

  QpCore& core_;
  const QpConfig& config_;
  const Device& device_;
  const QpAttributes& attributes_;
  StreamReceiver receiver_;
  std::unique_ptr<HardwareSender> half_;  // of response_sender_; nullptr: in software
  StreamSender response_sender_;
  Ring<ReadContext> contexts_;
  IncomingMessage message_;
  uint32_t receive_number_ = 0;  // messages that consumed a receive
  uint32_t read_number_ = 0;
  Psn response_end_;       // PSN after the last response packet known so far
  Psn long_end_;           // PSN after the last response in segments longer than the path MTU
  Time now_;               // of the call in progress
  bool has_long_ = false;  // long_end_ is valid
  bool failed_ = false;
  bool response_failed_ = false;
};

}  // namespace mprdma::transport
