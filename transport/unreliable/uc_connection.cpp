#include "transport/unreliable/uc_connection.hpp"

#include <algorithm>

#include "transport/work/local_work.hpp"
#include "transport/work/work_opcode.hpp"

namespace mprdma::transport {

namespace {

using wire::Opcode;
using wire::Operation;

constexpr bool has_imm(WorkOpcode opcode) {
  return opcode == WorkOpcode::kSendImm || opcode == WorkOpcode::kWriteImm;
}

constexpr Opcode opcode_of(WorkOpcode work, bool first, bool last) {
  const bool imm = has_imm(work);
  if (is_write(work)) {
    if (first && last) return imm ? Opcode::kUcWriteOnlyImm : Opcode::kUcWriteOnly;
    if (first) return Opcode::kUcWriteFirst;
    if (last) return imm ? Opcode::kUcWriteLastImm : Opcode::kUcWriteLast;
    return Opcode::kUcWriteMiddle;
  }
  if (first && last) return imm ? Opcode::kUcSendOnlyImm : Opcode::kUcSendOnly;
  if (first) return Opcode::kUcSendFirst;
  if (last) return imm ? Opcode::kUcSendLastImm : Opcode::kUcSendLast;
  return Opcode::kUcSendMiddle;
}

}  // namespace

UcConnection::UcConnection(QpCore& core) : core_(core), sends_(core.config) {}

void UcConnection::enter_rtr() {
  rcv_nxt_ = core_.attributes.rq_psn;
  message_ = {};
  notifications_.reset(kCnpInterval);
}

void UcConnection::enter_rts() {
  snd_nxt_ = core_.attributes.sq_psn;
  packets_sent_ = 0;
}

void UcConnection::reset(RxActions&) {
  sends_.clear();
  next_packet_ = 0;
  draining_ = false;
  message_ = {};
}

void UcConnection::resume_sends() {
  sends_.resume();
  next_packet_ = 0;
}

// ---- Sending -----------------------------------------------------------------------------------

bool UcConnection::post_send(Time, const SendRequest& request) {
  return sends_.post(request);
}

bool UcConnection::wants_to_send() const {
  // In SQD a message that has begun is sent to its end.
  return sends_requests(core_.state) && sends_.has_current() && (!draining_ || next_packet_ > 0);
}

bool UcConnection::poll_packet(Time, TxPacket& out) {
  while (wants_to_send() && is_local_work(sends_.current().request.opcode)) {
    const WcStatus status = perform_local_work(core_, sends_.current().request).status;
    if (status != WcStatus::kSuccess) ++core_.device.counters->errors_local;
    sends_.finish_current(status);
  }
  if (!wants_to_send()) return false;
  if (!fill(next_packet_, out)) {
    ++core_.device.counters->errors_local;
    sends_.finish_current(WcStatus::kLocalProtectionError);
    next_packet_ = 0;
    return false;
  }
  out.header.psn = snd_nxt_;
  snd_nxt_ += 1;
  ++packets_sent_;
  ++core_.device.counters->packets_sent;
  ++next_packet_;
  if (out.header.info().ends_message()) {
    sends_.finish_current(WcStatus::kSuccess);
    next_packet_ = 0;
  }
  return true;
}

// Fills in a packet. False: a local key does not open the memory.
bool UcConnection::fill(uint32_t packet_index, TxPacket& out) {
  const UnackedSends::Work& work = sends_.current();
  const SendRequest& request = work.request;
  const uint32_t offset = packet_index * core_.attributes.path_mtu;
  wire::Packet& header = out.header;
  header = wire::Packet{};
  header.payload_len = std::min(work.length - offset, core_.attributes.path_mtu);
  const bool last = offset + header.payload_len == work.length;
  header.opcode = opcode_of(request.opcode, packet_index == 0, last);
  header.dest_qpn = core_.attributes.dest_qpn;
  header.vp = core_.attributes.vp;
  header.solicited_event = last && (request.flags & kSolicited) != 0;
  header.immdt = request.imm_or_rkey;
  header.reth = {.va = request.remote_addr, .rkey = request.rkey, .dma_len = work.length};
  return gather_payload(sends_.current_sges(), offset, header.payload_len,
                        (request.flags & kInline) != 0, *core_.device.memory, core_.config.pd, out);
}

bool UcConnection::poll_completion(Completion& out) {
  return sends_.poll(core_.state == QpState::kErr || core_.state == QpState::kSqe, out);
}

StreamStats UcConnection::request_stats() const {
  StreamStats stats;
  stats.packets_sent = packets_sent_;
  return stats;
}

// ---- Receiving ---------------------------------------------------------------------------------

RxVerdict UcConnection::on_packet(Time now, const wire::Packet& packet, FrameHandle frame,
                                  RxActions& actions) {
  TransportCounters& counters = *core_.device.counters;
  const wire::OpcodeInfo& info = packet.info();
  if (info.transport == wire::TransportService::kCnp) {
    ++counters.cnps_received;
    return RxVerdict::kDone;
  }
  if (info.transport != wire::TransportService::kUc) {
    ++counters.drop_wrong_mode;
    return RxVerdict::kDone;
  }
  if (!receives_packets(core_.state)) {
    ++counters.drop_bad_state;
    return RxVerdict::kDone;
  }
  core_.heard_peer = true;
  if (packet.ce && notifications_.due(now)) [[unlikely]] {
    ++counters.cnps_sent;
    actions.has_ack = true;
    actions.ack = make_cnp(core_.attributes);
  }
  const bool in_order = packet.psn == rcv_nxt_;
  rcv_nxt_ = packet.psn + 1;
  if (!in_order || info.starts_message()) abandon();
  if (!info.starts_message() && message_.operation != info.operation) {
    abandon();
    ++counters.drop_message_cut;
    return RxVerdict::kDone;
  }
  process_request(packet, frame, actions);
  return RxVerdict::kDone;
}

// Abandons the message that was arriving: its remaining packets are dropped.
void UcConnection::abandon() {
  const bool has_receive = message_.operation == Operation::kSend;
  message_ = {};
  if (has_receive && core_.receives.current().shared != nullptr) {
    core_.receives.fail(WcStatus::kRemoteInvalidRequestError);
  }
}

void UcConnection::process_request(const wire::Packet& packet, FrameHandle frame,
                                   RxActions& actions) {
  if (packet.info().starts_message()) {
    message_.operation = packet.info().operation;
    message_.reth = packet.reth;
    if (message_.operation == Operation::kSend && !core_.receives.ready(core_.shared_for(packet))) {
      message_ = {};
      ++core_.device.counters->drop_no_receive;
      return;
    }
  }
  const bool taken =
      length_fits_place(packet, core_.attributes.path_mtu) &&
      (message_.operation == Operation::kSend ? process_send(packet, frame, actions)
                                              : process_write(packet, frame, actions));
  if (!taken) {
    abandon();
    ++core_.device.counters->drop_bad_packet;
    return;
  }
  ++core_.device.counters->packets_received;
  if (packet.info().ends_message()) message_ = {};
}

bool UcConnection::process_send(const wire::Packet& packet, FrameHandle frame, RxActions& actions) {
  if (packet.payload_len > core_.receives.current().capacity_bytes - message_.offset) return false;
  const std::span<const Sge> sges = core_.receives.current_sges();
  const uint32_t pd = core_.receive_pd();
  if (!all_open(sges, message_.offset, packet.payload_len, *core_.device.memory, pd, kLocalWrite)) {
    // Closed memory of a receive is the local side's error, so the receive and the queue pair fail.
    ++core_.device.counters->errors_local;
    message_ = {};
    core_.receives.fail(WcStatus::kLocalProtectionError);
    core_.refusal.raise(QpEvent::kNone);
    return true;
  }
  scatter_payload(sges, message_.offset, packet.payload_len, frame, *core_.device.memory, pd,
                  actions);
  message_.offset += packet.payload_len;
  if (packet.info().ends_message()) {
    core_.receives.complete(packet, WcOpcode::kRecv, message_.offset);
  }
  return true;
}

bool UcConnection::process_write(const wire::Packet& packet, FrameHandle frame,
                                 RxActions& actions) {
  const wire::OpcodeInfo& info = packet.info();
  const wire::Reth& reth = message_.reth;
  if ((core_.attributes.access & kRemoteWrite) == 0 || reth.dma_len > kMaxMessageBytes) {
    return false;
  }
  if (packet.payload_len > reth.dma_len - message_.offset) return false;
  if ((message_.offset + packet.payload_len == reth.dma_len) != info.ends_message()) return false;
  uint64_t base = 0;
  if (reth.dma_len > 0 && !open_remote(core_, core_.config.pd, reth, kRemoteWrite, &base)) {
    return false;
  }
  if (packet.payload_len > 0 &&
      !core_.device.memory->present(base + message_.offset, packet.payload_len, true)) {
    return false;
  }
  if (packet.payload_len > 0) {
    actions.placements.push({.frame = frame,
                             .payload_offset = 0,
                             .length = packet.payload_len,
                             .addr = base + message_.offset});
  }
  message_.offset += packet.payload_len;
  if (!info.has_immdt) return true;
  if (!core_.receives.ready(core_.shared_for(packet))) {
    ++core_.device.counters->drop_no_receive;
    return true;
  }
  core_.receives.complete(packet, WcOpcode::kRecvWriteImm, reth.dma_len);
  return true;
}

}  // namespace mprdma::transport
