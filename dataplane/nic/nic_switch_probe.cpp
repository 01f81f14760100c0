// Path probes: those of peers are answered here, those of clients are sent, and their answers
// taken.
#include <cerrno>

#include "dataplane/nic/nic_switch.hpp"

namespace mprdma::dataplane::nic {

// Longer than the standard's management datagrams. It is not copied: of its payload only the
// beginning is looked at, of which there is a copy.
void NicSwitch::long_management_from_wire(const RxFrame& frame, Time now) {
  wire::DecodedFrame decoded;
  const wire::Packet& packet = decoded.packet;
  if (wire::decode_frame({frame.data, frame.length}, decoded, wire_can_corrupt_) !=
      wire::DropReason::kNone) {
    return drop(*wire_, &NicCounters::nic_drop_malformed);
  }
  // Whoever shares the memory may have written meanwhile.
  const bool to_us = wire::is_mapped_ipv4(decoded.address.dst_ip)
                         ? wire::unmap_ipv4(decoded.address.dst_ip) == config_.ipv4
                         : decoded.address.dst_ip == link_local_;
  if (!to_us || packet.dest_qpn != wire::kGeneralServicesQpn ||
      packet.info().transport != wire::TransportService::kUd ||
      packet.deth.q_key != wire::kGeneralServicesQKey || packet.payload_len < wire::kMadBytes) {
    return drop(*wire_, &NicCounters::nic_drop_management);
  }
  std::array<unsigned char, wire::kMadBytes> head;
  std::memcpy(head.data(), frame.data + decoded.payload_offset, head.size());
  if (!wire::is_probe_mad(head)) return drop(*wire_, &NicCounters::nic_drop_management);
  probe_from_wire(decoded, head, now);
}

void NicSwitch::probe_from_wire(const wire::DecodedFrame& decoded,
                                std::span<const unsigned char, wire::kMadBytes> head, Time now) {
  wire::ProbeMad mad;
  if (wire::decode_probe_mad(head, decoded.packet.payload_len, mad) != wire::MadDrop::kNone) {
    return drop(*wire_, &NicCounters::nic_drop_probe);
  }
  if (mad.response) return take_probe_answer(decoded, mad, now);
  answer_probe(decoded, mad, now);
}

void NicSwitch::answer_probe(const wire::DecodedFrame& decoded, const wire::ProbeMad& question,
                             Time now) {
  wire::FrameAddress back;
  if (!address_of_probe_answer(decoded.address, &back)) {
    return drop(*wire_, &NicCounters::nic_drop_probe);
  }
  if (!probe_limit_.take(now)) return drop(*wire_, &NicCounters::nic_probes_refused);
  back.src_mac = config_.mac;
  if (put_probe(back, decoded.packet.vp, answer_to_probe(question, decoded))) {
    ++wire_->counters.nic_probes_answered;
  }
}

// False: a counted drop.
bool NicSwitch::put_probe(const wire::FrameAddress& address, uint16_t source_port,
                          const wire::ProbeMad& mad) {
  std::array<unsigned char,
             wire::kMaxFrameHeaderBytes + wire::kProbeBytesMax + wire::kMaxFrameTrailerBytes>
      bytes;
  unsigned char* const payload = bytes.data() + wire::kMaxFrameHeaderBytes;
  wire::encode_probe_mad(mad, payload);
  const size_t header_bytes =
      wire::encode_frame(address, probe_packet(source_port, mad.bytes, mad_psn_), payload);
  mad_psn_ += 1;
  const size_t length =
      wire::finish_frame(payload - header_bytes, header_bytes, mad.bytes, wire_can_corrupt_);
  return put_whole(*wire_, payload - header_bytes, static_cast<uint32_t>(length));
}

// ---- For clients

int NicSwitch::probe(uint32_t client, const PathProbe& question, Time now) {
  const int error = PathProber::check(question);
  if (error != 0 || question.peer == config_.ipv4) return EINVAL;
  if (wire_ == nullptr || !wire_->port->link_up()) return ENETDOWN;
  const size_t frame_bytes = wire::Ethernet::kBytes + wire::Ipv4::kBytes + wire::Udp::kBytes +
                             wire::opcode_info(wire::Opcode::kUdSendOnly).header_bytes +
                             question.bytes + wire::kMaxFrameTrailerBytes;
  if (frame_bytes > wire_->frame_bytes_max) return EMSGSIZE;
  PathProber::Open* open = prober_.ask(client, question, now);
  if (open == nullptr) return EAGAIN;
  bool waits = false;
  const wire::MacAddress* mac = neighbours_.ask(Neighbours::kAgent, open->ip, now, &waits);
  // Where nobody can be asked it ends by its time-out.
  if (mac != nullptr) send_probe(*open, *mac, now);
  return 0;
}

void NicSwitch::send_probe(PathProber::Open& open, const wire::MacAddress& mac, Time now) {
  const PathProbe& question = open.question;
  const wire::FrameAddress address{.dst_mac = mac,
                                   .src_mac = config_.mac,
                                   .is_ipv6 = false,
                                   .src_ip = wire::map_ipv4(config_.ipv4),
                                   .dst_ip = open.ip,
                                   .ecn = static_cast<wire::Ecn>(question.ecn)};
  const wire::ProbeMad mad{.transaction = open.transaction,
                           .sequence = question.sequence,
                           .bytes = question.bytes,
                           .answer_bytes = question.answer_bytes,
                           .seen = {}};
  // One that found no room is as good as lost on the way.
  open.sent = true;
  open.sent_at = now;
  if (put_probe(address, question.source_port, mad)) ++wire_->counters.nic_probes_sent;
}

void NicSwitch::take_probe_answer(const wire::DecodedFrame& decoded, const wire::ProbeMad& answer,
                                  Time now) {
  PathProber::Open open;
  if (!prober_.take(answer, decoded.address.src_ip, &open)) {
    return drop(*wire_, &NicCounters::nic_drop_probe);
  }
  ++wire_->counters.nic_probe_answers;
  auto result = new_message<PathAnswer>(open.serial);
  result.sequence = answer.sequence;
  result.rtt_ns = static_cast<uint64_t>((now - open.sent_at).count_ns());
  result.next_hop = decoded.address.src_mac;
  result.there = {.bytes = answer.seen.bytes,
                  .source_port = answer.seen.source_port,
                  .hop_limit_sent = wire::kDefaultTtl,
                  .hop_limit = answer.seen.hop_limit,
                  .ecn = static_cast<uint8_t>(answer.seen.ecn)};
  result.back = {.bytes = static_cast<uint16_t>(decoded.packet.payload_len),
                 .source_port = decoded.packet.vp,
                 .hop_limit_sent = answer.hop_limit,
                 .hop_limit = decoded.address.ttl,
                 .ecn = static_cast<uint8_t>(decoded.address.ecn)};
  prober_.finish(open, result);
}

}  // namespace mprdma::dataplane::nic
