#include "transport/unreliable/ud_connection.hpp"

namespace mprdma::transport {

UdConnection::UdConnection(QpCore& core) : core_(core), sends_(core.config) {}

void UdConnection::enter_rts() {
  snd_nxt_ = core_.attributes.sq_psn;
  packets_sent_ = 0;
}

void UdConnection::reset(RxActions&) {
  sends_.clear();
  draining_ = false;
}

// ---- Sending -----------------------------------------------------------------------------------

bool UdConnection::post_send(Time, const SendRequest& request) {
  return sends_.post(request);
}

bool UdConnection::wants_to_send() const {
  return sends_requests(core_.state) && !draining_ && sends_.has_current();
}

bool UdConnection::poll_packet(Time, TxPacket& out) {
  if (!wants_to_send()) return false;
  const WcStatus status = fill(out);
  sends_.finish_current(status);
  if (status != WcStatus::kSuccess) {
    ++core_.device.counters->errors_local;
    return false;
  }
  out.header.psn = snd_nxt_;
  snd_nxt_ += 1;
  ++packets_sent_;
  ++core_.device.counters->packets_sent;
  return true;
}

WcStatus UdConnection::fill(TxPacket& out) {
  const UnackedSends::Work& work = sends_.current();
  const SendRequest& request = work.request;
  if (work.length > core_.attributes.path_mtu) return WcStatus::kLocalLengthError;
  wire::Packet& header = out.header;
  header = wire::Packet{};
  header.opcode = request.opcode == WorkOpcode::kSendImm ? wire::Opcode::kUdSendOnlyImm
                                                         : wire::Opcode::kUdSendOnly;
  header.payload_len = work.length;
  header.dest_qpn = request.remote_qpn;
  header.vp = core_.attributes.vp;
  header.solicited_event = (request.flags & kSolicited) != 0;
  header.immdt = request.imm_or_rkey;
  const bool own = (request.remote_qkey & kOwnQkeyBit) != 0;
  header.deth.q_key = own ? core_.attributes.qkey : request.remote_qkey;
  header.deth.src_qpn = core_.config.qpn;
  out.ah = request.ah;
  const bool open =
      gather_payload(sends_.current_sges(), 0, work.length, (request.flags & kInline) != 0,
                     *core_.device.memory, core_.config.pd, out);
  return open ? WcStatus::kSuccess : WcStatus::kLocalProtectionError;
}

bool UdConnection::poll_completion(Completion& out) {
  return sends_.poll(core_.state == QpState::kErr || core_.state == QpState::kSqe, out);
}

StreamStats UdConnection::request_stats() const {
  StreamStats stats;
  stats.packets_sent = packets_sent_;
  return stats;
}

// ---- Receiving ---------------------------------------------------------------------------------

RxVerdict UdConnection::on_packet(Time, const wire::Packet& packet, FrameHandle frame,
                                  RxActions& actions) {
  TransportCounters& counters = *core_.device.counters;
  uint32_t room = 0;
  if (packet.info().transport == wire::TransportService::kCnp) {
    ++counters.cnps_received;
  } else if (packet.info().transport != wire::TransportService::kUd) {
    ++counters.drop_wrong_mode;
  } else if (!receives_packets(core_.state)) {
    ++counters.drop_bad_state;
  } else if (packet.deth.q_key != core_.attributes.qkey) {
    ++counters.drop_bad_qkey;
  } else if (!core_.receives.room(core_.shared_for(packet), &room)) {
    ++counters.drop_no_receive;
  } else if (kGrhBytes + packet.payload_len > room) {
    ++counters.drop_too_long;
  } else if (core_.receives.ready(core_.shared_for(packet))) {
    ++counters.packets_received;
    Receive& receive = core_.receives.current();
    receive.status = place(packet, frame, actions);
    receive.has_grh = true;
    receive.grh_ipv4 = packet.ipv4;
    receive.src_qpn = packet.deth.src_qpn;
    if (receive.status != WcStatus::kSuccess) {
      ++counters.errors_local;
      core_.refusal.raise(QpEvent::kNone);  // the receive's completion reports it
    }
    core_.receives.complete(packet, WcOpcode::kRecv, kGrhBytes + packet.payload_len);
  }
  return RxVerdict::kDone;
}

// Places a datagram, or nothing if a part of it does not fit or its memory is closed.
WcStatus UdConnection::place(const wire::Packet& packet, FrameHandle frame, RxActions& actions) {
  const std::span<const Sge> sges = core_.receives.current_sges();
  const MemoryTable& memory = *core_.device.memory;
  const uint32_t pd = core_.receive_pd();
  const uint32_t bytes = kGrhBytes + packet.payload_len;
  if (!all_open(sges, 0, bytes, memory, pd, kLocalWrite)) return WcStatus::kLocalProtectionError;
  uint32_t done = 0;
  walk_sges(sges, 0, kGrhBytes, [&](const Sge& piece) {
    uint64_t addr = 0;
    if (!memory.translate(piece.lkey, pd, piece.addr, piece.length, kLocalWrite, &addr)) {
      return false;
    }
    actions.placements.push({.frame = frame,
                             .payload_offset = done,
                             .length = piece.length,
                             .addr = addr,
                             .kind = PlacementKind::kGrh});
    done += piece.length;
    return true;
  });
  scatter_payload(sges, kGrhBytes, packet.payload_len, frame, memory, pd, actions);
  return WcStatus::kSuccess;
}

}  // namespace mprdma::transport
