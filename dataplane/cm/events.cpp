// Events, and values that params and messages both have.
#include <algorithm>
#include <cstring>

#include "dataplane/cm/state.hpp"

namespace mprdma::dataplane {

namespace {

// A peer that says 0 or 31 means it, but neither 4 us nor 2.4 hours are of use: 4 ms to 17 s.
constexpr uint8_t kShortestTimeout = 10;
constexpr uint8_t kLongestTimeout = 22;

void fill(mprdma_abi_cm_address* out, const wire::IpAddress& address, uint16_t port) {
  std::copy(address.begin(), address.end(), out->ip);
  out->port = port;
}

}  // namespace

bool private_fits(const mprdma_abi_cm_params& params, size_t room) {
  return params.private_bytes <= room;
}

void copy_private(const mprdma_abi_cm_params& params, wire::CmPrivate* out) {
  out->bytes = std::min<uint8_t>(params.private_bytes, wire::CmPrivate::kBytesMax);
  std::memcpy(out->data.data(), params.private_data, out->bytes);
}

void copy_private(const wire::CmPrivate& in, mprdma_abi_cm_params* out, size_t skip) {
  const size_t bytes = in.bytes > skip ? in.bytes - skip : 0;
  out->private_bytes = static_cast<uint8_t>(std::min(bytes, sizeof(out->private_data)));
  std::memcpy(out->private_data, in.data.data() + skip, out->private_bytes);
}

void add_ip_header(const CmId& id, const mprdma_abi_cm_params& params, wire::CmPrivate* out) {
  std::array<unsigned char, wire::CmIpHeader::kBytes> header;
  const auto version = static_cast<uint8_t>(is_ipv4(id.remote) ? 4 : 6);
  wire::encode_cm_ip_header({.ip_version = version,
                             .source_port = id.local_port,
                             .source = id.local,
                             .destination = id.remote},
                            header);
  std::copy(header.begin(), header.end(), out->data.begin());
  std::copy_n(params.private_data, params.private_bytes, out->data.begin() + header.size());
  out->bytes = static_cast<uint8_t>(header.size() + params.private_bytes);
}

Duration cm_timeout(uint8_t exponent) {
  return Duration::ns(int64_t{4096} << std::clamp(exponent, kShortestTimeout, kLongestTimeout));
}

uint64_t guid_number(uint64_t guid_in_network_order) {
  unsigned char bytes[sizeof(guid_in_network_order)];
  std::memcpy(bytes, &guid_in_network_order, sizeof(bytes));
  return load_be64(bytes);
}

wire::IpAddress address_of(const mprdma_abi_cm_address& in) {
  wire::IpAddress address;
  std::copy(std::begin(in.ip), std::end(in.ip), address.begin());
  return address;
}

void CmAgent::State::emit(CmId& id, mprdma_abi_cm_event_type type, int status,
                          const mprdma_abi_cm_params* params) {
  if (id.orphan) return;
  if (events.size() >= events_sorted_at) {
    std::erase_if(events, [this](const ClientEvent& event) { return !is_for_somebody(event); });
    events_sorted_at = std::max(events_sorted_at, 2 * events.size());
  }
  ClientEvent& entry = events.emplace_back();
  entry.client = id.client;
  mprdma_abi_cm_event& event = entry.event;
  event.type = type;
  event.id = id.id;
  event.status = status;
  event.cookie = id.cookie;
  event.port_space = id.port_space;
  fill(&event.local, id.local, id.local_port);
  fill(&event.remote, id.remote, id.remote_port);
  if (params != nullptr) event.params = *params;
  if (type == MPRDMA_ABI_CM_EVENT_REQUEST) {
    const CmId* listener = ids.find(id.listener_id);
    event.listener = id.listener_id;
    event.cookie = listener->cookie;
  }
}

// The event's id may have been destroyed since.
bool CmAgent::State::is_for_somebody(const ClientEvent& event) const {
  const CmId* id = ids.find(event.event.id);
  return id != nullptr && !id->orphan && id->client == event.client;
}

bool CmAgent::State::pop_event(ClientEvent* out_event) {
  while (!events.empty()) {
    *out_event = events.front();
    events.pop_front();
    if (!is_for_somebody(*out_event)) continue;
    if (out_event->event.type == MPRDMA_ABI_CM_EVENT_REQUEST) {
      ids.find(out_event->event.id)->delivered = true;
    }
    return true;
  }
  return false;
}

}  // namespace mprdma::dataplane
