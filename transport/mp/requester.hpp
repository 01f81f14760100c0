// The requester half of a queue pair (IBTA volume 1, 9.7.3 and 10.7; design 3.3): turns posted work
// into the request stream, takes the response stream, and completes work in posting order.
//
// A work request (work/send_queue.hpp) is complete when all of its packets are acknowledged and,
// for a READ or an atomic, when its data is placed.
#pragma once

#include <cstdint>

#include "base/units.hpp"
#include "transport/core/types.hpp"
#include "transport/stream/stream_receiver.hpp"
#include "transport/stream/stream_sender.hpp"
#include "transport/work/qp_core.hpp"
#include "transport/work/send_queue.hpp"

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
  // Entering ERR: poll_completion hands out the posted requests as flushed.
  void fail() { sends_.flush(); }
  void release_held(RxActions& actions) { response_receiver_.release_held(actions); }
  // SQD: work requests that have not begun have to wait.
  void set_draining(bool draining) {
    sends_.set_draining(draining);
    sends_.run_local_work(sender_.nxt());
  }
  // True if every work request that has begun is complete.
  [[nodiscard]] bool drained() const { return sends_.drained(); }

  // Takes over a work request that the caller has checked; false when the queue is full.
  bool post_send(Time now, const SendRequest& request);

  void on_ack(Time now, const wire::Packet& ack);
  RxVerdict on_response(Time now, const wire::Packet& packet, FrameHandle frame,
                        RxActions& actions);
  void on_deadline(Time now);
  void on_back_pressure() { sender_.on_back_pressure(); }

  [[nodiscard]] bool wants_to_send() const {
    if (steady()) [[likely]] {
      if (!sends_.has_unsent()) return false;
      if (sends_.next_is_plain()) return sender_.may_send_steady();
    }
    return keepalive_due_ || (!sends_.stopped() && sender_.choose(has_new()).any());
  }
  bool poll_packet(Time now, TxPacket& out);
  // True: `out` is the next completion. A completion with an error makes failed() true.
  bool poll_completion(Completion& out);
  // requester_plain.cpp: false if nothing was done and the general function has to be called.
  bool post_plain(Time now, const PlainRequest& request);
  bool poll_plain(Time now, PlainPacket& out);
  PlainSend send_plain(Time now, const PlainRequest& request, PlainPacket& out);
  bool take_plain_ack(Time now, const wire::BarePacket& packet);
  bool pop_plain(PlainCompletion& out);
  // True once a completion with an error was handed out: the queue pair has to enter ERR.
  [[nodiscard]] bool failed() const { return sends_.failed(); }
  // True if poll_completion() would hand out a completion.
  [[nodiscard]] bool completion_ready() const;
  [[nodiscard]] Time next_deadline() const;

  [[nodiscard]] uint32_t outstanding() const { return sends_.size(); }
  // Outstanding local work that has run.
  [[nodiscard]] uint32_t local_work_done() const { return sends_.local_work_done(); }
  [[nodiscard]] const StreamSender& sender() const { return sender_; }
  // Of the responses (owed acknowledgements).
  [[nodiscard]] StreamReceiver& receiver() { return response_receiver_; }
  [[nodiscard]] const StreamReceiver& receiver() const { return response_receiver_; }
  // True if a request is in the queue whose packets may be longer than the path MTU. (Or whose
  // answer's may.)
  [[nodiscard]] bool sends_long() const { return has_long_ && sends_.holds(newest_long_); }
  [[nodiscard]] uint32_t reads_outstanding() const { return sends_.num_reads(); }

 private:
  struct Work : SendWork {
    bool response_done = false;     // READ, atomic
    uint32_t response_packets = 0;  // READ, atomic
    Psn response_first;             // READ, atomic: PSN of the answer's first packet
    uint32_t message_number = 0;
    uint32_t response_offset = 0;  // READ: bytes placed

    void reset_own() {
      response_done = false;
      response_packets = message_number = response_offset = 0;
      response_first = Psn();
    }
  };

  // True if only the next request's own flags, the window and a credit decide whether a packet
  // leaves, and which.
  [[nodiscard]] bool steady() const {
    return sender_.steady() && sends_.steady() && !keepalive_due_;
  }
  [[nodiscard]] bool has_new() const {
    if (sends_.steady()) [[likely]] {
      if (!sends_.has_unsent()) return false;
      if (sends_.next_is_plain()) return true;
    }
    return find_new();
  }
  [[nodiscard]] bool find_new() const;
  // True also if a synchronise operation waits only for the packets that were sent before it.
  [[nodiscard]] bool has_backlog() const {
    return has_new() || (config_.params.sync_wait_is_backlog && waits_to_follow() &&
                         config_.params.sync_policy == SyncPolicy::kOptimistic);
  }
  // The owner that the receiver of the response stream calls (StreamReceiver).
  struct ResponseStream {
    Requester& self;
    RxActions& actions;
    ExecuteResult execute(const wire::Packet& packet, FrameHandle frame, bool placed) const {
      if (self.config_.params.protocol == Protocol::kIrn) [[unlikely]] {
        return self.execute_response(self.complete(packet), frame, placed, actions);
      }
      return self.execute_response(packet, frame, placed, actions);
    }
    PlacementVerdict place(const wire::Packet& packet, FrameHandle frame) const {
      return self.place_response(packet, frame, actions);
    }
  };

  void size_work(Work& work);
  void choose_segment(Work& work) {
    work.segment = send_segment_of(attributes_);
    if (work.segment > attributes_.path_mtu && work.length > attributes_.path_mtu) note_long();
  }
  void note_long() {
    newest_long_ = sends_.newest_index();
    has_long_ = true;
  }
  void note_backlog();
  void begin_backlog();
  [[nodiscard]] bool may_begin(const Work& work) const;
  [[nodiscard]] Time sync_release(const Work& work) const;
  [[nodiscard]] bool waits_to_follow() const;
  [[nodiscard]] Time next_release() const;
  void begin();
  bool poll_steady(Time now, TxPacket& out);
  void begin_plain(Work& work);
  void fill_bare(Time now, const Work& work, wire::Opcode opcode, uint32_t offset, uint32_t length,
                 wire::BarePacket& header) const;
  void note_steady_ack();
  bool fill_plain(const Work& work, uint32_t packet_index, TxPacket& out);
  bool fill_request(uint32_t index, uint32_t packet_index, TxPacket& out);
  bool fill_atomic(uint32_t index, wire::Packet& header);
  void make_keepalive(TxPacket& out);
  void on_rnr(Time now, const wire::Packet& ack);
  void on_terminal_nak(const wire::Packet& ack);
  [[nodiscard]] wire::Packet complete(const wire::Packet& packet) const;
  ExecuteResult execute_response(const wire::Packet& packet, FrameHandle frame, bool placed,
                                 RxActions& actions);
  PlacementVerdict place_response(const wire::Packet& packet, FrameHandle frame,
                                  RxActions& actions) const;
  [[nodiscard]] bool response_fits(const Work& work, uint32_t offset,
                                   const wire::Packet& packet) const;
  ExecuteResult execute_atomic_response(const wire::Packet& packet, RxActions& actions);
  ExecuteResult end_response(uint32_t index, WcStatus status, uint32_t vendor_err = 0);
  [[nodiscard]] bool complete(const Work& work) const;
  // True if requests are outstanding and may be sent again, or the next one waits for its time.
  [[nodiscard]] bool sending() const {
    return !sends_.stopped() && (!sender_.idle() || sender_.spaced());
  }
  void time_oldest_read();
  void pop_read();
  [[nodiscard]] Duration retry_interval() const;
  [[nodiscard]] Time give_up_after(Time last_progress) const;
  [[nodiscard]] Time requests_give_up_at() const;
  [[nodiscard]] Time reads_give_up_at() const;

  QpCore& core_;
  const QpConfig& config_;
  const Device& device_;
  const QpAttributes& attributes_;
  std::unique_ptr<HardwareSender> half_;  // of sender_; nullptr: in software
  StreamSender sender_;
  StreamReceiver response_receiver_;
  SendQueue<Work> sends_;
  uint32_t receive_number_ = 0;
  uint32_t read_number_ = 0;
  bool peer_in_order_ = false;  // the peer places in order, by its last acknowledgement
  bool has_long_ = false;       // newest_long_ is valid
  uint32_t newest_long_ = 0;    // index of the request that was posted last in long segments
  Psn rnr_psn_;                 // the packet for which the receiver was not ready last
  Psn response_end_;            // PSN after the last response packet that was asked for
  uint32_t open_response_packets_ = 0;  // sum over the open READs
  bool read_timed_ = false;  // the oldest READ's request has arrived, its data is awaited
  Time last_response_;       // last progress of the response stream, or its start
  Time next_keepalive_ = Time::never();
  bool keepalive_due_ = false;
  bool had_new_ = false;  // has_new() when the sender was last told
  Time now_;              // of the call in progress
};

inline bool Requester::pop_plain(PlainCompletion& out) {
  if (!sends_.steady() || sends_.empty()) return false;
  const Work& work = sends_.oldest();
  if (!work.plain || !work.begun || work.status != WcStatus::kSuccess ||
      (work.first + work.packets).after(sender_.una())) {
    return false;
  }
  out.wr_id = work.wr_id;
  out.byte_len = work.length;
  out.opcode = is_write(work.opcode) ? WcOpcode::kWrite : WcOpcode::kSend;
  out.emit = !sends_.oldest_is_silent();
  sends_.pop_silently();
  return true;
}

}  // namespace mprdma::transport
