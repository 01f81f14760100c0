// RC between mprdma peers (design 3.1 to 3.3): a stream of requests and a stream of responses in
// each direction, both in the extended opcodes. A Connection as qp_core.hpp describes it. Both
// streams share a rate if a rate controller is chosen (connection_pace.hpp).
#pragma once

#include <algorithm>

#include "transport/core/stats.hpp"
#include "transport/mp/requester.hpp"
#include "transport/mp/responder.hpp"
#include "transport/pace/connection_pace.hpp"
#include "transport/work/connection_defaults.hpp"
#include "transport/work/qp_core.hpp"

namespace mprdma::transport {

class MpConnection : public ConnectionDefaults {
 public:
  explicit MpConnection(QpCore& core) : core_(core), requester_(core), responder_(core) {}

  void enter_rtr() {
    responder_.connect();
    pace_.reset(core_.config.params);
  }
  void enter_rts() { requester_.connect(); }
  void follow_attributes() { requester_.follow_attributes(), responder_.follow_attributes(); }
  void reset(RxActions& actions);
  void fail();
  void clean_up(RxActions& actions);
  void set_draining(bool draining) { requester_.set_draining(draining); }
  [[nodiscard]] bool drained() const { return requester_.drained(); }
  bool post_send(Time now, const SendRequest& request) {
    return requester_.post_send(now, request);
  }
  bool resume(Time now, RxActions& actions) {
    return receives_packets(core_.state) && responder_.resume(now, actions);
  }

  RxVerdict on_packet(Time now, const wire::Packet& packet, FrameHandle frame, RxActions& actions);
  void on_deadline(Time now, RxActions& actions);
  void on_back_pressure() { requester_.on_back_pressure(), responder_.on_back_pressure(); }

  [[nodiscard]] bool owes_ack() const {
    return responder_.receiver().owes_ack() || requester_.receiver().owes_ack();
  }
  [[nodiscard]] Time owed_since() const {
    const Time requests = responder_.receiver().owed_since();
    return std::min(requests, requester_.receiver().owed_since());
  }
  bool take_ack(Time now, wire::Packet& ack);
  bool take_bare_ack(Time now, wire::BarePacket& ack) {
    StreamReceiver& requests = responder_.receiver();
    if (!requests.owes_ack()) return false;
    requests.take_bare_ack(now, ack);
    return true;
  }

  [[nodiscard]] bool wants_to_send() const;
  bool poll_packet(Time now, TxPacket& out);
  bool poll_completion(Completion& out) { return requester_.poll_completion(out); }
  // ---- The common case, as Qp has it
  bool post_plain(Time now, const PlainRequest& request) {
    return requester_.post_plain(now, request);
  }
  bool poll_plain(Time now, PlainPacket& out) {
    if (pace_.controlled() || !responder_.quiet()) return false;
    if (!requester_.poll_plain(now, out)) return false;
    responses_first_ = !responses_first_;
    return true;
  }
  PlainSend send_plain(Time now, const PlainRequest& request, PlainPacket& out) {
    if (pace_.controlled() || !responder_.quiet()) return PlainSend::kNothing;
    const PlainSend done = requester_.send_plain(now, request, out);
    if (done == PlainSend::kSent) responses_first_ = !responses_first_;
    return done;
  }
  bool take_plain(Time now, const wire::BarePacket& packet, RxActions& actions,
                  PlainPlacement* placement) {
    if (pace_.controlled() || responder_.dormant()) return false;
    if (packet.opcode == static_cast<uint8_t>(wire::Opcode::kMpAck)) {
      placement->length = 0;
      return sends_requests(core_.state) && packet.payload_len == 0 &&
             requester_.take_plain_ack(now, packet);
    }
    placement->length = packet.payload_len;
    if (!receives_packets(core_.state)) return false;
    if (is_plain_write(packet.opcode)) {
      return responder_.take_plain_write(now, packet, actions, &placement->to);
    }
    return packet.opcode == static_cast<uint8_t>(wire::Opcode::kMpSendOnly) &&
           responder_.take_plain_send(now, packet, actions, &placement->to);
  }
  bool begin_plan(uint32_t psn, PlannedWrites& plan) const {
    return !pace_.controlled() && !responder_.dormant() && receives_packets(core_.state) &&
           responder_.begin_plan(psn, plan);
  }
  bool plan_plain_write(const wire::BarePacket& packet, PlannedWrites& plan, uint64_t* to) const {
    return is_plain_write(packet.opcode) && responder_.plan_plain_write(packet, plan, to);
  }
  void take_planned(Time now, const wire::BarePacket& packet, const PlannedWrites& plan,
                    RxActions& actions) {
    responder_.take_planned(now, packet, plan, actions);
  }
  [[nodiscard]] bool sends_long() const {
    return requester_.sends_long() || responder_.sends_long();
  }
  bool pop_plain(PlainCompletion& out) { return requester_.pop_plain(out); }
  [[nodiscard]] bool completion_ready() const { return requester_.completion_ready(); }
  [[nodiscard]] bool sends_failed() const { return requester_.failed(); }
  [[nodiscard]] Time next_deadline() const;
  [[nodiscard]] bool busy() const;
  [[nodiscard]] uint32_t outstanding() const { return requester_.outstanding(); }
  [[nodiscard]] StreamStats request_stats() const { return with_rate(requester_.sender()); }
  [[nodiscard]] StreamStats response_stats() const {
    return with_rate(responder_.response_sender());
  }

  [[nodiscard]] const Requester& requester() const { return requester_; }
  [[nodiscard]] const Responder& responder() const { return responder_; }

 protected:
  // poll_packet() but for note_sent(), which is told of the packet as it leaves.
  bool take_turn(Time now, TxPacket& out);
  void note_sent(Time now, const wire::Packet& header) { pace_.on_sent(now, header); }

 private:
  bool turn(Time now, TxPacket& out);
  [[nodiscard]] bool accepts(wire::PacketStream stream, const wire::Packet& packet) const;
  [[nodiscard]] static bool is_plain_write(uint8_t opcode) {
    return opcode >= static_cast<uint8_t>(wire::Opcode::kMpWriteFirst) &&
           opcode <= static_cast<uint8_t>(wire::Opcode::kMpWriteOnly) &&
           opcode != static_cast<uint8_t>(wire::Opcode::kMpWriteLastImm);
  }
  RxVerdict dispatch(Time now, const wire::Packet& packet, FrameHandle frame, RxActions& actions);
  [[nodiscard]] bool responder_sends() const {
    return receives_packets(core_.state) || (core_.state == QpState::kErr && responder_.refused());
  }
  void notify_congestion(Time now, const wire::Packet& packet);
  void hear_round_trip(Time now, const wire::Packet& packet);
  [[nodiscard]] StreamStats with_rate(const StreamSender& sender) const {
    StreamStats stats = sender.stats();
    stats.rate_bps = pace_.rate_bps();
    return stats;
  }

  QpCore& core_;
  Requester requester_;
  Responder responder_;
  ConnectionPace pace_;
  bool responses_first_ = false;
  bool cnp_due_ = false;
};

}  // namespace mprdma::transport
