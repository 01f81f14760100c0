// The switch as the host of queue pair 1 (mgmt/qp1.hpp): datagrams from the wire, of the CM agent,
// and path probes of clients.
#include <cerrno>
#include <cstring>

#include "dataplane/daemon/switch.hpp"

namespace mprdma::dataplane::mprdmad {

// ---- The host of the NIC's part

bool Switch::WireHost::send(std::span<const unsigned char> frame) {
  return switch_.put_whole(*switch_.wire_, frame.data(), static_cast<uint32_t>(frame.size()));
}

void Switch::WireHost::count(NicCount what) {
  StationCounters& counters = switch_.wire_->counters;
  switch (what) {
    case NicCount::kArpReceived:
      ++counters.nic_arp_questions;
      return;
    case NicCount::kArpTruncated:
    case NicCount::kArpBad:
    case NicCount::kNeighbourMessagesBad:
      ++counters.nic_drop_malformed;
      return;
    case NicCount::kArpNotForUs:
      return;
    case NicCount::kArpRequestsSent:
      ++counters.nic_arp_requests;
      return;
    case NicCount::kArpRepliesSent:
      ++counters.nic_arp_answers;
      return;
    case NicCount::kNeighbourMessagesReceived:
      ++counters.nic_neighbour_questions;
      return;
    case NicCount::kSolicitationsSent:
      ++counters.nic_neighbour_requests;
      return;
    case NicCount::kAdvertisementsSent:
      ++counters.nic_neighbour_answers;
      return;
    case NicCount::kAddressConflicts:
      ++counters.nic_arp_conflicts;
      return;
    case NicCount::kMadsDropped:
      ++counters.nic_drop_management;
      return;
    case NicCount::kProbesDropped:
      ++counters.nic_drop_probe;
      return;
    case NicCount::kProbesRefused:
      ++counters.nic_probes_refused;
      return;
    case NicCount::kProbesAnswered:
      ++counters.nic_probes_answered;
      return;
    case NicCount::kProbeAnswersReceived:
      ++counters.nic_probe_answers;
      return;
  }
}

void Switch::WireHost::on_cm_mad(std::span<const unsigned char, wire::kMadBytes> mad,
                                 const wire::FrameAddress& from, bool /*from_loop*/) {
  ++switch_.wire_->counters.nic_cm_in;
  if (switch_.management_ != nullptr) switch_.management_->on_mad(mad, from.src_ip, now_);
}

// A frame that is padded beyond the length of any such datagram was not copied.
void Switch::WireHost::on_pair_mad(const wire::PairMad& pair) {
  if (frame_.empty()) return count(NicCount::kMadsDropped);
  const Qpn qpn = pair.response ? Qpn(static_cast<uint32_t>(pair.transaction & wire::kQpnMask))
                                : pair.info.receiver_qpn;
  Station* to = switch_.station_of(qpn);
  if (to == nullptr) return switch_.drop(*switch_.wire_, &StationCounters::nic_drop_unknown_qp);
  switch_.put_whole(*to, frame_.data(), static_cast<uint32_t>(frame_.size()));
}

// ---- From the wire

// A datagram of the standard's length is copied once into memory of our own before it is parsed. A
// longer one may be a path probe, of which queue pair 1 copies the beginning.
void Switch::management_from_wire(const RxFrame& frame, Time now) {
  std::array<unsigned char,
             wire::kMaxFrameHeaderBytes + wire::kMadBytes + wire::kMaxFrameTrailerBytes>
      bytes;
  std::span<const unsigned char> copy;
  if (frame.length <= bytes.size()) {
    std::memcpy(bytes.data(), frame.data, frame.length);
    copy = std::span(bytes).first(frame.length);
  }
  const unsigned char* const start = copy.empty() ? frame.data : copy.data();
  wire::DecodedFrame decoded;
  if (wire::decode_frame({start, frame.length}, decoded, wire_can_corrupt_) !=
      wire::DropReason::kNone) {
    return drop(*wire_, &StationCounters::nic_drop_malformed);
  }
  // A process that shares the memory may have written since the frame was steered.
  if (!is_own(decoded.address.dst_ip) || is_own(decoded.address.src_ip) ||
      decoded.address.dst_mac != config_.mac) {
    return drop(*wire_, &StationCounters::nic_drop_management);
  }
  WireHost host(this, now, copy);
  qp1_.on_datagram(decoded, start + decoded.payload_offset, false, now, host);
}

// ---- The CM agent

void Switch::resolve(const wire::IpAddress& to, Time now) {
  if (management_ == nullptr) return;
  bool waits = false;
  const wire::MacAddress* mac = nullptr;
  if (is_own(to)) {
    mac = &config_.mac;
  } else if (wire_ != nullptr && is_of_network(to)) {
    mac = resolver_.ask(NeighbourResolver::kAgent, to, now, &waits);
  }
  if (mac != nullptr || !waits) management_->on_resolved(to, mac, now);
}

void Switch::send_mad(const CmAgent::OutgoingMad& mad, Time now) {
  if (is_own(mad.to)) {
    if (management_ != nullptr) management_->on_mad(mad.bytes, mad.to, now);
    return;
  }
  if (wire_ == nullptr || !is_of_network(mad.to)) return;
  bool waits = false;
  const wire::MacAddress* mac = resolver_.ask(NeighbourResolver::kAgent, mad.to, now, &waits);
  if (mac != nullptr) return send_mad_to(mad, *mac, now);
  if (waits && waiting_mads_.size() < kWaitingMads) {
    waiting_mads_.push_back(mad);
  } else {
    drop(*wire_, &StationCounters::nic_drop_management);
  }
}

void Switch::send_mad_to(const CmAgent::OutgoingMad& mad, const wire::MacAddress& mac, Time now) {
  wire::FrameAddress address = neighbours_.address_of(mad.to, mac);
  address.dscp = mad.traffic_class >> 2;
  address.ecn = wire::Ecn::kNotEct;
  WireHost host(this, now);
  if (qp1_.send(address, any_path(prng_), mad.bytes, host)) ++wire_->counters.nic_cm_out;
}

// ---- Path probes of clients

int Switch::probe(uint32_t client, const ProbeQuestion& question, Time now) {
  const int error = PathProber::check(question);
  if (error != 0 || question.peer == config_.ipv4) return EINVAL;
  if (wire_ == nullptr || !wire_->port->link_up()) return ENETDOWN;
  const size_t frame_bytes = wire::Ethernet::kBytes + wire::Ipv4Header::kBytes + wire::Udp::kBytes +
                             wire::opcode_info(wire::Opcode::kUdSendOnly).header_bytes +
                             question.bytes + wire::kMaxFrameTrailerBytes;
  if (frame_bytes > wire_->frame_bytes_max) return EMSGSIZE;
  PathProber::Open* open = prober_.ask(client, question, now);
  if (open == nullptr) return EAGAIN;
  bool waits = false;
  const wire::MacAddress* mac = resolver_.ask(NeighbourResolver::kAgent, open->ip, now, &waits);
  // A question that cannot be sent ends by its timeout.
  if (mac != nullptr) send_probe(*open, *mac, now);
  return 0;
}

// A probe that finds no room counts as lost on the way.
void Switch::send_probe(PathProber::Open& open, const wire::MacAddress& mac, Time now) {
  wire::FrameAddress address = neighbours_.address_of(open.ip, mac);
  address.ecn = static_cast<wire::Ecn>(open.question.ecn);
  WireHost host(this, now);
  if (qp1_.send_probe(address, open.question.source_port, PathProber::send(open, now), host)) {
    ++wire_->counters.nic_probes_sent;
  }
}

}  // namespace mprdma::dataplane::mprdmad
