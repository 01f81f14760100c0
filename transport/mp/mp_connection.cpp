#include "transport/mp/mp_connection.hpp"

#include <algorithm>

#include "transport/path/echoed_path.hpp"

namespace mprdma::transport {

void MpConnection::reset(RxActions& actions) {
  requester_.reset(actions);
  responder_.reset(actions);
  pace_.reset(core_.config.params);
  cnp_due_ = false;
}

void MpConnection::fail() {
  requester_.fail();
  responder_.fail();
  cnp_due_ = false;
}

void MpConnection::clean_up(RxActions& actions) {
  requester_.release_held(actions);
  responder_.release_held(actions);
}

RxVerdict MpConnection::on_packet(Time now, const wire::Packet& packet, FrameHandle frame,
                                  RxActions& actions) {
  const wire::OpcodeInfo& info = packet.info();
  if (info.transport != wire::TransportService::kMp) {
    if (info.transport == wire::TransportService::kCnp && pace_.controlled()) {
      ++core_.device.counters->cnps_received;
      pace_.on_cnp(now);
      return RxVerdict::kDone;
    }
    ++core_.device.counters->drop_wrong_mode;
    return RxVerdict::kDone;
  }
  if (!accepts(info.stream, packet)) {
    ++core_.device.counters->drop_bad_state;
    return RxVerdict::kDone;
  }
  core_.heard_peer = true;
  const bool woken = responder_.on_sign_of_life(now);
  if (packet.ce) [[unlikely]]
    notify_congestion(now, packet);
  const RxVerdict verdict = dispatch(now, packet, frame, actions);
  if (woken || cnp_due_ || pace_.controlled()) [[unlikely]] {
    if (pace_.hears_acks()) hear_round_trip(now, packet);
    core_.changes = kAllChanged;
  }
  return verdict;
}

// Tells the rate controller of an acknowledgement, which was taken already: an old one says nothing
// of the network now.
void MpConnection::hear_round_trip(Time now, const wire::Packet& packet) {
  const wire::MpAckExt& ext = packet.mp_ack;
  if (packet.info().stream != wire::PacketStream::kAck) return;
  if ((ext.flags & wire::kMpAckSackValid) == 0 || ext.nack != wire::NackCode::kNone) return;
  const bool of_response = (ext.flags & wire::kMpAckResponseStream) != 0;
  const StreamSender& sender = of_response ? responder_.response_sender() : requester_.sender();
  if (sender.last_progress() != now) return;
  const Duration rtt = RttEstimator::sample_of(now, ext.echoed_timestamp, ext.delay_us);
  if (rtt == Duration::zero()) return;
  pace_.on_ack({.now = now,
                .rtt = rtt,
                .vp = echoed_path(packet.vp),
                .ece = (ext.flags & wire::kMpAckEce) != 0});
}

RxVerdict MpConnection::dispatch(Time now, const wire::Packet& packet, FrameHandle frame,
                                 RxActions& actions) {
  switch (packet.info().stream) {
    case wire::PacketStream::kRequest:
      return responder_.on_request(now, packet, frame, actions);
    case wire::PacketStream::kResponse:
      return requester_.on_response(now, packet, frame, actions);
    default:
      if ((packet.mp_ack.flags & wire::kMpAckResponseStream) != 0) {
        responder_.on_response_ack(now, packet);
      } else {
        requester_.on_ack(now, packet);
      }
      return RxVerdict::kDone;
  }
}

// Both streams may owe one.
bool MpConnection::take_ack(Time now, wire::Packet& ack) {
  StreamReceiver* const receivers[] = {&responder_.receiver(), &requester_.receiver()};
  for (StreamReceiver* receiver : receivers) {
    if (!receiver->owes_ack()) continue;
    receiver->take_ack(now, ack);
    return true;
  }
  return false;
}

// DCQCN's notification point. RxActions::ack is taken by the acknowledgement of the marked packet,
// so the CNP is the next packet that leaves.
void MpConnection::notify_congestion(Time now, const wire::Packet& packet) {
  if (packet.info().stream == wire::PacketStream::kAck || !pace_.cnp_due(now)) return;
  cnp_due_ = true;
}

// A queue pair in the error state still takes two kinds of packet: requests, if its responder has
// refused one and must repeat the NAK, and acknowledgements of a response that ends in an error.
bool MpConnection::accepts(wire::PacketStream stream, const wire::Packet& packet) const {
  const bool response_ack =
      stream == wire::PacketStream::kAck && (packet.mp_ack.flags & wire::kMpAckResponseStream) != 0;
  if (core_.state == QpState::kErr) {
    return (stream == wire::PacketStream::kRequest && responder_.repeats_nak()) ||
           (response_ack && responder_.refused());
  }
  if (stream == wire::PacketStream::kRequest || response_ack) return receives_packets(core_.state);
  return sends_requests(core_.state);
}

void MpConnection::on_deadline(Time now, RxActions&) {
  pace_.on_time(now);
  if (sends_requests(core_.state)) requester_.on_deadline(now);
  if (responder_sends()) responder_.on_deadline(now);
}

bool MpConnection::wants_to_send() const {
  if (pace_.controlled()) [[unlikely]] {
    if (cnp_due_) return true;
    if (!pace_.open()) return false;
  }
  return (sends_requests(core_.state) && requester_.wants_to_send()) ||
         (responder_sends() && responder_.wants_to_send());
}

[[gnu::always_inline]] inline bool MpConnection::turn(Time now, TxPacket& out) {
  if (pace_.controlled()) [[unlikely]] {
    if (cnp_due_) {
      cnp_due_ = false;
      ++core_.device.counters->cnps_sent;
      out = TxPacket{};
      out.header = make_cnp(core_.attributes);
      return true;
    }
    pace_.on_time(now);
    if (!pace_.open()) return false;
  }
  responses_first_ = !responses_first_;
  for (int turn = 0; turn < 2; ++turn) {
    const bool response = (turn == 0) == responses_first_;
    const bool sent =
        response ? !responder_.quiet() && responder_sends() && responder_.poll_packet(now, out)
                 : sends_requests(core_.state) && requester_.poll_packet(now, out);
    if (!sent) continue;
    // The requester may have been asked first, and have said that nothing changed.
    if (response) core_.changes = kAllChanged;
    out.more |= !responder_.quiet() || pace_.controlled();
    return true;
  }
  return false;
}

bool MpConnection::take_turn(Time now, TxPacket& out) {
  return turn(now, out);
}

bool MpConnection::poll_packet(Time now, TxPacket& out) {
  if (!turn(now, out)) return false;
  note_sent(now, out.header);
  return true;
}

Time MpConnection::next_deadline() const {
  Time next = pace_.deadline();
  if (sends_requests(core_.state)) next = std::min(next, requester_.next_deadline());
  if (responder_sends()) next = std::min(next, responder_.next_deadline());
  return next;
}

bool MpConnection::busy() const {
  return (sends_requests(core_.state) && requester_.outstanding() > 0) ||
         (responder_sends() && responder_.busy());
}

}  // namespace mprdma::transport
