// Commands about ids, addresses and ports; those about connections go to their own files.
#include <algorithm>
#include <cerrno>

#include "base/ipv4.hpp"
#include "dataplane/cm/state.hpp"

namespace mprdma::dataplane {

namespace {

constexpr uint8_t kAckTimeoutMax = 31;  // 5 bits

bool is_loopback(const wire::IpAddress& address) {
  return wire::is_mapped_ipv4(address) && wire::unmap_ipv4(address).value() >> 24 == 127;
}

// A group's Ethernet address follows from the group (RFC 1112, 6.4; RFC 2464, 7).
bool group_mac(const wire::IpAddress& address, uint8_t* mac) {
  if (wire::is_mapped_ipv4(address)) {
    const Ipv4 group = wire::unmap_ipv4(address);
    if (!wire::is_multicast_ipv4(group)) return false;
    const uint8_t bytes[6] = {0x01,
                              0x00,
                              0x5e,
                              static_cast<uint8_t>(group.value() >> 16 & 0x7f),
                              static_cast<uint8_t>(group.value() >> 8),
                              static_cast<uint8_t>(group.value())};
    std::copy(std::begin(bytes), std::end(bytes), mac);
    return true;
  }
  if (address[0] != 0xff) return false;
  mac[0] = mac[1] = 0x33;
  std::copy(address.begin() + 12, address.end(), mac + 2);
  return true;
}

}  // namespace

CmId* CmAgent::State::find_of(uint32_t client, uint32_t number) const {
  CmId* id = ids.find(number);
  return id != nullptr && !id->orphan && id->client == client ? id : nullptr;
}

// From the time at which the queue pair may receive until the end is under way.
bool CmAgent::State::has_connection(uint32_t client, uint32_t number) const {
  const CmId* id = find_of(client, number);
  return id != nullptr && (id->state == CmState::kAccepted || id->state == CmState::kConnected ||
                           id->state == CmState::kHungUp);
}

int CmAgent::State::execute(uint32_t client, const mprdma_abi_cm_command& in,
                            mprdma_abi_cm_result* result) {
  if (in.op == MPRDMA_ABI_CM_CREATE) return create(client, in, result);
  CmId* id = find_of(client, in.id);
  if (id == nullptr) return ENOENT;
  if (in.op == MPRDMA_ABI_CM_DESTROY) {
    destroy(*id);
    return 0;
  }
  const int error = execute_on(*id, in, result);
  result->id = id->id;
  std::copy(id->local.begin(), id->local.end(), result->local.ip);
  result->local.port = id->local_port;
  return error;
}

int CmAgent::State::execute_on(CmId& id, const mprdma_abi_cm_command& in,
                               mprdma_abi_cm_result* /*result*/) {
  switch (in.op) {
    case MPRDMA_ABI_CM_BIND:
      if (id.state != CmState::kIdle) return EINVAL;
      return bind(id, address_of(in.local), in.local.port);
    case MPRDMA_ABI_CM_RESOLVE:
      return resolve(id, in);
    case MPRDMA_ABI_CM_LISTEN:
      return listen(id, in.backlog);
    case MPRDMA_ABI_CM_CONNECT:
      return connect(id, in.params);
    case MPRDMA_ABI_CM_ACCEPT:
      return accept(id, in);
    case MPRDMA_ABI_CM_ESTABLISH:
      return establish(id, in.params);
    case MPRDMA_ABI_CM_REJECT:
      return reject(id, in);
    case MPRDMA_ABI_CM_DISCONNECT:
      return disconnect(id);
    case MPRDMA_ABI_CM_NOTIFY:
      return notify(id);
    case MPRDMA_ABI_CM_SET_OPTION:
      return set_option(id, in.option, in.value);
    case MPRDMA_ABI_CM_SET_COOKIE:
      id.cookie = in.cookie;
      return 0;
    default:
      return EINVAL;
  }
}

int CmAgent::State::create(uint32_t client, const mprdma_abi_cm_command& in,
                           mprdma_abi_cm_result* result) {
  if (!CmPortTable::is_space(in.port_space)) return EINVAL;
  // Orphaned connections are removed for a new id.
  if (CmId* orphan = ids.oldest_orphan(); ids.full() && orphan != nullptr) end_of(*orphan);
  // A client that owns more ids than are left is refused, so that others get some.
  if (ids.count_of(client) > ids.room()) return ENOMEM;
  CmId* id = ids.add();
  if (id == nullptr) return ENOMEM;
  ids.give_to(*id, client);
  id->cookie = in.cookie;
  id->port_space = in.port_space;
  result->id = id->id;
  return 0;
}

int CmAgent::State::bind(CmId& id, const wire::IpAddress& wanted, uint16_t port) {
  if (id.has_port) return EINVAL;
  // A loopback address means the device's own, as in resolve(): the host's own name often resolves
  // to one.
  const wire::IpAddress& address = is_loopback(wanted) ? config.address : wanted;
  if (!is_any(address) && !is_own(address)) return EADDRNOTAVAIL;
  // An IPv4 address is bound for IPv4 alone unless the option says otherwise, as in Linux (cma.c).
  if (!id.family_said) id.family_only = is_ipv4(address);
  const CmPortTable::Claim claim{.id = id.id,
                                 .address = address,
                                 .reuse = id.reuse_address,
                                 .family_only = id.family_only,
                                 .listening = false};
  uint16_t given = port;
  const int error = port != 0 ? ports.bind(id.port_space, port, claim)
                              : ports.bind_free(id.port_space, config.port_min, config.port_max,
                                                claim, prng, &given);
  if (error != 0) return error;
  id.local = address;
  id.local_port = given;
  id.has_port = true;
  return 0;
}

void CmAgent::State::release_port(CmId& id) {
  if (id.has_port) ports.release(id.port_space, id.local_port, id.id);
  id.has_port = false;
}

int CmAgent::State::resolve(CmId& id, const mprdma_abi_cm_command& in) {
  if (id.state != CmState::kIdle) return EINVAL;
  wire::IpAddress remote = address_of(in.remote);
  if (is_any(remote) || is_loopback(remote)) remote = config.address;
  if (is_ipv4(remote) != is_ipv4(config.address)) return ENETUNREACH;
  if (!id.has_port) {
    const wire::IpAddress local = address_of(in.local);
    const int error = bind(id, is_any(local) ? config.address : local, in.local.port);
    if (error != 0) return error;
  }
  to_idle(id);  // whoever it was connected to
  id.local = config.address;
  id.remote = remote;
  id.remote_port = in.remote.port;
  uint8_t mac[6];
  if (group_mac(remote, mac)) {
    id.state = CmState::kResolved;
    emit(id, MPRDMA_ABI_CM_EVENT_ADDRESS_RESOLVED);
    std::copy(std::begin(mac), std::end(mac), events.back().event.remote_mac);
    return 0;
  }
  id.state = CmState::kResolving;
  const auto [waiting, fresh] = resolving.try_emplace(remote);
  waiting->second.insert(id.id);
  if (fresh) unasked.insert(remote);
  set_timer(id, Duration::ms(in.timeout_ms));
  return 0;
}

void CmAgent::State::stop_resolving(CmId& id) {
  stop_timer(id);
  id.state = CmState::kIdle;
  const auto waiting = resolving.find(id.remote);
  waiting->second.erase(id.id);
  if (!waiting->second.empty()) return;
  unasked.erase(id.remote);
  resolving.erase(waiting);
}

void CmAgent::State::on_resolved(const wire::IpAddress& to, const wire::MacAddress* mac) {
  const auto found = resolving.find(to);
  if (found == resolving.end()) return;
  const std::unordered_set<uint32_t> waiting = std::move(found->second);
  resolving.erase(found);
  unasked.erase(to);
  for (const uint32_t number : waiting) {
    CmId& id = *ids.find(number);
    stop_timer(id);
    id.state = mac != nullptr ? CmState::kResolved : CmState::kIdle;
    if (mac == nullptr) {
      emit(id, MPRDMA_ABI_CM_EVENT_ADDRESS_ERROR, -EHOSTUNREACH);
      continue;
    }
    emit(id, MPRDMA_ABI_CM_EVENT_ADDRESS_RESOLVED);
    std::copy(mac->begin(), mac->end(), events.back().event.remote_mac);
  }
}

int CmAgent::State::listen(CmId& id, uint32_t backlog) {
  if (id.state != CmState::kIdle) return EINVAL;
  if (!id.has_port) {
    const int error = bind(id, wire::map_ipv4(Ipv4{}), 0);
    if (error != 0) return error;
  }
  const int error = ports.listen(id.port_space, id.local_port, id.id);
  if (error != 0) return error;
  id.listener = std::make_unique<CmListener>();
  id.listener->backlog =
      backlog == 0 ? config.backlog_default : std::min(backlog, config.backlog_default);
  id.state = CmState::kListening;
  return 0;
}

int CmAgent::State::set_option(CmId& id, uint32_t option, uint32_t value) {
  switch (option) {
    case MPRDMA_ABI_CM_OPTION_TOS:
      if (value > UINT8_MAX) return EINVAL;
      id.traffic_class = static_cast<uint8_t>(value);
      return 0;
    case MPRDMA_ABI_CM_OPTION_REUSEADDR:
      if (value > 1 || id.state == CmState::kListening) return EINVAL;
      id.reuse_address = value != 0;
      if (id.has_port) ports.set_reuse(id.port_space, id.local_port, id.id, value != 0);
      return 0;
    case MPRDMA_ABI_CM_OPTION_AFONLY:
      if (value > 1 || id.state != CmState::kIdle || id.has_port) return EINVAL;
      id.family_only = value != 0;
      id.family_said = true;
      return 0;
    case MPRDMA_ABI_CM_OPTION_ACK_TIMEOUT:
      if (value > kAckTimeoutMax) return EINVAL;
      id.ack_timeout = static_cast<uint8_t>(value);
      id.has_ack_timeout = true;
      return 0;
    default:
      return EINVAL;
  }
}

void CmAgent::State::set_address(const CmConfig& now_config) {
  const wire::IpAddress old = config.address;
  config.address = now_config.address;
  config.ipv4 = now_config.ipv4;
  config.node_guid = now_config.node_guid;
  config.path_mtu = now_config.path_mtu;
  if (old == config.address) return;
  ids.for_each([&](CmId& id) {
    if (id.local == old) emit(id, MPRDMA_ABI_CM_EVENT_ADDRESS_CHANGE);
  });
}

}  // namespace mprdma::dataplane
