// The responder half of a reliable connection by the standard's rules (IBTA volume 1, 9.7.4, 9.7.5
// and 9.9.3): requests are executed in the order of their PSNs and never ahead of it.
//
// A request behind the expected PSN is a duplicate: SEND and WRITE are acknowledged again, a READ
// is executed anew, an atomic is answered with its first result. READs and atomics take resources,
// of which the responder has max_dest_rd_atomic, and which it remembers after they are answered. A
// request ahead of the expected PSN is dropped; the first such request is answered with a NAK.
//
// Answers leave in the order of the requests: READ data and atomic results by PSN, then the
// acknowledgement or NAK of the requests behind them. So acknowledgements coalesce until the host
// polls for them.
//
// With Params::go_back_0 a gap within a SEND or WRITE forgets the message: the NAK names its first
// packet. Only a requester that does the same understands it, because later packets of the message
// may have been acknowledged.
//
// A request that breaks a rule is answered with a NAK that ends the connection; then the queue pair
// is in error and drops what comes (10.3.1), also the same request once more.
#pragma once

#include <cstdint>

#include "base/ring.hpp"
#include "transport/core/stats.hpp"
#include "transport/work/incoming_request.hpp"
#include "transport/work/qp_core.hpp"

namespace mprdma::transport {

class RoceResponder {
 public:
  explicit RoceResponder(QpCore& core);

  // Entering RTR. Receives that were posted before stay.
  void enter_rtr();
  void reset();
  // Entering ERR. The NAK of a refusal still leaves, after the answers before it.
  void fail();

  void on_request(const wire::Packet& packet, FrameHandle frame, RxActions& actions);
  [[nodiscard]] bool wants_to_send() const { return answers() || reply_ != Reply::kNone; }
  // True if a response, not only an acknowledgement, is to be sent.
  [[nodiscard]] bool answers() const { return cursor_ != resources_.tail_index(); }
  bool poll_packet(TxPacket& out);
  [[nodiscard]] bool refused() const { return refused_; }
  [[nodiscard]] StreamStats stats() const { return stats_; }

 private:
  // A READ or an atomic, and the response to it that is to be sent, or was.
  struct Resource {
    wire::Operation operation = wire::Operation::kNone;
    Psn first;
    uint32_t packets = 0;
    wire::Reth reth;  // range of the first request
    uint32_t pd = 0;
    uint32_t msn = 0;
    uint64_t original = 0;  // atomic: old value of the memory
    // The response that is being sent begins at packet `begin`.
    uint32_t begin = 0;
    uint32_t next = 0;      // packet that is sent next
    uint32_t end = 0;       // packet after the last one
    uint32_t end_byte = 0;  // end of the response in the READ's data, bytes
    uint32_t sent = 0;      // packets that were sent at least once
    bool answered = false;  // the whole response was sent at least once
  };
  enum class Reply : uint8_t { kNone, kAck, kNak };

  // ---- Requests out of order
  void on_duplicate(const wire::Packet& packet);
  void answer_read_again(const wire::Packet& packet);
  void answer_atomic_again(const wire::Packet& packet);
  [[nodiscard]] bool find_resource(Psn psn, uint32_t* index) const;
  void on_gap();
  [[nodiscard]] bool may_forget() const;
  [[nodiscard]] bool begins_again(const wire::Packet& packet) const;
  void forget_message();

  // ---- Requests in order. False: refused, or the peer has to send the request again.
  bool execute(const wire::Packet& packet, FrameHandle frame, RxActions& actions);
  bool execute_send(const wire::Packet& packet, FrameHandle frame, RxActions& actions);
  bool begin_receive(const wire::Packet& packet);
  bool execute_write(const wire::Packet& packet, FrameHandle frame, RxActions& actions);
  bool execute_read(const wire::Packet& packet);
  bool execute_atomic(const wire::Packet& packet, RxActions& actions);
  Resource* allocate_resource(const wire::Packet& packet, uint32_t packets);
  [[nodiscard]] bool continues(const wire::Packet& packet) const;
  [[nodiscard]] bool protection_domain(const wire::Packet& packet, uint32_t* pd) const;
  void finish_receive(const wire::Packet& packet, WcOpcode opcode, uint32_t byte_len);
  void finish_packet(const wire::Packet& packet, uint32_t psns);

  // ---- Answers
  bool not_ready();
  bool refuse(wire::NakCode code);
  bool refuse(wire::NakCode code, QpEvent event);
  bool refuse_receive(WcStatus status, wire::NakCode code);
  bool refuse_write(const wire::Packet& packet);
  bool refuse_invalidate();
  void set_nak(uint8_t syndrome);
  void begin_answer(uint32_t index, uint32_t begin, uint32_t end, uint32_t end_byte);
  bool fill_read(Resource& resource, TxPacket& out);
  void fill_atomic(Resource& resource, TxPacket& out);
  void fill_reply(TxPacket& out);
  [[nodiscard]] Psn newest_without_response(uint32_t* msn) const;
  void fill_header(TxPacket& out, wire::Opcode opcode, Psn psn) const;
  void pass_answered();

  QpCore& core_;
  Ring<Resource> resources_;  // in the order of their PSNs
  uint32_t cursor_ = 0;       // index of the first resource with an answer to send
  IncomingMessage message_;
  Psn message_first_;  // of message_
  uint32_t message_pd_ = 0;
  Psn expected_;
  uint32_t msn_ = 0;      // messages done, modulo 2^24
  uint32_t unacked_ = 0;  // packets taken since the last acknowledgement
  // A NAK for expected_ was made (sequence error, RNR), and that packet has not come since: a
  // request ahead of it gets no further NAK. Duplicates are answered as ever.
  bool nak_made_ = false;
  bool receiving_ = false;  // the message has taken a receive
  Reply reply_ = Reply::kNone;
  // While reply_ is kNak: an acknowledgement is due, too. The NAK acknowledges as well; if the
  // expected packet comes before the NAK leaves, an acknowledgement is sent in its place.
  bool ack_owed_ = false;
  uint8_t nak_syndrome_ = 0;
  Psn nak_psn_;
  bool refused_ = false;
  StreamStats stats_;
};

}  // namespace mprdma::transport
