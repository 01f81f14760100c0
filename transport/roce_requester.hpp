// The requester half of a reliable connection by the standard's rules (IBTA volume 1, 9.7.3, 9.7.5,
// 9.7.6, 9.7.7 and 9.9.2): one PSN space, go-back-N.
//
// A work request has consecutive PSNs from when it begins: one for each packet that it sends, for a
// READ one for each packet of its response. The oldest PSN that is not acknowledged is `una`. An
// acknowledgement acknowledges everything up to its PSN, but for a READ or an atomic, which only
// its response does; one that reaches beyond such a request says that the response was lost
// (implied NAK). Whatever was lost: sending goes back to `una`, and goes on from there. A READ that
// is repeated asks for the rest of its data only.
//
// LOCAL_INV and BIND_MW have no PSN; they are done when they begin, in their turn.
//
// End-to-end credits (9.7.7.2) are not looked at: a receiver that is not ready says so.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/ring.hpp"
#include "transport/qp_core.hpp"
#include "transport/stats.hpp"

namespace mprdma::transport {

class RoceRequester {
 public:
  explicit RoceRequester(QpCore& core);

  void enter_rts();
  void reset();
  // Entering ERR: what is posted comes out of poll_completion as flushed.
  void fail() { flushing_ = true; }
  // SQD: work requests that have not begun wait.
  void set_draining(bool draining) {
    draining_ = draining;
    do_local_work();
  }
  // Everything that has begun is complete.
  [[nodiscard]] bool drained() const { return queue_.empty() || !queue_.front().begun; }

  // Takes over a work request that the caller has checked; false when the queue is full.
  bool post_send(Time now, const SendRequest& request);
  // ACK, NAK, READ response, atomic response.
  void on_packet(Time now, const wire::Packet& packet, FrameHandle frame, RxActions& actions);
  void on_deadline(Time now);

  [[nodiscard]] bool wants_to_send() const {
    return rnr_until_.is_never() && !stopped_ && (has_again() || has_new());
  }
  bool poll_packet(Time now, TxPacket& out);
  // True: `out` is the next completion. An error among them makes failed() true.
  bool poll_completion(Completion& out);
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] Time next_deadline() const;

  [[nodiscard]] uint32_t outstanding() const { return queue_.size(); }
  // Outstanding local work that has run.
  [[nodiscard]] uint32_t local_work_done() const;
  [[nodiscard]] StreamStats stats() const;

 private:
  struct Work {
    uint64_t wr_id = 0;
    uint64_t remote_addr = 0;
    uint64_t compare_add = 0;
    uint64_t swap = 0;
    uint32_t length = 0;
    uint32_t rkey = 0;
    uint32_t imm_or_rkey = 0;
    uint32_t bind_access = 0;
    uint32_t xrc_srqn = 0;
    WorkOpcode opcode = WorkOpcode::kSend;
    WcStatus status = WcStatus::kSuccess;  // an error is reported when this is the oldest
    uint16_t flags = 0;
    uint16_t num_sge = 0;
    bool begun = false;
    Psn first;             // valid once begun
    uint32_t packets = 0;  // PSNs
    // READ and atomic
    uint32_t responses = 0;   // response packets taken
    uint32_t resumed_at = 0;  // response packet that the latest request began with
    uint32_t vendor_err = 0;
  };
  enum class Cause : uint8_t { kNak, kTimeout, kRnr };

  // Sending.
  [[nodiscard]] bool has_again() const {
    return snd_nxt_ != snd_max_ && !(stuck_ && stuck_at_ == snd_nxt_);
  }
  [[nodiscard]] bool has_new() const;
  [[nodiscard]] bool may_begin(const Work& work) const;
  [[nodiscard]] uint32_t in_flight() const;
  void begin(Work& work);
  void do_local_work();
  void execute_local(const Work& work);
  bool poll_again(TxPacket& out);
  bool poll_new(TxPacket& out);
  bool fill(uint32_t index, uint32_t packet_index, TxPacket& out);
  bool result_fits(const Work& work, uint32_t index);
  bool asks_for_ack(bool last);
  void count_sent(bool again);
  [[nodiscard]] uint32_t index_of(Psn psn) const;

  // Acknowledgements and responses.
  void on_ack(const wire::Packet& packet);
  void on_rnr_nak(const wire::Packet& packet);
  void on_nak(const wire::Packet& packet);
  void on_data(const wire::Packet& packet, FrameHandle frame, RxActions& actions);
  [[nodiscard]] bool response_fits(const Work& work, const wire::Packet& packet) const;
  bool place(uint32_t index, const wire::Packet& packet, FrameHandle frame, RxActions& actions);
  [[nodiscard]] Psn awaited_response() const;
  void set_una(Psn una);
  bool acknowledge(Psn end);
  void miss_response();
  void pop_read();

  // Errors and time.
  bool take_retry();
  void go_back(Cause cause);
  void end_work(uint32_t index, WcStatus status, uint32_t vendor_err);
  void fail_work(uint32_t index, WcStatus status, uint32_t vendor_err);
  [[nodiscard]] Duration timeout() const;
  void restart_timer();
  void spend_waiting();
  [[nodiscard]] bool complete(const Work& work) const;
  [[nodiscard]] bool completion_ready() const;

  [[nodiscard]] std::span<Sge> sges_of(uint32_t index) const {
    const uint32_t slot = index & (queue_.capacity() - 1);
    return {&sges_[size_t{slot} * core_.config.max_send_sge], core_.config.max_send_sge};
  }

  QpCore& core_;
  Ring<Work> queue_;
  std::unique_ptr<Sge[]> sges_;  // queue_.capacity() x max_send_sge, by ring slot
  Ring<uint32_t> reads_;         // indices of begun READs and atomics without all of the response
  uint32_t awaited_psns_ = 0;    // response packets that they wait for
  uint32_t next_ = 0;            // index of the work request whose new packets are being sent
  uint32_t next_packet_ = 0;     // packets of it that were sent
  Psn una_;                      // oldest PSN that is not acknowledged
  Psn snd_nxt_;                  // sent next; before snd_max_: again
  Psn snd_max_;                  // PSN after all that were ever sent
  uint32_t since_ack_req_ = 0;   // packets since the last one that asked for an acknowledgement
  uint32_t retries_left_ = 0;
  uint32_t rnr_left_ = 0;
  uint32_t timeouts_ = 0;  // in a row
  Cause cause_ = Cause::kNak;
  Psn stuck_at_;              // memory is closed that this packet needs (again)
  bool stuck_ = false;        // .. and it is
  bool asked_again_ = false;  // for the response that is missing at una_
  bool draining_ = false;
  bool stopped_ = false;  // a remote error: nothing more is sent or taken
  bool blocked_ = false;  // an error in the queue: nothing new is sent
  bool flushing_ = false;
  bool failed_ = false;
  Time deadline_ = Time::never();   // of the transport timer
  Time rnr_until_ = Time::never();  // nothing is sent before
  Time now_;                        // of the call in progress
  StreamStats stats_;
};

}  // namespace mprdma::transport
