// A queue pair: the interface between the transport and its host.
//
// Facts in (on_packet, on_deadline, on_back_pressure), commands (modify, post_*), work out
// (poll_packet, poll_completion, poll_event, next_deadline); nothing else acts. Time is an
// argument and never goes back. One thread at a time. Nothing here allocates after construction and
// reset, reads a clock, or touches the application's memory: payload is described, the host copies
// it.
//
// How a host drives it
//   on receive   v = on_packet(now, packet, frame, actions); do `actions` (see RxActions);
//                give the frame back unless v is kHeld; then drain poll_completion and poll_event
//   to send      while (wants_to_send()) { reserve a frame; poll_packet(now, out) }
//   owed acks    where Device::owes_acks: while (owes_ack()) take_ack(..) and send, at the latest
//                before the queue pair is reset or destroyed
//   timers       at next_deadline(): on_deadline(now, actions); then as after a packet
//   after every command or fact: re-read what take_changes() names, at least
//
// Completions are handed out in posting order, each only when all of its data is placed.
#pragma once

#include <cstdint>
#include <utility>
#include <variant>

#include "base/qpn.hpp"
#include "base/units.hpp"
#include "transport/core/types.hpp"
#include "transport/irn/irn_connection.hpp"
#include "transport/mp/mp_connection.hpp"
#include "transport/roce/roce_connection.hpp"
#include "transport/unreliable/uc_connection.hpp"
#include "transport/unreliable/ud_connection.hpp"
#include "transport/work/no_connection.hpp"
#include "transport/work/qp_core.hpp"

namespace mprdma::transport {

enum class PostResult : uint8_t {
  kOk,
  kQueueFull,     // ENOMEM
  kBadState,      // EINVAL
  kBadRequest,    // EINVAL: too many SGEs, message too long, unknown opcode
  kNotSupported,  // EOPNOTSUPP
};

class Qp {
  // Calls the connection at hand. This is the only place that knows all connection types; a tag
  // dispatches, because a virtual call costs too much per packet. The mode mp is asked for first:
  // the more alternatives, the longer the way through them.
  template <class Call>
  decltype(auto) visit(Call&& call) {
    if (auto* const mp = std::get_if<MpConnection>(&connection_)) [[likely]]
      return call(*mp);
    return std::visit(std::forward<Call>(call), connection_);
  }
  template <class Call>
  decltype(auto) visit(Call&& call) const {
    if (const auto* const mp = std::get_if<MpConnection>(&connection_)) [[likely]]
      return call(*mp);
    return std::visit(std::forward<Call>(call), connection_);
  }

 public:
  Qp(const QpConfig& config, const Device& device);
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;

  // ---- Commands
  // The attributes of the last modify.
  [[nodiscard]] const QpAttributes& attributes() const { return core_.attributes; }
  void set_attributes(const QpAttributes& attributes);
  // Moves to `next`; false (and no change) if the standard has no such transition. kReset returns
  // held frames in actions.released and forgets all queued work. kErr flushes the queued work,
  // which comes out of poll_completion.
  bool set_state(Time now, QpState next, RxActions& actions);
  // The mode of a queue pair with config.mode_undecided is set once, by set_mode(), after it was
  // agreed with the peer. Entering RESET makes the queue pair undecided again.
  [[nodiscard]] bool decided() const { return !std::holds_alternative<NoConnection>(connection_); }
  void set_mode(const Params& params);
  // Adds time for which requests could not be sent, because the mode or the route was unknown.
  void note_waited(Duration waited) { core_.waited += waited; }
  // The peer may have answered before `since` without being heard, as the host ran this side late.
  // The mode `mp` does not give up on it at once then.
  void listen_since(Time since) { core_.listening_since = since; }
  // Changes the mode before any packet of the peer has come in it: sent packets are forgotten, held
  // frames come back, and the host posts incomplete requests again.
  void change_mode(const Params& params, RxActions& actions);
  // Returns kBadState for every send request before the mode is decided, except in ERR.
  PostResult post_send(Time now, const SendRequest& request);
  // Posts a receive, which may let a waiting SEND in: `actions` as for on_packet.
  PostResult post_recv(Time now, const RecvRequest& request, RxActions& actions);

  // ---- Facts
  RxVerdict on_packet(Time now, const wire::Packet& packet, FrameHandle frame, RxActions& actions);
  void on_deadline(Time now, RxActions& actions);
  // The wire could not take a packet of this queue pair, so the window is not the limit.
  void on_back_pressure() {
    visit([](auto& c) { c.on_back_pressure(); });
  }

  // ---- Owed acknowledgements (stream_receiver.hpp), for a host that takes them
  // (Device::owes_acks): after each packet, or later.
  [[nodiscard]] bool owes_ack() const {
    return visit([](const auto& c) { return c.owes_ack(); });
  }
  // When the oldest packet came that it answers; requires owes_ack().
  [[nodiscard]] Time owed_since() const {
    return visit([](const auto& c) { return c.owed_since(); });
  }
  // Fills `ack` with an owed acknowledgement, which leaves now; false if there is none.
  bool take_ack(Time now, wire::Packet& ack);

  // ---- Work out
  [[nodiscard]] bool wants_to_send() const {
    return visit([](const auto& c) { return c.wants_to_send(); });
  }
  // Fills `out` with the next packet; false when there is nothing to send now.
  bool poll_packet(Time now, TxPacket& out);
  bool poll_completion(Completion& out);
  QpEvent poll_event();
  [[nodiscard]] Time next_deadline() const;

  // What has changed for the host since it last asked.
  QpChanges take_changes() { return std::exchange(core_.changes, QpChanges{0}); }

  // ---- The common case of a connection in RTS (what receives: also in RTR), for a host whose wire
  // takes bare packets. Each function does what the general one does, in less time, or returns
  // false and does nothing: then the general one has to be called. take_changes() holds for them,
  // too.
  // post_send().
  bool post_plain(Time now, const PlainRequest& request) {
    MpConnection* const mp = in_rts();
    if (mp == nullptr || request.sge.length > kMaxMessageBytes) return false;
    now_ = now;
    return mp->post_plain(now, request);
  }
  // poll_packet().
  bool poll_plain(Time now, PlainPacket& out) {
    MpConnection* const mp = in_rts();
    if (mp == nullptr) return false;
    now_ = now;
    return mp->poll_plain(now, out);
  }
  // post_plain() and poll_plain() in one call, for a request that is next and fits one packet.
  PlainSend send_plain(Time now, const PlainRequest& request, PlainPacket& out) {
    MpConnection* const mp = in_rts();
    if (mp == nullptr) return PlainSend::kNothing;
    now_ = now;
    return mp->send_plain(now, request, out);
  }
  // on_packet(), for a packet whose fields may be anything. True: the payload is to be copied to
  // `placement`, then the owed acknowledgement of `actions` is to be sent, if there is one.
  bool take_plain(Time now, const wire::BarePacket& packet, RxActions& actions,
                  PlainPlacement* placement) {
    MpConnection* const mp = receiving();
    if (mp == nullptr || !core_.heard_peer) return false;
    now_ = now;
    return mp->take_plain(now, packet, actions, placement);
  }
  // Whether take_plain() will take packets of WRITEs, and where each payload goes, as long as they
  // are taken in this order before anything else changes. False: not these, or not now.
  bool begin_plan(uint32_t psn, PlannedWrites& plan) {
    const MpConnection* const mp = receiving();
    return mp != nullptr && core_.heard_peer && mp->begin_plan(psn, plan);
  }
  // Requires: begin_plan() has allowed the first one.
  bool plan_plain_write(const wire::BarePacket& packet, PlannedWrites& plan, uint64_t* to) {
    return receiving()->plan_plain_write(packet, plan, to);
  }
  // take_plain() of a planned packet. Requires: all packets of the plan are taken so, in order, and
  // nothing else happens before the last one is.
  void take_planned(Time now, const wire::BarePacket& packet, const PlannedWrites& plan,
                    RxActions& actions) {
    now_ = now;
    receiving()->take_planned(now, packet, plan, actions);
  }
  // take_ack() as a bare packet, for the stream of requests only.
  bool take_bare_ack(Time now, wire::BarePacket& ack) {
    MpConnection* const mp = receiving();
    if (mp == nullptr || !mp->take_bare_ack(now, ack)) return false;
    now_ = now;
    return true;
  }
  // poll_completion(), of a send request that has succeeded.
  bool pop_plain(PlainCompletion& out) {
    MpConnection* const mp = in_rts();
    return mp != nullptr && mp->pop_plain(out);
  }

  // poll_completion(), of a receive.
  bool pop_plain_receive(PlainReceive& out) {
    MpConnection* const mp = receiving();
    return mp != nullptr && core_.receives.has_done() && !mp->completion_ready() &&
           core_.receives.pop_plain(out);
  }
  // False: poll_completion() has nothing.
  [[nodiscard]] bool may_complete() {
    const MpConnection* const mp = in_rts();
    return mp == nullptr || mp->completion_ready() || core_.receives.has_done();
  }

  // False: no packet that it sends now has a payload longer than the path MTU.
  [[nodiscard]] bool sends_long() const {
    const auto* const mp = std::get_if<MpConnection>(&connection_);
    return mp != nullptr && mp->sends_long();
  }

  // ---- Getters
  // True once the connection has taken a packet of the peer, which proves the mode.
  [[nodiscard]] bool heard_peer() const { return core_.heard_peer; }
  [[nodiscard]] Qpn qpn() const { return core_.config.qpn; }
  [[nodiscard]] QpService service() const { return core_.config.service; }
  [[nodiscard]] const Params& params() const { return core_.config.params; }
  [[nodiscard]] QpState state() const { return core_.state; }
  [[nodiscard]] bool sq_draining() const;
  // True if work requests, responses or acknowledgements are outstanding: the host must keep
  // polling.
  [[nodiscard]] bool busy() const;
  // Send requests posted and not yet completed.
  [[nodiscard]] uint32_t sends_outstanding() const {
    return visit([](const auto& c) { return c.outstanding(); });
  }
  // Statistics of the requests, and of the READ data, that this queue pair sends.
  [[nodiscard]] StreamStats request_stats() const {
    return visit([](const auto& c) { return c.request_stats(); });
  }
  [[nodiscard]] StreamStats response_stats() const {
    return visit([](const auto& c) { return c.response_stats(); });
  }
  // UD, while wants_to_send(): the address of the next packet. A host holds the queue while it does
  // not know the route to that address.
  [[nodiscard]] uint32_t next_ah() const {
    const auto* ud = std::get_if<UdConnection>(&connection_);
    return ud != nullptr ? ud->next_ah() : 0;
  }
  // The connection with streams, of the modes mp and irn: for tests and the simulator; nullptr in
  // another mode.
  [[nodiscard]] const MpConnection* mp() const {
    const MpConnection* const irn = std::get_if<IrnConnection>(&connection_);
    return irn != nullptr ? irn : std::get_if<MpConnection>(&connection_);
  }

 private:
  // The connection, if it is one of the mode mp and in RTS, without a trace; else nullptr.
  [[nodiscard]] MpConnection* in_rts() {
    const bool plain = core_.state == QpState::kRts && !traced();
    return plain ? std::get_if<MpConnection>(&connection_) : nullptr;
  }
  // As in_rts(), for what a queue pair does that only receives, too: many never enter RTS.
  [[nodiscard]] MpConnection* receiving() {
    const bool plain = (core_.state == QpState::kRts || core_.state == QpState::kRtr) && !traced();
    return plain ? std::get_if<MpConnection>(&connection_) : nullptr;
  }
  void make_connection();
  void enter_error();
  void clean_up_after_error(RxActions& actions);
  void react_to_refusal();
  void raise(QpEvent event) {
    events_ |= 1u << static_cast<unsigned>(event);
    core_.changes = kAllChanged;
  }
  // Calls something that ends with the changes of this call; those before stay.
  template <class Call>
  decltype(auto) collecting_changes(Call&& call) {
    const QpChanges before = std::exchange(core_.changes, kAllChanged);
    decltype(auto) result = call();
    core_.changes |= before;
    return result;
  }
  // qp_trace.cpp; each does nothing unless the device has a trace.
  void enter(QpState state);
  [[gnu::cold]] void trace_packet(TraceKind kind, const wire::Packet& packet, bool again) const;
  void trace_ack(const RxActions& actions) const {
    if (traced() && actions.has_ack) [[unlikely]]
      trace_packet(TraceKind::send, actions.ack, false);
  }
  [[nodiscard]] bool traced() const { return core_.device.trace != nullptr; }

  QpCore core_;
  std::variant<NoConnection, MpConnection, IrnConnection, RoceConnection, UcConnection,
               UdConnection>
      connection_;
  uint32_t events_ = 0;  // bit 1 << QpEvent for each event that was not taken
  Time now_;             // of the call in progress
  bool drain_event_due_ = false;
  bool last_wqe_event_due_ = false;
  // Set when the error state was entered in a call that could not return frames; next_deadline() is
  // then due at once.
  bool clean_up_due_ = false;
};

}  // namespace mprdma::transport
