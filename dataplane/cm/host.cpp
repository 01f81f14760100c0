#include "dataplane/cm/host.hpp"

#include <algorithm>
#include <cerrno>

namespace mprdma::dataplane {

int CmHost::open(const mprdma_abi_client* client, const mprdma_abi_cm_open& open) {
  if (open.on_event == nullptr) return EINVAL;
  for (const Client& known : clients_) {
    if (known.client == client) return EBUSY;
  }
  clients_.push_back({client, next_number_++, open});
  return 0;
}

int CmHost::execute(const mprdma_abi_client* client, const mprdma_abi_cm_command& in,
                    mprdma_abi_cm_result* out, Time now) {
  for (const Client& known : clients_) {
    if (known.client != client) continue;
    serve_again();
    return agent_.execute(known.number, in, out, now);
  }
  return EINVAL;
}

void CmHost::forget_client(const mprdma_abi_client* client, Time now) {
  const auto it = std::find_if(clients_.begin(), clients_.end(),
                               [&](const Client& known) { return known.client == client; });
  if (it == clients_.end()) return;
  const uint32_t number = it->number;
  clients_.erase(it);
  agent_.forget_client(number, now);
  serve_again();
}

void CmHost::forget_clients(Time now) {
  while (!clients_.empty()) forget_client(clients_.back().client, now);
}

void CmHost::on_mad(std::span<const unsigned char> bytes, const wire::IpAddress& from, Time now) {
  agent_.on_mad(bytes, from, now);
  serve_again();
}

void CmHost::on_resolved(const wire::IpAddress& to, const wire::MacAddress* mac, Time now) {
  agent_.on_resolved(to, mac, now);
  serve_again();
}

void CmHost::deliver_events() {
  CmAgent::ClientEvent event;
  while (agent_.poll_event(&event)) {
    for (const Client& client : clients_) {
      if (client.number == event.client) client.open.on_event(client.open.context, &event.event);
    }
  }
}

}  // namespace mprdma::dataplane
