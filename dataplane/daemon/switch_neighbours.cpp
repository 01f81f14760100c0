// Neighbours: what mgmt/neighbours learns, and the questions of clients, of the CM agent and of
// path probes.
#include <algorithm>

#include "dataplane/daemon/switch.hpp"
#include "wire/arp.hpp"
#include "wire/neighbour.hpp"

namespace mprdma::dataplane::mprdmad {

// ---- The wire

void Switch::WireHost::on_neighbour(const wire::IpAddress& ip, const wire::MacAddress* mac) {
  switch_.resolver_.on_neighbour(ip, mac, [&](const NeighbourResolver::Question& question) {
    switch_.answer_question(question, mac, now_);
  });
  if (mac != nullptr) switch_.tell_clients(ip, *mac);
}

// The kernel hears all but questions for our address: they are answered here, also when the kernel
// has the address, too, so that RDMA does not depend on how the tap is configured.
void Switch::neighbour_from_wire(const HeaderCopy& copy, const FrameClass& found,
                                 const RxFrame& frame, Time now) {
  WireHost host(this, now);
  const bool done = found.kind == FrameKind::kArp
                        ? neighbours_.on_arp({copy.bytes.data(), copy.copied}, host)
                        : neighbours_.on_discovery({frame.data, frame.length}, host);
  if (!done) copy_to_kernel(frame);
}

void Switch::announce(Time now) {
  WireHost host(this, now);
  neighbours_.announce(host);
  flush_port(*wire_);
}

bool Switch::ask_neighbours(Time now) {
  prober_.expire(now);
  if (neighbours_.table().next_deadline() > now || wire_ == nullptr) return false;
  WireHost host(this, now);
  neighbours_.on_deadline(now, host);
  resolver_.forget_failed();
  return true;
}

// ---- Answers

// Clients that know the address hear that it has moved: a reply about the sender to itself, which
// makes nobody add it (RFC 5227, 1.1; RFC 4861, 7.2.6).
void Switch::tell_clients(const wire::IpAddress& ip, const wire::MacAddress& mac) {
  for (const auto& client : clients_) {
    if (client != nullptr) send_answer(*client, ip, ip, mac);
  }
}

// Tells a client that `ip` is at `mac`.
void Switch::send_answer(Station& client, const wire::IpAddress& to, const wire::IpAddress& ip,
                         const wire::MacAddress& mac) {
  std::array<unsigned char, wire::NeighbourMessage::kFrameBytes> bytes;
  static_assert(wire::NeighbourMessage::kFrameBytes >= wire::kMinFrameBytes);
  if (!wire::is_mapped_ipv4(ip)) {
    const size_t length =
        wire::encode_advertisement(mac, ip, config_.mac, neighbours_.link_local(), bytes.data());
    if (put_whole(client, bytes.data(), static_cast<uint32_t>(length))) {
      ++client.counters.nic_neighbour_answers;
    }
    return;
  }
  const wire::Arp arp{.operation = wire::ArpOperation::kReply,
                      .sender_mac = mac,
                      .sender_ip = wire::unmap_ipv4(ip),
                      .target_mac = config_.mac,
                      .target_ip = wire::unmap_ipv4(to)};
  const size_t length = wire::encode_arp_frame(config_.mac, mac, arp, bytes.data());
  if (put_whole(client, bytes.data(), static_cast<uint32_t>(length))) {
    ++client.counters.nic_arp_answers;
  }
}

// nullptr as `mac`: no neighbour answers, and a client gives up by itself.
void Switch::answer_question(const NeighbourResolver::Question& question,
                             const wire::MacAddress* mac, Time now) {
  if (question.who != NeighbourResolver::kAgent) {
    Station* client = clients_[question.who].get();
    if (mac == nullptr || client == nullptr) return;
    return send_answer(*client, wire::map_ipv4(config_.ipv4), question.ip, *mac);
  }
  const wire::IpAddress ip = question.ip;
  if (mac == nullptr) {
    prober_.on_no_neighbour(ip);
  } else {
    prober_.on_neighbour(ip, [&](PathProber::Open& open) { send_probe(open, *mac, now); });
  }
  std::erase_if(waiting_mads_, [&](const CmAgent::OutgoingMad& mad) {
    if (mad.to != ip) return false;
    if (mac != nullptr) send_mad_to(mad, *mac, now);
    if (mac == nullptr) drop(*wire_, &StationCounters::nic_drop_management);
    return true;
  });
  if (management_ != nullptr) management_->on_resolved(ip, mac, now);
}

// ---- Clients' questions

// False, and counted: the client asks for too much.
bool Switch::may_ask(Station& client, Time now) {
  if (now >= client.arp_period_end) {
    client.arp_period_end = now + kArpPeriod;
    client.arp_questions_left = kArpPerPeriod;
  }
  if (client.arp_questions_left == 0) {
    drop(client, &StationCounters::nic_drop_arp);
    return false;
  }
  --client.arp_questions_left;
  return true;
}

// Requires an address that is checked and a question that the client may ask.
void Switch::ask_for_client(uint32_t block, const wire::IpAddress& ip, Time now) {
  Station& client = *clients_[block];
  const wire::MacAddress* mac = &config_.mac;
  if (!is_own(ip)) {
    bool waits = false;
    if (wire_ == nullptr) return drop(client, &StationCounters::nic_drop_link_down);
    mac = resolver_.ask(block, ip, now, &waits);
    if (mac == nullptr && !waits) drop(client, &StationCounters::nic_drop_arp);
  }
  if (mac != nullptr) send_answer(client, wire::map_ipv4(config_.ipv4), ip, *mac);
}

void Switch::arp_from_client(uint32_t block, const HeaderCopy& copy, Time now) {
  Station& client = *clients_[block];
  wire::Arp arp;
  const std::span<const unsigned char> body(copy.bytes.data() + wire::Ethernet::kBytes,
                                            copy.copied - wire::Ethernet::kBytes);
  if (wire::Arp::parse(body, arp) != wire::DropReason::kNone) {
    return drop(client, &StationCounters::nic_drop_malformed);
  }
  ++client.counters.nic_arp_questions;
  if (arp.operation != wire::ArpOperation::kRequest || arp.sender_ip != config_.ipv4 ||
      arp.sender_mac != config_.mac) {
    return drop(client, &StationCounters::nic_drop_forged);
  }
  if (may_ask(client, now)) ask_for_client(block, wire::map_ipv4(arp.target_ip), now);
}

void Switch::neighbour_from_client(uint32_t block, const RxFrame& frame, Time now) {
  Station& client = *clients_[block];
  Neighbours::Discovery heard;
  if (!Neighbours::load({frame.data, frame.length}, &heard)) {
    return drop(client, &StationCounters::nic_drop_malformed);
  }
  const wire::NeighbourMessage& message = heard.message;
  ++client.counters.nic_neighbour_questions;
  if (message.advertisement || heard.ip.src != neighbours_.link_local() ||
      message.mac != config_.mac || !wire::is_link_local(message.target)) {
    return drop(client, &StationCounters::nic_drop_forged);
  }
  if (may_ask(client, now)) ask_for_client(block, message.target, now);
}

}  // namespace mprdma::dataplane::mprdmad
