#include "dataplane/worker/nic_part.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "dataplane/client/daemon.hpp"
#include "dataplane/worker/mcast_table.hpp"
#include "wire/neighbour.hpp"

namespace mprdma::dataplane {

namespace {

constexpr uint32_t kMtuOfOne = 128;  // enum ibv_mtu: 1 is 256, 2 is 512

}  // namespace

// ---- The host of neighbours and queue pair 1 ---------------------------------------------------

// Frames into a batch, counters of the engine, news to the agent and the worker.
class NicPart::Out final : public NicHost {
 public:
  Out(NicPart* part, TxBatch* batch, Time now, bool to_loop = false)
      : part_(*part), batch_(*batch), now_(now), to_loop_(to_loop) {}

  bool send(std::span<const unsigned char> frame) override;
  [[nodiscard]] bool with_icrc() const override {
    return !to_loop_ && part_.port_info_.can_corrupt;
  }
  void count(NicCount what) override;
  void on_neighbour(const wire::IpAddress& ip, const wire::MacAddress* mac) override {
    part_.lent_.on_neighbour(part_.lent_.worker, ip);
    part_.cm_.on_resolved(ip, mac, now_);
  }
  void on_cm_mad(std::span<const unsigned char, wire::kMadBytes> mad,
                 const wire::FrameAddress& from, bool from_loop) override;
  void on_pair_mad(const wire::PairMad& mad) override {
    part_.lent_.on_pair_mad(part_.lent_.worker, mad, now_, batch_);
  }

 private:
  NicPart& part_;
  TxBatch& batch_;
  Time now_;
  bool to_loop_;
};

bool NicPart::Out::send(std::span<const unsigned char> frame) {
  TxFrame* out = frame.size() <= part_.port_info_.frame_bytes_max ? batch_.next() : nullptr;
  if (out == nullptr) return false;
  const size_t header_bytes = std::min<size_t>(frame.size(), kFrameHeadroom);
  if (frame.size() - header_bytes > out->capacity) {
    batch_.put_back();
    return false;
  }
  std::memcpy(out->payload - header_bytes, frame.data(), header_bytes);
  std::memcpy(out->payload, frame.data() + header_bytes, frame.size() - header_bytes);
  out->header_bytes = static_cast<uint32_t>(header_bytes);
  out->frame_bytes = static_cast<uint32_t>(frame.size());
  ++part_.lent_.counters->frames_out;
  return true;
}

void NicPart::Out::count(NicCount what) {
  EngineCounters& counters = *part_.lent_.counters;
  WireDrops& drops = *part_.lent_.drops;
  switch (what) {
    case NicCount::kArpReceived:
      ++counters.arp_received;
      return;
    case NicCount::kArpTruncated:
      ++drops[wire::DropReason::kTruncatedArp];
      return;
    case NicCount::kArpBad:
      ++drops[wire::DropReason::kBadArp];
      return;
    case NicCount::kArpNotForUs:
      ++counters.arp_not_for_us;
      return;
    case NicCount::kArpRequestsSent:
      ++counters.arp_requests_sent;
      return;
    case NicCount::kArpRepliesSent:
      ++counters.arp_replies_sent;
      return;
    case NicCount::kNeighbourMessagesReceived:
      ++counters.neighbour_messages_received;
      return;
    case NicCount::kNeighbourMessagesBad:
      ++counters.drop_neighbour;
      return;
    case NicCount::kSolicitationsSent:
      ++counters.neighbour_solicitations_sent;
      return;
    case NicCount::kAdvertisementsSent:
      ++counters.neighbour_advertisements_sent;
      return;
    case NicCount::kAddressConflicts:
      ++counters.arp_conflicts;
      return;
    case NicCount::kMadsDropped:
      ++counters.drop_bad_mad;
      return;
    case NicCount::kProbesDropped:
      ++counters.drop_bad_probe;
      return;
    case NicCount::kProbesRefused:
      ++counters.probes_refused;
      return;
    case NicCount::kProbesAnswered:
      ++counters.probes_answered;
      return;
    case NicCount::kProbeAnswersReceived:  // an engine sends no probes
      return;
  }
}

void NicPart::Out::on_cm_mad(std::span<const unsigned char, wire::kMadBytes> mad,
                             const wire::FrameAddress& from, bool from_loop) {
  if (part_.neighbours_.is_own(from.src_ip) != from_loop) {
    ++part_.lent_.counters->drop_wrong_source;
    return;
  }
  if (!from_loop) part_.neighbours_.learn_sender(from, *this);
  part_.cm_.on_mad(mad, from.src_ip, now_);
}

// ---- Frames ------------------------------------------------------------------------------------

NicPart::NicPart(const Lent& lent)
    : lent_(lent),
      port_info_(lent.port->info()),
      shared_(lent.port->daemon() != nullptr),
      neighbours_(lent.mac, lent.ipv4, lent.prng->split("neighbours").next_u64()),
      cm_(cm_config(lent)) {}

CmConfig NicPart::cm_config(const Lent& lent) {
  CmConfig config;
  config.address = wire::map_ipv4(lent.ipv4);
  config.ipv4 = lent.ipv4;
  const wire::IpAddress link_local = wire::link_local_of(lent.mac);
  std::memcpy(&config.node_guid, link_local.data() + 8, sizeof(config.node_guid));
  config.path_mtu = static_cast<uint8_t>(std::countr_zero(lent.mtu / kMtuOfOne));
  config.seed = lent.prng->split("cm").next_u64();
  return config;
}

void NicPart::on_arp(std::span<const unsigned char> frame, Time now, TxBatch& answers) {
  Out out(this, &answers, now);
  neighbours_.on_arp(frame, out);
}

void NicPart::on_discovery(std::span<const unsigned char> frame, Time now, TxBatch& answers) {
  Out out(this, &answers, now);
  neighbours_.on_discovery(frame, out);
}

void NicPart::on_datagram(const wire::DecodedFrame& decoded, const unsigned char* payload,
                          bool from_loop, Time now, TxBatch& answers) {
  Out out(this, &answers, now, from_loop);
  qp1_.on_datagram(decoded, payload, from_loop, now, out);
}

bool NicPart::send_pair_mad(const wire::FrameAddress& to, uint16_t source_port,
                            const wire::PairMad& mad, TxBatch& batch) {
  Out out(this, &batch, Time());
  return qp1_.send_pair(to, source_port, mad, out);
}

void NicPart::on_link_up(Time now) {
  {
    TxBatch batch(lent_.port);
    Out out(this, &batch, now);
    neighbours_.announce(out);
  }
  lent_.port->flush();
  // Behind mprdmad a neighbour may have moved while the daemon was away: known ones are asked for,
  // too.
  neighbours_.table().restart(now, shared_);
}

bool NicPart::serve_neighbours(Time now) {
  if (neighbours_.table().next_deadline() > now) return false;
  TxBatch batch(lent_.port);
  Out out(this, &batch, now);
  return neighbours_.on_deadline(now, out);
}

// ---- Addresses ---------------------------------------------------------------------------------

int NicPart::resolve_address(const mprdma_abi_create_ah& to, Time now, AddressHandle* out) {
  if (to.sgid_index > 1) return EINVAL;
  wire::IpAddress peer;
  std::memcpy(peer.data(), to.dgid, peer.size());
  const bool ipv4 = wire::is_mapped_ipv4(peer);
  out->group = wire::is_multicast(peer);
  // A group decides the IP version: programs name any of our GIDs as the source.
  if (!out->group && ipv4 != (to.sgid_index == 1)) return EINVAL;
  wire::FrameAddress address = neighbours_.address_of(peer, {});
  address.dscp = to.traffic_class >> 2;
  address.ecn = static_cast<wire::Ecn>(to.traffic_class & 3);
  // A hop limit of 0 would end at the first router; verbs programs leave it at 0.
  address.ttl = to.hop_limit > 1 ? to.hop_limit : wire::kDefaultTtl;
  // A datagram's queue pair is not known yet: mprdmad brings back what is ours.
  out->loop = neighbours_.is_own(peer) && !shared_;
  out->path = PathState::kReady;
  if (neighbours_.is_own(peer)) {
    address.dst_mac = lent_.mac;
  } else if (out->group) {
    address.dst_mac = mac_of_group(peer);
  } else if (!ipv4 && !wire::is_link_local(peer)) {
    return EINVAL;
  } else if (ipv4 || !wire::mac_of_link_local(peer, &address.dst_mac)) {
    const NeighbourTable::Entry* entry = neighbours_.table().resolve(peer, now);
    if (entry == nullptr) return ENOMEM;
    out->path = PathState::kResolving;
    out->outer.set(address);
    apply_neighbour(*out, *entry);
    return 0;
  }
  out->outer.set(address);
  return 0;
}

// ---- Connection management ---------------------------------------------------------------------

void NicPart::resolve_for_cm(const wire::IpAddress& to, Time now) {
  mprdma_abi_create_ah query{};
  query.sgid_index = wire::is_mapped_ipv4(to) ? 1 : 0;
  std::memcpy(query.dgid, to.data(), to.size());
  AddressHandle found;
  const bool way = resolve_address(query, now, &found) == 0 && !found.group;
  if (!way) {
    cm_.on_resolved(to, nullptr, now);
  } else if (found.path == PathState::kReady) {
    cm_.on_resolved(to, &found.outer.address().dst_mac, now);
  }
  // Otherwise on_neighbour() tells it later.
}

// False: the wire is full.
bool NicPart::send_cm_mad(const CmAgent::OutgoingMad& mad, TxBatch& wire_batch, TxBatch& loop_batch,
                          Time now) {
  mprdma_abi_create_ah to{};
  to.sgid_index = wire::is_mapped_ipv4(mad.to) ? 1 : 0;
  to.traffic_class = mad.traffic_class;
  std::memcpy(to.dgid, mad.to.data(), mad.to.size());
  AddressHandle found;
  if (resolve_address(to, now, &found) != 0 || found.group || found.path != PathState::kReady) {
    // The address is being resolved; the agent repeats the message.
    ++lent_.counters->drop_no_path;
    return true;
  }
  found.outer.set_ecn(wire::Ecn::kNotEct);
  Out out(this, found.loop ? &loop_batch : &wire_batch, now, found.loop);
  return qp1_.send(found.outer.address(), any_path(*lent_.prng), mad.bytes, out);
}

bool NicPart::serve_cm(Time now) {
  if (cm_.next_deadline() > now) return false;
  {
    TxBatch wire_batch(lent_.port);
    TxBatch loop_batch(lent_.loop);
    cm_.serve(
        now, [&](const wire::IpAddress& to) { resolve_for_cm(to, now); },
        [&](const CmAgent::OutgoingMad& mad) {
          return send_cm_mad(mad, wire_batch, loop_batch, now);
        });
  }
  // Frames in the loopback wake no thread, so serve() must be due again.
  if (lent_.loop->pending()) cm_.serve_again();
  return true;
}

void NicPart::settle_cm(Time now) {
  if (serve_cm(now)) lent_.port->flush();
}

}  // namespace mprdma::dataplane
