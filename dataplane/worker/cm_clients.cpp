#include "dataplane/worker/cm_clients.hpp"

#include <algorithm>
#include <cerrno>

#include "dataplane/sys/no_cancellation.hpp"

namespace mprdma::dataplane {

int CmClients::open(const mprdma_abi_client* client, const mprdma_abi_cm_open& open) {
  if (open.on_event == nullptr) return EINVAL;
  for (const Client& known : clients_) {
    if (known.client == client) return EBUSY;
  }
  clients_.push_back({client, next_number_++, open});
  return 0;
}

int CmClients::execute(const mprdma_abi_client* client, const mprdma_abi_cm_command& in,
                       mprdma_abi_cm_result* out, Time now) {
  for (const Client& known : clients_) {
    if (known.client != client) continue;
    serve_again();
    return driver_.agent().execute(known.number, in, out, now);
  }
  return EINVAL;
}

void CmClients::forget_client(const mprdma_abi_client* client, Time now) {
  const auto it = std::find_if(clients_.begin(), clients_.end(),
                               [&](const Client& known) { return known.client == client; });
  if (it == clients_.end()) return;
  const uint32_t number = it->number;
  clients_.erase(it);
  driver_.agent().forget_client(number, now);
  serve_again();
}

void CmClients::forget_clients(Time now) {
  while (!clients_.empty()) forget_client(clients_.back().client, now);
}

void CmClients::on_mad(std::span<const unsigned char> bytes, const wire::IpAddress& from,
                       Time now) {
  driver_.agent().on_mad(bytes, from, now);
  serve_again();
}

void CmClients::on_resolved(const wire::IpAddress& to, const wire::MacAddress* mac, Time now) {
  driver_.agent().on_resolved(to, mac, now);
  serve_again();
}

void CmClients::deliver(const CmAgent::ClientEvent& event) {
  const NoCancellation whole;
  for (const Client& client : clients_) {
    if (client.number == event.client) client.open.on_event(client.open.context, &event.event);
  }
}

}  // namespace mprdma::dataplane
