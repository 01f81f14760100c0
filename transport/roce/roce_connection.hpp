// RC and XRC to the letter of the standard (IBTA volume 1, chapter 9.7; RoCEv2: annex A17), which
// Linux Soft-RoCE and adapters speak. A Connection as qp_core.hpp describes it; its two halves
// (roce_requester.hpp, roce_responder.hpp) contain the rules. An XRC queue pair has one half (annex
// A14).
//
// Acknowledgements come out of poll_packet, in order with responses. RxActions::ack is for CNPs,
// which nothing may delay; they answer marks whether or not the own rate is controlled. Requests
// and responses leave at the pace of congestion control (connection_pace.hpp).
#pragma once

#include "transport/core/stats.hpp"
#include "transport/pace/connection_pace.hpp"
#include "transport/roce/roce_requester.hpp"
#include "transport/roce/roce_responder.hpp"
#include "transport/work/connection_defaults.hpp"
#include "transport/work/qp_core.hpp"

namespace mprdma::transport {

class RoceConnection : public ConnectionDefaults {
 public:
  explicit RoceConnection(QpCore& core) : core_(core), requester_(core), responder_(core) {}

  void enter_rtr() {
    responder_.enter_rtr();
    pace_.reset(core_.config.params);
  }
  void enter_rts() { requester_.enter_rts(); }
  void reset(RxActions&) {
    requester_.reset();
    responder_.reset();
    pace_.reset(core_.config.params);
  }
  void fail() { requester_.fail(), responder_.fail(); }
  void set_draining(bool draining) { requester_.set_draining(draining); }
  [[nodiscard]] bool drained() const { return requester_.drained(); }
  bool post_send(Time now, const SendRequest& request) {
    return requester_.post_send(now, request);
  }

  RxVerdict on_packet(Time now, const wire::Packet& packet, FrameHandle frame, RxActions& actions);
  void on_deadline(Time now, RxActions& actions);

  [[nodiscard]] bool wants_to_send() const;
  bool poll_packet(Time now, TxPacket& out);
  bool poll_completion(Completion& out) { return requester_.poll_completion(out); }
  [[nodiscard]] bool sends_failed() const { return requester_.failed(); }
  [[nodiscard]] Time next_deadline() const;
  [[nodiscard]] bool busy() const;
  [[nodiscard]] uint32_t outstanding() const { return requester_.outstanding(); }
  [[nodiscard]] const RoceRequester& requester() const { return requester_; }
  [[nodiscard]] StreamStats request_stats() const { return with_rate(requester_.stats()); }
  [[nodiscard]] StreamStats response_stats() const { return with_rate(responder_.stats()); }

 private:
  [[nodiscard]] bool is_xrc() const {
    return core_.config.service == QpService::kXrcSend ||
           core_.config.service == QpService::kXrcReceive;
  }
  [[nodiscard]] bool responder_sends() const {
    return receives_packets(core_.state) || (core_.state == QpState::kErr && responder_.refused());
  }

  void notify_congestion(Time now, const wire::Packet& packet, RxActions& actions);
  void hear_round_trip(Time now);
  [[nodiscard]] bool requester_may_send() const {
    return pace_.open() && sends_requests(core_.state);
  }
  [[nodiscard]] bool responder_may_send() const {
    return responder_sends() && (pace_.open() || !responder_.answers());
  }
  [[nodiscard]] StreamStats with_rate(StreamStats stats) const {
    stats.rate_bps = pace_.rate_bps();
    return stats;
  }

  QpCore& core_;
  RoceRequester requester_;
  RoceResponder responder_;
  ConnectionPace pace_;
  bool answers_first_ = false;
};

}  // namespace mprdma::transport
