#include "dataplane/mgmt/qp1.hpp"

#include <array>
#include <cstring>

#include "wire/cm_mad.hpp"

namespace mprdma::dataplane {

namespace {

// Room for a frame with a payload of up to kBytes.
template <size_t kBytes>
struct FrameRoom {
  unsigned char* payload() { return bytes.data() + wire::kMaxFrameHeaderBytes; }
  std::array<unsigned char, wire::kMaxFrameHeaderBytes + kBytes + wire::kMaxFrameTrailerBytes>
      bytes;
};

bool good_packet(const wire::Packet& packet) {
  return packet.dest_qpn == wire::kGeneralServicesQpn &&
         packet.info().transport == wire::TransportService::kUd &&
         in_default_partition(packet.p_key) && packet.deth.q_key == wire::kGeneralServicesQKey &&
         packet.payload_len >= wire::kMadBytes;
}

}  // namespace

// ---- In ----------------------------------------------------------------------------------------

void Qp1::on_datagram(const wire::DecodedFrame& decoded, const unsigned char* payload,
                      bool from_loop, Time now, NicHost& host) {
  if (!good_packet(decoded.packet)) return host.count(NicCount::kMadsDropped);
  std::array<unsigned char, wire::kMadBytes> bytes;
  std::memcpy(bytes.data(), payload, bytes.size());
  if (!from_loop && wire::is_probe_mad(bytes)) return on_probe(decoded, bytes, now, host);
  // Only probes are longer than the standard's datagrams.
  if (decoded.packet.payload_len != bytes.size()) return host.count(NicCount::kMadsDropped);
  if (wire::MadHeader::load(bytes.data()).management_class == wire::kCmClass) {
    return host.on_cm_mad(bytes, decoded.address, from_loop);
  }
  wire::PairMad pair;
  if (from_loop || wire::decode_pair_mad(bytes, pair) != wire::MadDrop::kNone) {
    return host.count(NicCount::kMadsDropped);
  }
  host.on_pair_mad(pair);
}

void Qp1::on_probe(const wire::DecodedFrame& decoded,
                   std::span<const unsigned char, wire::kMadBytes> head, Time now, NicHost& host) {
  wire::ProbeMad mad;
  if (wire::decode_probe_mad(head, decoded.packet.payload_len, mad) != wire::MadDrop::kNone) {
    return host.count(NicCount::kProbesDropped);
  }
  if (mad.response) {
    const bool asked = prober_ != nullptr && prober_->on_answer(mad, decoded, now);
    return host.count(asked ? NicCount::kProbeAnswersReceived : NicCount::kProbesDropped);
  }
  wire::FrameAddress back;
  if (!address_of_probe_answer(decoded.address, &back)) {
    return host.count(NicCount::kProbesDropped);
  }
  if (!probe_limit_.consume(now)) return host.count(NicCount::kProbesRefused);
  if (send_probe(back, decoded.packet.vp, answer_to_probe(mad, decoded), host)) {
    host.count(NicCount::kProbesAnswered);
  }
}

// ---- Out ---------------------------------------------------------------------------------------

bool Qp1::send(const wire::FrameAddress& to, uint16_t source_port,
               std::span<const unsigned char, wire::kMadBytes> mad, NicHost& host) {
  FrameRoom<wire::kMadBytes> room;
  std::memcpy(room.payload(), mad.data(), mad.size());
  return put(to, management_packet(source_port, wire::kMadBytes, psn_), room.payload(), host);
}

bool Qp1::send_pair(const wire::FrameAddress& to, uint16_t source_port, const wire::PairMad& mad,
                    NicHost& host) {
  std::array<unsigned char, wire::kMadBytes> bytes;
  wire::encode_pair_mad(mad, bytes);
  return send(to, source_port, bytes, host);
}

bool Qp1::send_probe(const wire::FrameAddress& to, uint16_t source_port, const wire::ProbeMad& mad,
                     NicHost& host) {
  FrameRoom<wire::kProbeBytesMax> room;
  wire::encode_probe_mad(mad, room.payload());
  return put(to, management_packet(source_port, mad.bytes, psn_), room.payload(), host);
}

// A datagram that found no room has used no PSN.
bool Qp1::put(const wire::FrameAddress& to, const wire::Packet& packet, unsigned char* payload,
              NicHost& host) {
  const size_t header_bytes = wire::encode_frame(to, packet, payload);
  unsigned char* const frame = payload - header_bytes;
  const size_t bytes =
      wire::finish_frame(frame, header_bytes, packet.payload_len, host.with_icrc());
  if (!host.send({frame, bytes})) return false;
  psn_ += 1;
  return true;
}

}  // namespace mprdma::dataplane
