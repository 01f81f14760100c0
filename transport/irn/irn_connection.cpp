#include "transport/irn/irn_connection.hpp"

#include "transport/irn/irn_opcode.hpp"

namespace mprdma::transport {

void IrnConnection::reset(RxActions& actions) {
  MpConnection::reset(actions);
  requests_.reset();
  responses_.reset();
}

RxVerdict IrnConnection::on_packet(Time now, const wire::Packet& packet, FrameHandle frame,
                                   RxActions& actions) {
  const wire::OpcodeInfo& info = packet.info();
  if (info.transport == wire::TransportService::kRc && packet.irn) [[likely]] {
    // The standard's acknowledgement has no place in this mode.
    if (info.operation != wire::Operation::kAck) {
      wire::Packet extended = packet;
      extended.opcode = extended_opcode(packet.opcode);
      return MpConnection::on_packet(now, extended, frame, actions);
    }
  } else if (info.transport == wire::TransportService::kMp) {
    if (info.stream == wire::PacketStream::kAck) return on_ack(now, packet, frame, actions);
    if (info.operation == wire::Operation::kResponseError) {
      return MpConnection::on_packet(now, packet, frame, actions);
    }
  } else if (info.transport == wire::TransportService::kCnp) {
    return MpConnection::on_packet(now, packet, frame, actions);
  }
  ++core_.device.counters->drop_wrong_mode;
  return RxVerdict::kDone;
}

RxVerdict IrnConnection::on_ack(Time now, const wire::Packet& ack, FrameHandle frame,
                                RxActions& actions) {
  wire::Packet timed = ack;
  wire::MpAckExt& ext = timed.mp_ack;
  const bool of_response = (ext.flags & wire::kMpAckResponseStream) != 0;
  const SendClock& clock = of_response ? responses_ : requests_;
  ext.flags &= static_cast<uint8_t>(~wire::kMpAckReTx);
  if (clock.left_again(ext.sack)) ext.flags |= wire::kMpAckReTx;
  ext.echoed_timestamp = clock.echo(now, ext.sack);
  return MpConnection::on_packet(now, timed, frame, actions);
}

bool IrnConnection::poll_packet(Time now, TxPacket& out) {
  if (!take_turn(now, out)) return false;
  wire::Packet& header = out.header;
  const wire::OpcodeInfo& info = header.info();
  if (info.transport != wire::TransportService::kMp) return true;  // a CNP
  if (info.stream != wire::PacketStream::kAck) {
    const bool response = info.stream == wire::PacketStream::kResponse;
    (response ? responses_ : requests_).note(now, header.psn, out.retransmission);
    header.opcode = irn_opcode(header.opcode);
    header.irn = header.info().transport == wire::TransportService::kRc;
    header.ack_req = !response;
    if (header.irn && header.info().has_aeth) {
      header.aeth = {.syndrome = wire::kAckSyndrome, .msn = responder().receiver().msn()};
    }
  }
  note_sent(now, header);
  return true;
}

}  // namespace mprdma::transport
