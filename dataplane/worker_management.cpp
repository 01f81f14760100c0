// Management datagrams to and from queue pair 1: by class they belong to the negotiation of modes
// (worker_negotiation.cpp) or to the CM agent, which works here (cm/host.hpp).
#include <bit>
#include <cstring>

#include "dataplane/worker.hpp"
#include "wire/cm_mad.hpp"

namespace mprdma::dataplane {

namespace {

constexpr uint32_t kMtuOfOne = 128;  // enum ibv_mtu: 1 is 256, 2 is 512

}  // namespace

CmConfig Worker::cm_config() {
  CmConfig config;
  config.address = gids_[1];
  config.ipv4 = config_.ipv4;
  std::memcpy(&config.node_guid, gids_[0].data() + 8, sizeof(config.node_guid));
  config.path_mtu = static_cast<uint8_t>(std::countr_zero(config_.mtu / kMtuOfOne));
  config.seed = prng_.split("cm").next_u64();
  return config;
}

// ---- Datagrams ---------------------------------------------------------------------------------

// False: the wire is full.
bool Worker::send_mad(const wire::FrameAddress& address, uint16_t vp,
                      std::span<const unsigned char, wire::kMadBytes> mad, bool loop,
                      TxBatch& batch) {
  TxFrame* frame = batch.next();
  if (frame == nullptr) return false;
  wire::Packet packet;
  packet.opcode = wire::Opcode::kUdSendOnly;
  packet.vp = vp;
  packet.psn = mad_psn_;
  packet.dest_qpn = wire::kGeneralServicesQpn;
  packet.payload_len = wire::kMadBytes;
  packet.deth = {.q_key = wire::kGeneralServicesQKey, .src_qpn = wire::kGeneralServicesQpn};
  mad_psn_ += 1;
  std::memcpy(frame->payload, mad.data(), mad.size());
  const size_t header_bytes = wire::encode_frame(address, packet, frame->payload);
  frame->header_bytes = static_cast<uint32_t>(header_bytes);
  frame->frame_bytes =
      static_cast<uint32_t>(wire::finish_frame(frame->payload - header_bytes, header_bytes,
                                               wire::kMadBytes, !loop && port_info_.can_corrupt));
  ++counters_.frames_out;
  return true;
}

// A packet to queue pair 1 of our address, decoded.
void Worker::receive_management(const RxFrame& frame, bool from_loop, TxBatch& answers, Time now) {
  const wire::Packet& packet = decoded_.packet;
  if (packet.info().transport != wire::TransportService::kUd || !good_pkey(packet.p_key) ||
      packet.deth.q_key != wire::kGeneralServicesQKey || packet.payload_len < wire::kMadBytes) {
    ++counters_.drop_bad_mad;
    return;
  }
  // A copy, because the peer may still write to the frame. Only probes are longer.
  std::array<unsigned char, wire::kMadBytes> bytes;
  std::memcpy(bytes.data(), frame.data + decoded_.payload_offset, bytes.size());
  const uint8_t management_class = wire::MadHeader::load(bytes.data()).management_class;
  if (!from_loop && wire::is_probe_mad(bytes)) {
    receive_probe(bytes, now, answers);
  } else if (packet.payload_len != wire::kMadBytes) {
    ++counters_.drop_bad_mad;
  } else if (management_class == wire::kCmClass) {
    receive_cm_mad(bytes, from_loop, now);
  } else if (management_class == wire::kPairClass && !from_loop) {
    receive_pair_mad(bytes, now, answers);
  } else {
    ++counters_.drop_bad_mad;
  }
}

// ---- Communication management ------------------------------------------------------------------

void Worker::receive_cm_mad(std::span<const unsigned char, wire::kMadBytes> bytes, bool from_loop,
                            Time now) {
  const wire::FrameAddress& from = decoded_.address;
  const bool from_us = from.src_ip == gids_[0] || from.src_ip == gids_[1];
  if (from_us != from_loop) {
    ++counters_.drop_wrong_source;
    return;
  }
  if (!from_loop) learn_from(from);
  cm_.on_mad(bytes, from.src_ip, now);
}

// Who sends a request is answered the way that it came: its neighbour entry is made if there is
// none, and never changed.
void Worker::learn_from(const wire::FrameAddress& from) {
  if (from.is_ipv6 || (from.src_mac[0] & 1) != 0) return;
  const uint32_t ip = wire::unmap_ipv4(from.src_ip);
  const ArpTable::Entry* known = arp_.find(ip);
  if (known != nullptr && known->state == ArpTable::State::kReachable) return;
  if (arp_.learn(ip, from.src_mac, true)) path_changed(wire::map_ipv4(ip));
}

void Worker::resolve_for_cm(const wire::IpAddress& to, Time now) {
  mprdma_abi_create_ah query{};
  query.sgid_index = wire::is_mapped_ipv4(to) ? 1 : 0;
  std::memcpy(query.dgid, to.data(), to.size());
  AddressHandle found;
  const bool way = resolve_address(query, now, &found) == 0 && !found.group;
  if (!way) {
    cm_.on_resolved(to, nullptr, now);
  } else if (found.path == PathState::kReady) {
    cm_.on_resolved(to, &found.address.dst_mac, now);
  }
  // Else path_changed() says it.
}

// False: the wire is full.
bool Worker::send_cm_mad(const CmAgent::OutgoingMad& mad, TxBatch& wire_batch, TxBatch& loop_batch,
                         Time now) {
  mprdma_abi_create_ah to{};
  to.sgid_index = wire::is_mapped_ipv4(mad.to) ? 1 : 0;
  to.traffic_class = mad.traffic_class;
  std::memcpy(to.dgid, mad.to.data(), mad.to.size());
  AddressHandle found;
  if (resolve_address(to, now, &found) != 0 || found.group || found.path != PathState::kReady) {
    // It is being asked for; the agent says everything again.
    ++counters_.drop_no_path;
    return true;
  }
  found.address.ecn = wire::Ecn::kNotEct;
  // Each on a path of its own: one that is broken does not swallow them all.
  const auto vp = static_cast<uint16_t>(prng_.range(wire::kVirtualPathMin, wire::kVirtualPathMax));
  return send_mad(found.address, vp, mad.bytes, found.loop, found.loop ? loop_batch : wire_batch);
}

// What the agent has to do now; no batch is open.
bool Worker::serve_cm(Time now) {
  if (cm_.next_deadline() > now) return false;
  {
    TxBatch wire_batch(port_.get());
    TxBatch loop_batch(&loop_);
    cm_.serve(
        now, [&](const wire::IpAddress& to) { resolve_for_cm(to, now); },
        [&](const CmAgent::OutgoingMad& mad) {
          return send_cm_mad(mad, wire_batch, loop_batch, now);
        });
  }
  // Nobody is woken by what lies in the loop.
  if (loop_.pending()) cm_.serve_again();
  return true;
}

// After a command: its messages leave, and its events are told.
void Worker::settle_cm(Time now) {
  if (serve_cm(now)) port_->flush();
}

}  // namespace mprdma::dataplane
