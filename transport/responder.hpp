// The responder half of a queue pair (IBTA volume 1, 9.7.4 and 9.7.5; design 3.2 and 3.3): takes
// the peer's request stream, fills receive work requests, places WRITEs, and sends READ data in a
// response stream of its own.
//
// Everything executes at the head of line; only WRITE data may be placed before, as it arrives
// (PlacementPolicy). A request that breaks a rule is answered with a terminal
// NAK, after which the responder executes nothing more and repeats that NAK. It never gives up on
// an unacknowledged response: it backs off, falls silent, and resumes on any packet.
#pragma once

#include <cstdint>
#include <memory>

#include "base/ring.hpp"
#include "base/units.hpp"
#include "transport/qp_core.hpp"
#include "transport/sge_list.hpp"
#include "transport/stream_receiver.hpp"
#include "transport/stream_sender.hpp"
#include "transport/types.hpp"

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
  // Entering ERR: nothing more is let in.
  void fail() { failed_ = true; }
  void release_held(RxActions& actions) { receiver_.release_held(actions); }

  // Lets in what waited for a receive. True if `actions` has something.
  bool resume(Time now, RxActions& actions);

  RxVerdict on_request(Time now, const wire::Packet& packet, FrameHandle frame, RxActions& actions);
  void on_response_ack(Time now, const wire::Packet& ack);
  // Any packet of the peer came.
  void on_sign_of_life(Time now);
  void on_deadline(Time now);
  void on_back_pressure() { response_sender_.on_back_pressure(); }

  [[nodiscard]] bool wants_to_send() const { return response_sender_.choose(has_new()).any(); }
  bool poll_packet(Time now, TxPacket& out);
  [[nodiscard]] Time next_deadline() const;

  // Once for a refusal: true, with its asynchronous event (kAccessError or kRequestError), or
  // kNone where the receive's completion says it.
  bool take_refusal(QpEvent* event);
  // A request was refused, or a READ failed midway: the response stream goes on in the error state
  // until everything in it is acknowledged.
  [[nodiscard]] bool refused() const { return receiver_.refused() || response_failed_; }
  // Requests get the terminal NAK once more; nothing is executed.
  [[nodiscard]] bool repeats_nak() const { return receiver_.repeats_nak(); }
  [[nodiscard]] bool busy() const { return !dormant() && (!response_sender_.idle() || has_new()); }
  [[nodiscard]] const StreamSender& response_sender() const { return response_sender_; }

 private:
  // The message that is arriving.
  struct Message {
    wire::Operation operation = wire::Operation::kNone;  // kNone: between messages
    uint32_t offset = 0;                                 // bytes placed
    wire::Reth reth;                                     // of a WRITE
  };
  // A READ or an atomic whose response may have to be sent (again).
  struct ReadContext {
    Psn first;
    uint32_t packets = 0;
    bool atomic = false;
    wire::Reth reth;
    uint32_t message_number = 0;
    uint64_t original = 0;  // atomic: what it found
  };

  // What the stream's receiver calls.
  struct RequestStream {
    Responder& self;
    RxActions& actions;
    Outcome execute(const wire::Packet& packet, FrameHandle frame, bool placed) const {
      return self.execute(packet, frame, placed, actions);
    }
    Early place(const wire::Packet& packet, FrameHandle frame) const {
      return self.place(packet, frame, actions);
    }
  };

  [[nodiscard]] bool open_remote(const wire::Reth& reth, uint32_t access, uint64_t* addr) const {
    return device_.memory->translate_remote(reth.rkey, config_.pd, config_.qpn, reth.va,
                                            reth.dma_len, access, addr);
  }
  Early place(const wire::Packet& packet, FrameHandle frame, RxActions& actions) const;
  Outcome execute(const wire::Packet& packet, FrameHandle frame, bool placed, RxActions& actions);
  Outcome execute_send(const wire::Packet& packet, FrameHandle frame, RxActions& actions);
  Outcome execute_write(const wire::Packet& packet, FrameHandle frame, bool placed,
                        RxActions& actions);
  Outcome execute_read(const wire::Packet& packet);
  Outcome execute_atomic(const wire::Packet& packet, RxActions& actions);
  [[nodiscard]] bool may_be_answered(const wire::Packet& packet) const;
  Outcome add_context(const wire::Packet& packet, uint32_t packets);
  [[nodiscard]] bool write_fits(const wire::Packet& packet) const;
  [[nodiscard]] bool continues(const wire::Packet& packet, wire::Operation operation) const;
  void complete_receive(const wire::Packet& packet, WcOpcode opcode, uint32_t byte_len);
  Outcome refuse(wire::NackCode code);
  Outcome refuse_receive(WcStatus status, wire::NackCode code);
  Outcome refuse_write(const wire::Packet& packet);
  Outcome refuse_invalidate();
  [[nodiscard]] bool receive_ready(const wire::Packet& packet) {
    return core_.receives.ready(core_.shared_for(packet));
  }
  [[nodiscard]] Outcome not_ready() const;

  [[nodiscard]] bool has_new() const;
  [[nodiscard]] const ReadContext& context_of(Psn psn) const;
  void free_acknowledged_contexts();
  void fill_response(const ReadContext& context, uint32_t index, bool again, TxPacket& out);
  [[nodiscard]] bool dormant() const;

  QpCore& core_;
  const QpConfig& config_;
  const Device& device_;
  const QpAttributes& attributes_;
  StreamReceiver receiver_;
  StreamSender response_sender_;
  Ring<ReadContext> contexts_;
  Message message_;
  uint32_t receive_number_ = 0;  // messages that consumed a receive
  uint32_t read_number_ = 0;
  Psn response_end_;  // PSN after the last response packet known so far
  Time now_;          // of the call in progress
  bool failed_ = false;
  bool response_failed_ = false;
  bool refusal_due_ = false;  // a refusal that the queue pair has not heard of
  QpEvent refusal_event_ = QpEvent::kNone;
};

}  // namespace mprdma::transport
