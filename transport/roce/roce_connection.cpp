#include "transport/roce/roce_connection.hpp"

#include <algorithm>

namespace mprdma::transport {

RxVerdict RoceConnection::on_packet(Time now, const wire::Packet& packet, FrameHandle frame,
                                    RxActions& actions) {
  TransportCounters& counters = *core_.device.counters;
  const wire::OpcodeInfo& info = packet.info();
  if (info.transport == wire::TransportService::kCnp) {
    ++counters.cnps_received;
    pace_.on_cnp(now);
    return RxVerdict::kDone;
  }
  if (info.transport != (is_xrc() ? wire::TransportService::kXrc : wire::TransportService::kRc) ||
      packet.irn) {
    ++counters.drop_wrong_mode;
    return RxVerdict::kDone;
  }
  const bool request = info.stream == wire::PacketStream::kRequest;
  const QpService other_half = request ? QpService::kXrcSend : QpService::kXrcReceive;
  if (!(request ? receives_packets(core_.state) : sends_requests(core_.state)) ||
      core_.config.service == other_half) {
    ++counters.drop_bad_state;
    return RxVerdict::kDone;
  }
  if (packet.ce) [[unlikely]]
    notify_congestion(now, packet, actions);
  if (request) {
    responder_.on_request(packet, frame, actions);
  } else {
    requester_.on_packet(now, packet, frame, actions);
    if (pace_.hears_acks()) [[unlikely]]
      hear_round_trip(now);
  }
  return RxVerdict::kDone;
}

void RoceConnection::hear_round_trip(Time now) {
  const Duration rtt = requester_.take_round_trip();
  if (rtt > Duration::zero()) pace_.on_ack({.now = now, .rtt = rtt});
}

// The notification point: a CNP leaves at once. Marked packets out of order count, too;
// acknowledgements do not.
void RoceConnection::notify_congestion(Time now, const wire::Packet& packet, RxActions& actions) {
  if (packet.info().operation == wire::Operation::kAck || !pace_.cnp_due(now)) return;
  ++core_.device.counters->cnps_sent;
  actions.has_ack = true;
  actions.ack = make_cnp(core_.attributes);
}

void RoceConnection::on_deadline(Time now, RxActions&) {
  pace_.on_time(now);
  if (sends_requests(core_.state)) requester_.on_deadline(now);
}

bool RoceConnection::wants_to_send() const {
  return (requester_may_send() && requester_.wants_to_send()) ||
         (responder_may_send() && responder_.wants_to_send());
}

// Requests and answers take turns.
bool RoceConnection::poll_packet(Time now, TxPacket& out) {
  answers_first_ = !answers_first_;
  pace_.on_time(now);
  for (int turn = 0; turn < 2; ++turn) {
    const bool answer = (turn == 0) == answers_first_;
    const bool sent = answer ? responder_may_send() && responder_.poll_packet(out)
                             : requester_may_send() && requester_.poll_packet(now, out);
    if (!sent) continue;
    pace_.on_sent(now, out.header);
    return true;
  }
  return false;
}

Time RoceConnection::next_deadline() const {
  const Time paced = pace_.deadline();
  return sends_requests(core_.state) ? std::min(requester_.next_deadline(), paced) : paced;
}

bool RoceConnection::busy() const {
  return (sends_requests(core_.state) && requester_.outstanding() > 0) ||
         (responder_sends() && responder_.wants_to_send());
}

}  // namespace mprdma::transport
