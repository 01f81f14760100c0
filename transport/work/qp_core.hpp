// The state that all connections of a queue pair work on, and the members that each of them has.
//
// A queue pair (qp.hpp) is this core and one connection, the state machine of its service and mode:
//   MpConnection    mp_connection.hpp    RC between mprdma peers (design 3.1 to 3.3)
//   IrnConnection   irn_connection.hpp   RC as IRN has it: the streams of mp in the standard's
//   packets RoceConnection  roce_connection.hpp  RC and XRC to the letter of the standard
//   (IBTA 9.7) UcConnection    uc_connection.hpp    unreliable connection (IBTA 9.8.2) UdConnection
//   ud_connection.hpp    unreliable datagram (IBTA 9.8.3) NoConnection    no_connection.hpp    RC
//   whose mode is not agreed with the peer yet
// The queue pair dispatches by a tag (no virtual call); every connection has these members, those
// that have nothing to do from ConnectionDefaults (connection_defaults.hpp):
//
//   explicit Connection(QpCore& core)      core outlives it; allocates what it needs
//   void enter_rtr(), enter_rts()          attributes are set (enter_rts: from RTR only)
//   void reset(RxActions&)                 to RESET: held frames come back
//   void fail()                            to ERR (receives are flushed by the queue pair)
//   void clean_up(RxActions&)              after fail(): held frames come back
//   void resume_sends()                    SQE to RTS
//   void follow_attributes()               attributes were set, in any state
//   void set_draining(bool)                SQD: requests that have not begun wait
//   bool drained() const                   every request that has begun is complete
//   bool supports(WorkOpcode) const        for operations that the service has
//   bool post_send(Time, const SendRequest&)   checked before; false: the queue is full
//   bool resume(Time, RxActions&)          a receive was posted
//   RxVerdict on_packet(Time, const wire::Packet&, FrameHandle, RxActions&)
//   void on_deadline(Time, RxActions&)
//   void on_back_pressure()
//   bool owes_ack() const, bool take_ack(Time, wire::Packet&)
//   bool wants_to_send() const
//   bool poll_packet(Time, TxPacket&)      acknowledgements of an arrival: RxActions::ack
//   bool poll_completion(Completion&)      of send requests; receives: core.receives
//   bool sends_failed() const              a completion with an error was handed out
//   Time next_deadline() const
//   bool busy() const
//   uint32_t outstanding() const           send requests posted and not completed
//   StreamStats request_stats() const, response_stats() const
// A connection that refuses a request of the peer raises core.refusal.
//
// A connection gates what it takes and sends by core.state, as the standard says for each state.
#pragma once

#include "transport/core/qp_config.hpp"
#include "transport/core/trace.hpp"
#include "transport/core/types.hpp"
#include "transport/work/receive_queue.hpp"
#include "transport/work/refusal.hpp"

namespace mprdma::transport {

constexpr bool receives_packets(QpState state) {
  return state == QpState::kRtr || state == QpState::kRts || state == QpState::kSqd ||
         state == QpState::kSqe;
}

constexpr bool sends_requests(QpState state) {
  return state == QpState::kRts || state == QpState::kSqd;
}

struct QpCore {
  QpCore(const QpConfig& qp_config, const Device& qp_device)
      : config(qp_config),
        device(qp_device),
        receives(qp_config.recv_depth, qp_config.max_recv_sge, qp_config.shares_receives()) {}
  QpCore(const QpCore&) = delete;
  QpCore& operator=(const QpCore&) = delete;

  // The shared queue that a message takes its receive from; nullptr: the queue pair's own queue, or
  // (XRC) there is no such shared queue.
  [[nodiscard]] const SharedReceives* shared_for(const wire::Packet& packet) const {
    if (config.service != QpService::kXrcReceive) return config.shared;
    return device.find_xrc_srq != nullptr
               ? device.find_xrc_srq(device.host, config.xrcd, packet.xrc_srqn)
               : nullptr;
  }

  [[nodiscard]] Trace trace(TraceStream stream = TraceStream::kRequests) const {
    return {.sink = device.trace, .qpn = config.qpn, .stream = stream};
  }

  // The protection domain of the current receive's local keys: a shared queue has its own domain
  // (IBTA 10.2.9.3).
  [[nodiscard]] uint32_t receive_pd() {
    const SharedReceives* shared = receives.current().shared;
    return shared != nullptr ? shared->pd : config.pd;
  }

  QpConfig config;
  Device device;
  QpAttributes attributes;
  QpState state = QpState::kReset;
  ReceiveQueue receives;
  Refusal refusal;
  // Requests for LOCAL_INV and BIND_MW that ran before Qp::change_mode and will be posted again.
  uint32_t local_work_done = 0;
  // For Qp::take_changes(). A call begins with all; the common case ends with what it knows.
  QpChanges changes = kAllChanged;
  // A connection sets it when it takes a packet of the peer. One of the standard's mode does so
  // only for a packet whose PSN is due, because nothing else tells its sender from a stranger.
  bool heard_peer = false;
  // Time that requests have waited before they could be sent at all (for the peer's mode or the
  // route to it). It counts towards the time after which they give up, and is zero again once a
  // packet of the peer comes.
  Duration waited = Duration::zero();
  // The end of the latest time in which nobody could hear the peer, because the host did not run
  // this side.
  Time listening_since;
};

}  // namespace mprdma::transport
