// The requester half of a reliable connection by the standard's rules (IBTA volume 1, 9.7.3, 9.7.5,
// 9.7.6, 9.7.7 and 9.9.2): one PSN space, go-back-N.
//
// A work request (work/send_queue.hpp) takes one PSN for each packet that it sends, a READ one for
// each packet of its response. The oldest PSN that is not acknowledged is `una`. An ACK
// acknowledges everything up to its PSN, except READs and atomics, which only their responses
// acknowledge; an ACK that reaches beyond such a request says that the response was lost (implied
// NAK). After any loss, sending goes back to `una` and continues from there. A repeated READ asks
// only for the rest of its data.
//
// With Params::go_back_0 sending goes back to the first packet of the message or READ that `una`
// lies in, because the peer has forgotten the message. `una` moves back with it: it counts what
// the peer has of a message, so that windows and timers go on within one.
//
// With a window control (Params::window_control) it takes the place of window_max. It hears of the
// requests that are acknowledged, and of losses; no acknowledgement echoes a mark, and the packets
// of a READ's response, which the peer sends, are none of its business. Every packet then asks for
// an acknowledgement: one that does not might be the last that a window which has shrunk lets out.
//
// End-to-end credits (9.7.7.2) are ignored: a receiver that is not ready sends an RNR NAK.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "cc/window.hpp"
#include "transport/core/stats.hpp"
#include "transport/roce/round_trips.hpp"
#include "transport/work/qp_core.hpp"
#include "transport/work/send_queue.hpp"

namespace mprdma::transport {

class RoceRequester {
 public:
  explicit RoceRequester(QpCore& core);

  void enter_rts();
  void reset();
  // Entering ERR: poll_completion hands out the posted requests as flushed.
  void fail() { sends_.flush(); }
  // SQD: work requests that have not begun have to wait.
  void set_draining(bool draining) {
    sends_.set_draining(draining);
    sends_.run_local_work(snd_max_);
  }
  // True if every work request that has begun is complete.
  [[nodiscard]] bool drained() const { return sends_.drained(); }

  // Takes over a work request that the caller has checked; false when the queue is full.
  bool post_send(Time now, const SendRequest& request);
  // Takes an ACK, a NAK, a READ response or an atomic response.
  void on_packet(Time now, const wire::Packet& packet, FrameHandle frame, RxActions& actions);
  void on_deadline(Time now);

  [[nodiscard]] bool wants_to_send() const {
    return rnr_until_.is_never() && !sends_.stopped() && (has_retransmission() || has_new());
  }
  bool poll_packet(Time now, TxPacket& out);
  // True: `out` is the next completion. A completion with an error makes failed() true.
  bool poll_completion(Completion& out);
  [[nodiscard]] bool failed() const { return sends_.failed(); }
  [[nodiscard]] Time next_deadline() const;

  // The round trip that the last packet taken has shown, once; zero: none. Only with a rate
  // controller that hears of them.
  Duration take_round_trip() { return std::exchange(round_trip_, Duration::zero()); }

  [[nodiscard]] uint32_t outstanding() const { return sends_.size(); }
  // Outstanding local work that has run.
  [[nodiscard]] uint32_t local_work_done() const { return sends_.local_work_done(); }
  [[nodiscard]] StreamStats stats() const;

 private:
  struct Work : SendWork {
    // READ and atomic
    uint32_t responses = 0;   // response packets taken
    uint32_t resumed_at = 0;  // first response packet of the latest (repeated) request

    void reset_own() { responses = resumed_at = 0; }
  };
  enum class Cause : uint8_t { kNak, kTimeout, kRnr };
  static constexpr std::string_view to_string(Cause cause) {
    constexpr std::string_view kNames[] = {"nak", "timeout", "rnr"};
    static_assert(std::size(kNames) == static_cast<size_t>(Cause::kRnr) + 1);
    return kNames[static_cast<size_t>(cause)];
  }

  // ---- Sending
  [[nodiscard]] bool has_retransmission() const {
    return snd_nxt_ != snd_max_ && !(stuck_ && stuck_at_ == snd_nxt_) && repetition_fits();
  }
  // Go-back-0 may have more to repeat than a window holds, and so has a window that shrank. Less
  // than a window of what was repeated may be unacknowledged; the packets of a READ's answer count.
  [[nodiscard]] bool repetition_fits() const { return !repetition_waits_ || repeated() < window_; }
  [[nodiscard]] uint32_t repeated() const {
    const int32_t ahead = una_.distance_to(snd_nxt_);
    return ahead > 0 ? static_cast<uint32_t>(ahead) : 0;
  }
  [[nodiscard]] bool has_new() const;
  void begin_window();
  [[nodiscard]] bool may_begin(const Work& work) const;
  [[nodiscard]] uint32_t in_flight() const;
  void begin();
  bool poll_retransmission(TxPacket& out);
  bool poll_new(TxPacket& out);
  void time_new(const Work& work, const wire::Packet& header);
  bool fill(uint32_t index, uint32_t packet_index, TxPacket& out);
  bool asks_for_ack(bool last);
  [[nodiscard]] bool fills_window() const;
  void count_sent(bool retransmission);

  // ---- Acknowledgements and responses
  void on_ack(const wire::Packet& packet);
  void acknowledge_and_tell(Psn acked);
  void tell_lost(Cause cause);
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

  // ---- Errors and time
  bool consume_retry();
  bool consume_retry_of_loss();
  void go_back(Cause cause);
  [[nodiscard]] bool forgets_message(const wire::Packet& packet) const;
  void begin_message_again();
  [[nodiscard]] Duration timeout() const;
  void restart_timer();
  void spend_waiting();
  [[nodiscard]] bool complete(const Work& work) const;

  QpCore& core_;
  SendQueue<Work> sends_;
  uint32_t awaited_psns_ = 0;          // response packets that open READs and atomics wait for
  uint32_t window_ = 0;                // most packets in flight
  bool repetition_waits_ = false;      // repetition_fits() may be false
  std::optional<cc::Window> control_;  // of window_
  Psn filled_at_;                      // the last packet that filled a controlled window
  Psn una_;                            // oldest PSN that is not acknowledged
  Psn snd_nxt_;                        // sent next; before snd_max_: a repetition
  Psn snd_max_;                        // PSN after the highest that was ever sent
  Psn furthest_;                       // the furthest una_; go-back-0 takes una_ itself back
  uint32_t since_ack_req_ = 0;  // packets since the last one that asked for an acknowledgement
  uint32_t retries_left_ = 0;
  uint32_t timeouts_ = 0;  // timeouts in a row
  Cause cause_ = Cause::kNak;
  Psn stuck_at_;                    // packet whose memory is closed
  bool stuck_ = false;              // stuck_at_ is valid
  bool asked_again_ = false;        // the missing response at una_ was requested again
  Time deadline_ = Time::never();   // expiry of the transport timer
  Time rnr_until_ = Time::never();  // no packet is sent before this time
  Time now_;                        // of the call in progress
  bool times_ = false;              // round trips are measured
  RoundTrips round_trips_;
  Duration round_trip_;  // the last sample
  StreamStats stats_;
};

}  // namespace mprdma::transport
