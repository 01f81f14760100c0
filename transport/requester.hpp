// The requester half of a queue pair (IBTA volume 1, 9.7.3 and 10.7; design 3.3): turns posted work
// into the request stream, takes the response stream, and completes work in posting order.
//
// A work request's packets have consecutive PSNs, given when its first packet is sent. It is
// complete when all of them are acknowledged and, for a READ or an atomic, when its data is placed.
// Work that never leaves the host (LOCAL_INV, BIND_MW) is executed when its turn comes. An error
// belongs to one work request; it is reported when everything before that one is complete, and the
// queue pair enters the error state with it, so that what follows is flushed in order.
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

class Requester {
 public:
  explicit Requester(QpCore& core);

  // Entering RTS from RTR.
  void connect();
  // The verbs set the timeout in RTR, or later.
  void follow_attributes();
  // Back to RESET.
  void reset(RxActions& actions);
  // Entering ERR: what is posted comes out of poll_completion as flushed.
  void fail() { flushing_ = true; }
  void release_held(RxActions& actions) { response_receiver_.release_held(actions); }
  // SQD: work requests that have not begun wait.
  void set_draining(bool draining) {
    draining_ = draining;
    run_local_work();
  }
  // Everything that has begun is complete.
  [[nodiscard]] bool drained() const;

  // Takes over a work request that the caller has checked; false when the queue is full.
  bool post_send(Time now, const SendRequest& request);

  void on_ack(Time now, const wire::Packet& ack);
  RxVerdict on_response(Time now, const wire::Packet& packet, FrameHandle frame,
                        RxActions& actions);
  void on_deadline(Time now);
  void on_back_pressure() { sender_.on_back_pressure(); }

  [[nodiscard]] bool wants_to_send() const {
    return nudge_due_ || (!stopped_ && sender_.choose(has_new()).any());
  }
  bool poll_packet(Time now, TxPacket& out);
  // True: `out` is the next completion. An error among them makes failed() true.
  bool poll_completion(Completion& out);
  // A completion with an error was handed out: the queue pair has to enter ERR.
  [[nodiscard]] bool failed() const { return failed_; }
  // poll_completion() would hand something out.
  [[nodiscard]] bool completion_ready() const;
  [[nodiscard]] Time next_deadline() const;

  [[nodiscard]] uint32_t outstanding() const { return queue_.size(); }
  // Outstanding local work that has run.
  [[nodiscard]] uint32_t local_work_done() const;
  [[nodiscard]] const StreamSender& sender() const { return sender_; }
  [[nodiscard]] uint32_t reads_outstanding() const { return reads_.size(); }

 private:
  struct Work {
    uint64_t wr_id = 0;
    uint64_t remote_addr = 0;
    uint64_t compare_add = 0;
    uint64_t swap = 0;
    uint32_t length = 0;
    uint32_t rkey = 0;
    uint32_t imm = 0;  // or the key of SendRequest::imm_or_rkey
    uint32_t bind_access = 0;
    WorkOpcode opcode = WorkOpcode::kSend;
    WcStatus status = WcStatus::kSuccess;  // an error is reported when this is the oldest
    uint16_t flags = 0;
    uint16_t num_sge = 0;
    bool begun = false;
    bool response_done = false;     // READ, atomic
    Psn first;                      // valid once begun
    uint32_t packets = 0;           // 0: it never leaves the host
    uint32_t response_packets = 0;  // READ, atomic
    Psn response_first;             // READ, atomic: PSN of the answer's first packet
    uint32_t message_number = 0;
    uint32_t response_offset = 0;  // READ: bytes placed
    uint32_t vendor_err = 0;
  };

  [[nodiscard]] bool has_new() const;
  // .. or only what was sent before a synchronise operation keeps that from being sent now.
  [[nodiscard]] bool has_backlog() const {
    return has_new() || (config_.params.sync_wait_is_backlog && waits_to_follow() &&
                         config_.params.sync_policy == SyncPolicy::kOptimistic);
  }
  // What the response stream's receiver calls.
  struct ResponseStream {
    Requester& self;
    RxActions& actions;
    Outcome execute(const wire::Packet& packet, FrameHandle frame, bool placed) const {
      return self.execute_response(packet, frame, placed, actions);
    }
    Early place(const wire::Packet& packet, FrameHandle frame) const {
      return self.place_response(packet, frame, actions);
    }
  };

  void size_work(Work& work, uint32_t bytes) const;
  void note_backlog();
  void run_local_work();
  void execute_local(uint32_t index);
  [[nodiscard]] bool may_begin(const Work& work) const;
  [[nodiscard]] Time sync_release(const Work& work) const;
  [[nodiscard]] bool waits_to_follow() const;
  [[nodiscard]] Time next_release() const;
  void begin(Work& work);
  uint32_t index_of(Psn psn) const;
  bool fill_request(uint32_t index, uint32_t packet_index, TxPacket& out);
  bool fill_atomic(uint32_t index, wire::Packet& header);
  void make_nudge(TxPacket& out);
  void fail_work(uint32_t index, WcStatus status, uint32_t vendor_err);
  void on_rnr(Time now, const wire::Packet& ack);
  void on_terminal_nak(const wire::Packet& ack);
  Outcome execute_response(const wire::Packet& packet, FrameHandle frame, bool placed,
                           RxActions& actions);
  Early place_response(const wire::Packet& packet, FrameHandle frame, RxActions& actions) const;
  [[nodiscard]] bool response_fits(const Work& work, uint32_t offset,
                                   const wire::Packet& packet) const;
  Outcome execute_atomic_response(const wire::Packet& packet, RxActions& actions);
  Outcome end_response(uint32_t index, WcStatus status, uint32_t vendor_err);
  [[nodiscard]] bool complete(const Work& work) const;
  [[nodiscard]] std::span<Sge> sges_of(uint32_t index) const {
    const uint32_t slot = index & (queue_.capacity() - 1);
    return {&sges_[size_t{slot} * config_.max_send_sge], config_.max_send_sge};
  }
  // Requests are outstanding and may be sent again.
  [[nodiscard]] bool sending() const { return !stopped_ && !sender_.idle(); }
  void time_oldest_read();
  void pop_read();
  [[nodiscard]] Duration retry_interval() const;
  [[nodiscard]] Time give_up_after(Time last_progress) const;
  [[nodiscard]] Time requests_give_up_at() const;
  [[nodiscard]] Time reads_give_up_at() const;
  void give_up(uint32_t index);

  QpCore& core_;
  const QpConfig& config_;
  const Device& device_;
  const QpAttributes& attributes_;
  StreamSender sender_;
  StreamReceiver response_receiver_;
  Ring<Work> queue_;
  std::unique_ptr<Sge[]> sges_;  // queue_.capacity() x max_send_sge, by ring slot
  Ring<uint32_t> reads_;         // indices of begun READs and atomics without a complete answer
  uint32_t next_ = 0;            // index of the work request that is being sent
  uint32_t next_packet_ = 0;     // packets of it that were sent
  uint32_t receive_number_ = 0;
  uint32_t read_number_ = 0;
  bool peer_in_order_ = false;          // the peer's last acknowledgement: it places in order
  Psn rnr_psn_;                         // what the receiver was not ready for last ..
  uint32_t rnr_left_ = 0;               // .. and how often it may say so again
  Psn response_end_;                    // PSN after the last response packet that was asked for
  uint32_t open_response_packets_ = 0;  // of all open READs
  bool read_timed_ = false;  // the oldest READ's request has arrived, its data is awaited
  Time last_response_;       // when the response stream last made progress, or that began
  Time next_nudge_ = Time::never();
  bool nudge_due_ = false;
  bool draining_ = false;
  bool stopped_ = false;  // a remote error: nothing more is sent
  bool blocked_ = false;  // an error in the queue: nothing new is sent
  bool flushing_ = false;
  bool failed_ = false;
  bool had_new_ = false;  // has_new() when the sender was last told
  Time now_;              // of the call in progress
};

}  // namespace mprdma::transport
