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
#include "transport/qp_config.hpp"
#include "transport/sge_list.hpp"
#include "transport/stream_receiver.hpp"
#include "transport/stream_sender.hpp"
#include "transport/types.hpp"

namespace mprdma::transport {

class Responder {
 public:
  // The arguments outlive the responder.
  Responder(const QpConfig& config, const Device& device, const QpAttributes& attributes);

  // Entering RTR. Receives that were posted before stay.
  void connect();
  // Back to RESET: forgets everything, gives held frames back.
  void reset(RxActions& actions);
  // Entering ERR: posted receives come out of poll_completion as flushed.
  void fail() { failed_ = true; }
  void release_held(RxActions& actions) { receiver_.release_held(actions); }

  // Takes over a receive work request; false when the queue is full. The caller has checked it.
  bool post_recv(const RecvRequest& request);
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
  bool poll_completion(Completion& out);
  [[nodiscard]] Time next_deadline() const;

  // Once for a refusal: true, with its asynchronous event (kAccessError or kRequestError), or
  // kNone where the receive's completion says it.
  bool take_refusal(QpEvent* event);
  // A request was refused, or a READ failed midway: the response stream goes on in the error state
  // until everything in it is acknowledged.
  [[nodiscard]] bool refused() const { return receiver_.refused() || response_failed_; }
  // Requests get the terminal NAK once more; nothing is executed.
  [[nodiscard]] bool repeats_nak() const { return receiver_.refused(); }
  [[nodiscard]] bool busy() const { return !dormant() && (!response_sender_.idle() || has_new()); }
  [[nodiscard]] const StreamSender& response_sender() const { return response_sender_; }
  [[nodiscard]] uint32_t receives_posted() const { return receives_.tail_index() - next_receive_; }

 private:
  struct Receive {
    uint64_t wr_id = 0;
    uint32_t num_sge = 0;
    uint32_t capacity_bytes = 0;  // saturated
    WcStatus status = WcStatus::kSuccess;
    bool done = false;
    bool has_imm = false;
    bool solicited = false;
    WcOpcode opcode = WcOpcode::kRecv;
    uint32_t byte_len = 0;
    uint32_t imm = 0;
  };
  // The message that is arriving.
  struct Message {
    wire::Operation operation = wire::Operation::kNone;  // kNone: between messages
    uint32_t offset = 0;                                 // bytes placed
    wire::Reth reth;                                     // of a WRITE
  };
  // A READ whose response may have to be sent (again).
  struct ReadContext {
    Psn first;
    uint32_t packets = 0;
    wire::Reth reth;
    uint32_t message_number = 0;
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

  Early place(const wire::Packet& packet, FrameHandle frame, RxActions& actions) const;
  Outcome execute(const wire::Packet& packet, FrameHandle frame, bool placed, RxActions& actions);
  Outcome execute_send(const wire::Packet& packet, FrameHandle frame, RxActions& actions);
  Outcome execute_write(const wire::Packet& packet, FrameHandle frame, bool placed,
                        RxActions& actions);
  Outcome execute_read(const wire::Packet& packet);
  [[nodiscard]] bool length_fits_place(const wire::Packet& packet) const;
  [[nodiscard]] bool write_fits(const wire::Packet& packet) const;
  [[nodiscard]] bool continues(const wire::Packet& packet, wire::Operation operation) const;
  void complete_receive(const wire::Packet& packet, WcOpcode opcode, uint32_t byte_len);
  Outcome refuse(wire::NackCode code);
  Outcome refuse_receive(WcStatus status, wire::NackCode code);
  [[nodiscard]] bool receive_ready() const { return next_receive_ != receives_.tail_index(); }
  [[nodiscard]] Outcome not_ready() const;

  [[nodiscard]] bool has_new() const;
  [[nodiscard]] const ReadContext& context_of(Psn psn) const;
  void free_acknowledged_contexts();
  void fill_response(const ReadContext& context, uint32_t index, TxPacket& out);
  [[nodiscard]] bool dormant() const;
  [[nodiscard]] std::span<Sge> sges_of(uint32_t index) const {
    const uint32_t slot = index & (receives_.capacity() - 1);
    return {&sges_[size_t{slot} * config_.max_recv_sge], config_.max_recv_sge};
  }

  const QpConfig& config_;
  const Device& device_;
  const QpAttributes& attributes_;
  StreamReceiver receiver_;
  StreamSender response_sender_;
  Ring<Receive> receives_;
  std::unique_ptr<Sge[]> sges_;  // receives_.capacity() x max_recv_sge, by ring slot
  Ring<ReadContext> contexts_;
  Message message_;
  uint32_t next_receive_ = 0;    // index of the first receive that no message took
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
