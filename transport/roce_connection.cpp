#include "transport/roce_connection.hpp"

namespace mprdma::transport {

RxVerdict RoceConnection::on_packet(Time now, const wire::Packet& packet, FrameHandle frame,
                                    RxActions& actions) {
  TransportCounters& counters = *core_.device.counters;
  const wire::OpcodeInfo& info = packet.info();
  if (info.transport == wire::TransportService::kCnp) {
    ++counters.cnps_received;
    return RxVerdict::kDone;
  }
  if (info.transport != (is_xrc() ? wire::TransportService::kXrc : wire::TransportService::kRc)) {
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
  core_.heard_peer = true;
  if (request) {
    responder_.on_request(packet, frame, actions);
  } else {
    requester_.on_packet(now, packet, frame, actions);
  }
  return RxVerdict::kDone;
}

void RoceConnection::on_deadline(Time now, RxActions&) {
  if (sends_requests(core_.state)) requester_.on_deadline(now);
}

bool RoceConnection::wants_to_send() const {
  return (sends_requests(core_.state) && requester_.wants_to_send()) ||
         (responder_sends() && responder_.wants_to_send());
}

// Requests and answers take turns.
bool RoceConnection::poll_packet(Time now, TxPacket& out) {
  answers_first_ = !answers_first_;
  for (int turn = 0; turn < 2; ++turn) {
    const bool answer = (turn == 0) == answers_first_;
    if (answer && responder_sends() && responder_.poll_packet(out)) return true;
    if (!answer && sends_requests(core_.state) && requester_.poll_packet(now, out)) return true;
  }
  return false;
}

Time RoceConnection::next_deadline() const {
  return sends_requests(core_.state) ? requester_.next_deadline() : Time::never();
}

bool RoceConnection::busy() const {
  return (sends_requests(core_.state) && requester_.outstanding() > 0) ||
         (responder_sends() && responder_.wants_to_send());
}

}  // namespace mprdma::transport
