#include "transport/qp.hpp"

#include <algorithm>

namespace mprdma::transport {

namespace {

// The transitions that the standard knows for RC (IBTA 10.3.1, figure 126); to RESET and to ERR
// every state may go.
constexpr bool transition_exists(QpState from, QpState to) {
  if (to == QpState::kReset || to == QpState::kErr) return true;
  switch (from) {
    case QpState::kReset:
      return to == QpState::kInit;
    case QpState::kInit:
      return to == QpState::kInit || to == QpState::kRtr;
    case QpState::kRtr:
      return to == QpState::kRts;
    case QpState::kRts:
    case QpState::kSqd:
      return to == QpState::kRts || to == QpState::kSqd;
    default:
      return false;
  }
}

constexpr bool receives_packets(QpState state) {
  return state == QpState::kRtr || state == QpState::kRts || state == QpState::kSqd;
}

constexpr bool sends_requests(QpState state) {
  return state == QpState::kRts || state == QpState::kSqd;
}

}  // namespace

Qp::Qp(const QpConfig& config, const Device& device)
    : config_(config),
      device_(device),
      requester_(config_, device_, attributes_),
      responder_(config_, device_, attributes_) {
  CHECK(device.memory != nullptr && device.held != nullptr && device.counters != nullptr);
  CHECK(config.max_send_sge >= 1 && config.max_send_sge <= kMaxSge);
  CHECK(config.max_recv_sge >= 1 && config.max_recv_sge <= kMaxSge);
}

// ---- Commands ----------------------------------------------------------------------------------

void Qp::set_attributes(const QpAttributes& attributes) {
  attributes_ = attributes;
}

bool Qp::set_state(Time now, QpState next, RxActions& actions) {
  if (!transition_exists(state_, next)) return false;
  const QpState from = state_;
  if (next == QpState::kErr) {
    enter_error();
    clean_up_after_error(actions);
    return true;
  }
  state_ = next;
  now_ = now;
  switch (next) {
    case QpState::kReset:
      requester_.reset(actions);
      responder_.reset(actions);
      event_ = QpEvent::kNone;
      clean_up_due_ = drain_event_due_ = false;
      heard_peer_ = false;
      break;
    case QpState::kRtr:
      responder_.connect();
      break;
    case QpState::kRts:
      if (from == QpState::kRtr) requester_.connect();
      requester_.set_draining(false);
      drain_event_due_ = false;
      break;
    case QpState::kSqd:
      requester_.set_draining(true);
      drain_event_due_ = attributes_.sqd_notify && (drain_event_due_ || from != QpState::kSqd);
      break;
    default:
      break;
  }
  return true;
}

PostResult Qp::post_send(Time now, const SendRequest& request) {
  if (state_ == QpState::kReset || state_ == QpState::kInit || state_ == QpState::kRtr) {
    return PostResult::kBadState;
  }
  if (request.sges.size() > config_.max_send_sge) return PostResult::kBadRequest;
  switch (request.opcode) {
    case WorkOpcode::kSend:
    case WorkOpcode::kSendImm:
    case WorkOpcode::kWrite:
    case WorkOpcode::kWriteImm:
      break;
    case WorkOpcode::kRead:
      if ((request.flags & kInline) != 0 || attributes_.max_rd_atomic == 0) {
        return PostResult::kBadRequest;
      }
      break;
    default:
      return request.opcode < WorkOpcode::kCount ? PostResult::kNotSupported
                                                 : PostResult::kBadRequest;
  }
  if (total_bytes(request.sges) > kMaxMessageBytes) return PostResult::kBadRequest;
  return requester_.post_send(now, request) ? PostResult::kOk : PostResult::kQueueFull;
}

PostResult Qp::post_recv(Time now, const RecvRequest& request, RxActions& actions) {
  if (state_ == QpState::kReset) return PostResult::kBadState;
  if (request.sges.size() > config_.max_recv_sge) return PostResult::kBadRequest;
  if (!responder_.post_recv(request)) return PostResult::kQueueFull;
  if (receives_packets(state_)) {
    responder_.resume(now, actions);
    react_to_refusal();
  }
  return PostResult::kOk;
}

// ---- Facts -------------------------------------------------------------------------------------

RxVerdict Qp::on_packet(Time now, const wire::Packet& packet, FrameHandle frame,
                        RxActions& actions) {
  now_ = now;
  clean_up_after_error(actions);
  const wire::OpcodeInfo& info = packet.info();
  if (info.transport != wire::TransportService::kMp) {
    ++device_.counters->drop_wrong_mode;
    return RxVerdict::kDone;
  }
  if (!accepts(info.stream, packet)) {
    ++device_.counters->drop_bad_state;
    return RxVerdict::kDone;
  }
  if (state_ == QpState::kRtr && !heard_peer_) {
    heard_peer_ = true;
    raise(QpEvent::kCommEstablished);
  }
  responder_.on_sign_of_life(now);
  RxVerdict verdict = RxVerdict::kDone;
  switch (info.stream) {
    case wire::PacketStream::kRequest:
      verdict = responder_.on_request(now, packet, frame, actions);
      break;
    case wire::PacketStream::kResponse:
      verdict = requester_.on_response(now, packet, frame, actions);
      break;
    default:
      if ((packet.mp_ack.flags & wire::kMpAckResponseStream) != 0) {
        responder_.on_response_ack(now, packet);
      } else {
        requester_.on_ack(now, packet);
      }
      break;
  }
  react_to_refusal();
  return verdict;
}

// In the error state a responder that refused still says so to who asks again, and a response that
// ends in an error still waits for its acknowledgement.
bool Qp::accepts(wire::PacketStream stream, const wire::Packet& packet) const {
  const bool response_ack =
      stream == wire::PacketStream::kAck && (packet.mp_ack.flags & wire::kMpAckResponseStream) != 0;
  if (state_ == QpState::kErr) {
    return (stream == wire::PacketStream::kRequest && responder_.repeats_nak()) ||
           (response_ack && responder_.refused());
  }
  if (stream == wire::PacketStream::kRequest || response_ack) return receives_packets(state_);
  return sends_requests(state_);
}

void Qp::on_deadline(Time now, RxActions& actions) {
  now_ = now;
  clean_up_after_error(actions);
  if (sends_requests(state_)) requester_.on_deadline(now);
  if (responder_sends()) responder_.on_deadline(now);
}

void Qp::enter_error() {
  if (state_ == QpState::kErr) return;
  state_ = QpState::kErr;
  requester_.fail();
  responder_.fail();
  clean_up_due_ = true;
}

void Qp::clean_up_after_error(RxActions& actions) {
  if (!clean_up_due_) return;
  clean_up_due_ = false;
  requester_.release_held(actions);
  responder_.release_held(actions);
}

void Qp::react_to_refusal() {
  QpEvent event = QpEvent::kNone;
  if (!responder_.take_refusal(&event)) return;
  if (event != QpEvent::kNone) raise(event);
  enter_error();
}

void Qp::raise(QpEvent event) {
  // One place is enough: what is newer is worse.
  event_ = event;
}

// ---- Work out ----------------------------------------------------------------------------------

bool Qp::responder_sends() const {
  return receives_packets(state_) || (state_ == QpState::kErr && responder_.refused());
}

bool Qp::wants_to_send() const {
  return (sends_requests(state_) && requester_.wants_to_send()) ||
         (responder_sends() && responder_.wants_to_send());
}

bool Qp::poll_packet(Time now, TxPacket& out) {
  now_ = now;
  responses_first_ = !responses_first_;
  for (int turn = 0; turn < 2; ++turn) {
    const bool response = (turn == 0) == responses_first_;
    if (response && responder_sends() && responder_.poll_packet(now, out)) {
      react_to_refusal();
      return true;
    }
    if (!response && sends_requests(state_) && requester_.poll_packet(now, out)) return true;
  }
  return false;
}

bool Qp::poll_completion(Completion& out) {
  if (responder_.poll_completion(out)) return true;
  if (!requester_.poll_completion(out)) return false;
  if (requester_.failed()) enter_error();
  return true;
}

QpEvent Qp::poll_event() {
  if (event_ == QpEvent::kNone && drain_event_due_ && requester_.drained()) {
    drain_event_due_ = false;
    return QpEvent::kSqDrained;
  }
  const QpEvent event = event_;
  event_ = QpEvent::kNone;
  return event;
}

Time Qp::next_deadline() const {
  if (clean_up_due_) return Time();
  Time next = Time::never();
  if (sends_requests(state_)) next = requester_.next_deadline();
  if (responder_sends()) next = std::min(next, responder_.next_deadline());
  return next;
}

bool Qp::sq_draining() const {
  return state_ == QpState::kSqd && !requester_.drained();
}

bool Qp::busy() const {
  return (sends_requests(state_) && requester_.outstanding() > 0) ||
         (responder_sends() && responder_.busy()) || clean_up_due_;
}

}  // namespace mprdma::transport
