// Hosts whose NIC needs time for each packet (Scenario::receivers).
#include "switchsim/sim/hosts/host_set.hpp"

namespace mprdma::switchsim {

void HostSet::make_receivers() {
  receivers_.resize(hosts_.size());
  for (const ReceiverSpec& spec : scenario_.receivers) {
    for (const NodeId host : spec.hosts) receivers_[host] = std::make_unique<SlowReceiver>(spec);
  }
}

TimerId HostSet::receiver_timer(NodeId host) const {
  return static_cast<TimerId>(endpoints_.size() + flows_.size() + hosts_.size() + host);
}

void HostSet::receive_slowly(NodeId host, PacketId id) {
  SlowReceiver& receiver = *receivers_[host];
  const bool idle = receiver.empty();
  if (!receiver.push(id, network_->packet(id).wire_bytes)) {
    ++receiver_drops_;
    return network_->release(id);
  }
  network_->set_host_pausing(host, receiver.pausing());
  if (idle) begin_receiving(host);
}

void HostSet::begin_receiving(NodeId host) {
  SlowReceiver& receiver = *receivers_[host];
  const wire::Packet& packet = contents_[receiver.front()];
  SimSpan time = receiver.time_of_header();
  if (packet.payload_len > 0) {
    const uint32_t flow = endpoint_of(packet.dest_qpn) / 2;
    const bool begins = wire::opcode_info(packet.opcode).starts_message();
    time = receiver.time_of(flow, begins, packet.payload_len);
  }
  network_->set_timer(receiver_timer(host), network_->now() + time);
}

void HostSet::end_receiving(NodeId host) {
  SlowReceiver& receiver = *receivers_[host];
  const PacketId id = receiver.pop();
  network_->set_host_pausing(host, receiver.pausing());
  if (!receiver.empty()) begin_receiving(host);
  take(host, id);
}

}  // namespace mprdma::switchsim
