#include "transport/qp.hpp"

#include <algorithm>
#include <bit>

#include "transport/work/work_opcode.hpp"

namespace mprdma::transport {

namespace {

constexpr bool has_sqe(QpService service) {
  return service == QpService::kUc || service == QpService::kUd;
}

// The transitions of the standard (IBTA 10.3.1, figure 126); every state may go to RESET and to
// ERR.
constexpr bool transition_exists(QpService service, QpState from, QpState to) {
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
    case QpState::kSqe:
      return has_sqe(service) && to == QpState::kRts;
    default:
      return false;
  }
}

constexpr bool may_post(QpState state) {
  return state != QpState::kReset && state != QpState::kInit && state != QpState::kRtr;
}

// The operations of each service (IBTA 10.8.3, table 101): bit 1 << WorkOpcode.
constexpr uint32_t operations_of(QpService service) {
  uint32_t operations = 0;
  for (uint32_t i = 0; i < static_cast<uint32_t>(WorkOpcode::kCount); ++i) {
    const auto opcode = static_cast<WorkOpcode>(i);
    const bool offered = service == QpService::kRc || service == QpService::kXrcSend ||
                         (service == QpService::kUc && !is_answered(opcode) &&
                          opcode != WorkOpcode::kSendInvalidate) ||
                         (service == QpService::kUd &&
                          (opcode == WorkOpcode::kSend || opcode == WorkOpcode::kSendImm));
    operations |= offered ? 1u << i : 0;
  }
  return operations;
}

constexpr uint32_t kOperations[] = {
    operations_of(QpService::kRc), operations_of(QpService::kUc), operations_of(QpService::kUd),
    operations_of(QpService::kXrcSend), operations_of(QpService::kXrcReceive)};
static_assert(static_cast<int>(QpService::kRc) == 0 && static_cast<int>(QpService::kUc) == 1 &&
              static_cast<int>(QpService::kUd) == 2 && static_cast<int>(QpService::kXrcSend) == 3 &&
              static_cast<int>(QpService::kXrcReceive) == 4);

constexpr bool offers(QpService service, WorkOpcode opcode) {
  return (kOperations[static_cast<size_t>(service)] >> static_cast<uint32_t>(opcode) & 1) != 0;
}

}  // namespace

Qp::Qp(const QpConfig& config, const Device& device)
    : core_(config, device), connection_(std::in_place_type<NoConnection>, core_) {
  CHECK(device.memory != nullptr && device.held != nullptr && device.counters != nullptr);
  CHECK(config.max_send_sge >= 1 && config.max_send_sge <= kMaxSge);
  CHECK(config.max_recv_sge >= 1 && config.max_recv_sge <= kMaxSge);
  CHECK(config.max_rd_atomic >= 1 && config.max_rd_atomic <= kMaxRdAtomic);
  // Only RC has modes: the extended opcodes carry no XRC header.
  if (config.service != QpService::kRc) core_.config.mode_undecided = false;
  const bool xrc =
      config.service == QpService::kXrcSend || config.service == QpService::kXrcReceive;
  if (xrc && config.params.protocol != Protocol::kRoce) core_.config.params = Params::roce();
  if (!core_.config.mode_undecided) make_connection();
}

void Qp::make_connection() {
  switch (core_.config.service) {
    case QpService::kUc:
      connection_.emplace<UcConnection>(core_);
      return;
    case QpService::kUd:
      connection_.emplace<UdConnection>(core_);
      return;
    default:
      break;
  }
  switch (core_.config.params.protocol) {
    case Protocol::kMp:
      connection_.emplace<MpConnection>(core_);
      return;
    case Protocol::kRoce:
      connection_.emplace<RoceConnection>(core_);
      return;
    case Protocol::kIrn:
      // Only the first packet of a message says where it goes.
      core_.config.params.placement = PlacementPolicy::kOrdered;
      connection_.emplace<IrnConnection>(core_);
      return;
  }
}

// ---- Commands ----------------------------------------------------------------------------------

void Qp::set_attributes(const QpAttributes& attributes) {
  core_.attributes = attributes;
  core_.changes = kAllChanged;
  visit([](auto& c) { c.follow_attributes(); });
}

void Qp::set_mode(const Params& params) {
  CHECK(!decided());
  core_.changes = kAllChanged;
  core_.config.params = params;
  make_connection();
  const QpState state = core_.state;
  visit([&](auto& c) {
    if (receives_packets(state)) c.enter_rtr();
    if (sends_requests(state)) c.enter_rts();
    if (state == QpState::kSqd) c.set_draining(true);
    if (state == QpState::kErr) c.fail();
  });
}

void Qp::change_mode(const Params& params, RxActions& actions) {
  CHECK(core_.config.mode_undecided && decided());
  if (const MpConnection* const c = mp()) {
    core_.local_work_done += c->requester().local_work_done();
  } else if (const auto* roce = std::get_if<RoceConnection>(&connection_)) {
    core_.local_work_done += roce->requester().local_work_done();
  }
  visit([&](auto& c) { c.reset(actions); });
  connection_.emplace<NoConnection>(core_);
  core_.heard_peer = false;
  set_mode(params);
}

bool Qp::set_state(Time now, QpState next, RxActions& actions) {
  const QpState from = core_.state;
  if (!transition_exists(core_.config.service, from, next)) return false;
  now_ = now;
  core_.changes = kAllChanged;
  if (next == QpState::kErr) {
    enter_error();
    clean_up_after_error(actions);
    return true;
  }
  enter(next);
  switch (next) {
    case QpState::kReset:
      visit([&](auto& c) { c.reset(actions); });
      core_.receives.clear();
      core_.refusal = {};
      core_.heard_peer = false;
      core_.waited = Duration::zero();
      core_.local_work_done = 0;
      events_ = 0;
      clean_up_due_ = drain_event_due_ = last_wqe_event_due_ = false;
      if (core_.config.mode_undecided) connection_.emplace<NoConnection>(core_);
      break;
    case QpState::kRtr:
      visit([](auto& c) { c.enter_rtr(); });
      break;
    case QpState::kRts:
      visit([&](auto& c) {
        if (from == QpState::kRtr) c.enter_rts();
        if (from == QpState::kSqe) c.resume_sends();
        c.set_draining(false);
      });
      drain_event_due_ = false;
      break;
    case QpState::kSqd:
      visit([](auto& c) { c.set_draining(true); });
      drain_event_due_ = core_.attributes.sqd_notify && (drain_event_due_ || from != QpState::kSqd);
      break;
    default:
      break;
  }
  return true;
}

PostResult Qp::post_send(Time now, const SendRequest& request) {
  now_ = now;
  if (!may_post(core_.state) || !decided()) return PostResult::kBadState;
  if (request.opcode >= WorkOpcode::kCount || request.sges.size() > core_.config.max_send_sge ||
      total_bytes(request.sges) > kMaxMessageBytes ||
      !offers(core_.config.service, request.opcode)) {
    return PostResult::kBadRequest;
  }
  if (is_answered(request.opcode) &&
      ((request.flags & kInline) != 0 || core_.attributes.max_rd_atomic == 0)) {
    return PostResult::kBadRequest;
  }
  return collecting_changes([&] {
    return visit([&](auto& c) {
      if (!c.supports(request.opcode)) return PostResult::kNotSupported;
      return c.post_send(now, request) ? PostResult::kOk : PostResult::kQueueFull;
    });
  });
}

PostResult Qp::post_recv(Time now, const RecvRequest& request, RxActions& actions) {
  now_ = now;
  if (core_.state == QpState::kReset) return PostResult::kBadState;
  if (request.sges.size() > core_.config.max_recv_sge) return PostResult::kBadRequest;
  if (!core_.receives.post(request)) return PostResult::kQueueFull;
  if (!receives_packets(core_.state)) {
    core_.changes = kAllChanged;
  } else if (visit([&](auto& c) { return c.resume(now, actions); })) {
    core_.changes = kAllChanged;
    trace_ack(actions);
    react_to_refusal();
  }
  return PostResult::kOk;
}

// ---- Facts -------------------------------------------------------------------------------------

RxVerdict Qp::on_packet(Time now, const wire::Packet& packet, FrameHandle frame,
                        RxActions& actions) {
  now_ = now;
  clean_up_after_error(actions);
  const bool heard = core_.heard_peer;
  if (traced()) [[unlikely]] {
    trace_packet(TraceKind::receive, packet, false);
  }
  const RxVerdict verdict = collecting_changes(
      [&] { return visit([&](auto& c) { return c.on_packet(now, packet, frame, actions); }); });
  trace_ack(actions);
  if (!heard && core_.heard_peer && core_.state == QpState::kRtr) {
    raise(QpEvent::kCommEstablished);
  }
  react_to_refusal();
  return verdict;
}

void Qp::on_deadline(Time now, RxActions& actions) {
  now_ = now;
  core_.changes = kAllChanged;
  clean_up_after_error(actions);
  visit([&](auto& c) { c.on_deadline(now, actions); });
  trace_ack(actions);
}

bool Qp::take_ack(Time now, wire::Packet& ack) {
  if (!visit([&](auto& c) { return c.take_ack(now, ack); })) return false;
  now_ = now;
  if (traced()) [[unlikely]] {
    trace_packet(TraceKind::send, ack, false);
  }
  return true;
}

void Qp::enter_error() {
  if (core_.state == QpState::kErr) return;
  core_.changes = kAllChanged;
  enter(QpState::kErr);
  // Work that was posted before the mode was agreed is flushed, too, which needs a connection.
  if (!decided()) make_connection();
  visit([](auto& c) { c.fail(); });
  clean_up_due_ = true;
  drain_event_due_ = false;  // what is flushed did not drain
  last_wqe_event_due_ = core_.config.shares_receives();
}

void Qp::clean_up_after_error(RxActions& actions) {
  if (!clean_up_due_) return;
  clean_up_due_ = false;
  core_.changes = kAllChanged;
  visit([&](auto& c) { c.clean_up(actions); });
}

void Qp::react_to_refusal() {
  QpEvent event = QpEvent::kNone;
  if (!core_.refusal.pop(&event)) return;
  if (event != QpEvent::kNone) raise(event);
  enter_error();
}

// ---- Work out ----------------------------------------------------------------------------------

bool Qp::poll_packet(Time now, TxPacket& out) {
  now_ = now;
  out.retransmission = false;
  out.more = true;
  if (!collecting_changes(
          [&] { return visit([&](auto& c) { return c.poll_packet(now, out); }); })) {
    return false;
  }
  if (traced()) [[unlikely]] {
    trace_packet(TraceKind::send, out.header, out.retransmission);
  }
  react_to_refusal();
  return true;
}

// Send completions come first: if a burst brings an acknowledgement and then the peer's answer to
// the acknowledged message, the send completes before the answer is received.
bool Qp::poll_completion(Completion& out) {
  if (!collecting_changes([&] { return visit([&](auto& c) { return c.poll_completion(out); }); })) {
    if (!core_.receives.poll(core_.state == QpState::kErr, out)) return false;
    if (last_wqe_event_due_) core_.changes = kAllChanged;
    return true;
  }
  if (drain_event_due_) core_.changes = kAllChanged;
  if (visit([](auto& c) { return c.sends_failed(); })) {
    // Services with the state SQE stop only the send queue on its error (IBTA 10.3.1.6).
    if (!has_sqe(core_.config.service)) {
      enter_error();
    } else if (core_.state != QpState::kErr) {
      enter(QpState::kSqe);
      drain_event_due_ = false;
    }
  }
  return true;
}

QpEvent Qp::poll_event() {
  if (events_ != 0) {
    const int first = std::countr_zero(events_);
    events_ &= events_ - 1;
    return static_cast<QpEvent>(first);
  }
  if (drain_event_due_ && visit([](auto& c) { return c.drained(); })) {
    drain_event_due_ = false;
    return QpEvent::kSqDrained;
  }
  // The event follows the completions of all receives from the shared queue (IBTA 11.6.3.2).
  if (last_wqe_event_due_ && core_.receives.empty()) {
    last_wqe_event_due_ = false;
    return QpEvent::kLastWqeReached;
  }
  return QpEvent::kNone;
}

Time Qp::next_deadline() const {
  if (clean_up_due_) return Time();
  return visit([](const auto& c) { return c.next_deadline(); });
}

bool Qp::sq_draining() const {
  return core_.state == QpState::kSqd && !visit([](const auto& c) { return c.drained(); });
}

bool Qp::busy() const {
  return clean_up_due_ || visit([](const auto& c) { return c.busy(); });
}

}  // namespace mprdma::transport
