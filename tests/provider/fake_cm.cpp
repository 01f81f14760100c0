#include "tests/provider/fake_cm.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace mprdma::provider_test {
namespace {

constexpr uint32_t kNoService = 8;  // reason of a REJ: invalid service id
constexpr std::array<uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr std::array<uint8_t, 4> kOwn{10, 73, 0, 1};
constexpr std::array<uint8_t, 4> kSilent{10, 73, 0, 99};
constexpr std::array<uint8_t, 4> kLoopback{127, 0, 0, 1};

bool is(const mprdma_abi_cm_address& address, const std::array<uint8_t, 4>& ip) {
  return std::memcmp(address.ip, kMapped.data(), kMapped.size()) == 0 &&
         std::memcmp(address.ip + kMapped.size(), ip.data(), ip.size()) == 0;
}

bool is_any(const mprdma_abi_cm_address& address) {
  static constexpr std::array<uint8_t, 16> kZero{};
  return is(address, {}) || std::memcmp(address.ip, kZero.data(), kZero.size()) == 0;
}

mprdma_abi_cm_address own(uint16_t port) {
  mprdma_abi_cm_address address{};
  std::copy(kMapped.begin(), kMapped.end(), address.ip);
  std::copy(kOwn.begin(), kOwn.end(), address.ip + kMapped.size());
  address.port = port;
  return address;
}

bool is_datagram(const FakeCmId& id) {
  return id.port_space == MPRDMA_ABI_CM_PS_UDP || id.port_space == MPRDMA_ABI_CM_PS_IPOIB;
}

}  // namespace

int FakeCm::open(const void* owner, const mprdma_abi_cm_open& client) {
  return clients_.emplace(owner, client).second ? 0 : EINVAL;
}

void FakeCm::forget(const void* owner) {
  clients_.erase(owner);
  std::erase_if(ids_, [owner](const auto& entry) { return entry.second.owner == owner; });
}

void FakeCm::tell(uint32_t number, const FakeCmId& id, uint32_t type, int status,
                  const mprdma_abi_cm_params* params) {
  mprdma_abi_cm_event event{};
  event.type = type;
  event.id = number;
  event.status = status;
  event.cookie = id.cookie;
  event.local = id.local;
  event.remote = id.remote;
  event.port_space = id.port_space;
  if (params != nullptr) event.params = *params;
  id.client.on_event(id.client.context, &event);
}

bool FakeCm::raise(uint32_t type, uint32_t id) {
  const auto found = ids_.find(id);
  if (found == ids_.end()) return false;
  tell(found->first, found->second, type);
  return true;
}

int FakeCm::bind(FakeCmId& id, mprdma_abi_cm_address local) {
  if (id.state != FakeCmState::kIdle) return EINVAL;
  if (!is_any(local) && !is(local, kOwn)) return EADDRNOTAVAIL;
  if (local.port == 0) local.port = next_port_++;
  for (const auto& [number, other] : ids_) {
    if (other.local.port == local.port && other.port_space == id.port_space && other.peer == 0 &&
        !(other.reuses && id.reuses)) {
      return EADDRINUSE;
    }
  }
  id.local = local;
  id.state = FakeCmState::kBound;
  return 0;
}

int FakeCm::resolve(uint32_t number, FakeCmId& id, const mprdma_abi_cm_command& in) {
  const bool silent = is(in.remote, kSilent);
  const bool loops = is(in.remote, kLoopback);
  if (!silent && !loops && !is(in.remote, kOwn)) return ENETUNREACH;
  const int error = id.state == FakeCmState::kIdle ? bind(id, in.local) : 0;
  if (error != 0) return error;
  if (is_any(id.local)) id.local = own(id.local.port);
  id.remote = loops ? own(in.remote.port) : in.remote;
  if (silent) {
    tell(number, id, MPRDMA_ABI_CM_EVENT_ADDRESS_ERROR, -ETIMEDOUT);
    return 0;
  }
  id.state = FakeCmState::kResolved;
  tell(number, id, MPRDMA_ABI_CM_EVENT_ADDRESS_RESOLVED);
  return 0;
}

int FakeCm::connect(uint32_t number, FakeCmId& id, const mprdma_abi_cm_command& in) {
  if (id.state != FakeCmState::kResolved) return EINVAL;
  id.state = FakeCmState::kConnecting;
  const auto listener = std::ranges::find_if(ids_, [&id](const auto& entry) {
    return entry.second.state == FakeCmState::kListening &&
           entry.second.local.port == id.remote.port && entry.second.port_space == id.port_space;
  });
  if (listener == ids_.end()) {
    tell(number, id,
         is_datagram(id) ? MPRDMA_ABI_CM_EVENT_UNREACHABLE : MPRDMA_ABI_CM_EVENT_REJECTED,
         is_datagram(id) ? 1 : static_cast<int>(kNoService));
    return 0;
  }
  const FakeCmId& from = listener->second;
  FakeCmId child{from.owner, from.client, 0, from.port_space, FakeCmState::kRequested};
  child.peer = number;
  child.local = id.remote;
  child.remote = id.local;
  id.peer = next_;
  mprdma_abi_cm_event event{};
  event.type = MPRDMA_ABI_CM_EVENT_REQUEST;
  event.id = next_;
  event.listener = listener->first;
  event.cookie = from.cookie;
  event.local = child.local;
  event.remote = child.remote;
  event.port_space = from.port_space;
  event.params = in.params;
  ids_.emplace(next_++, child);
  from.client.on_event(from.client.context, &event);
  return 0;
}

int FakeCm::accept(uint32_t number, FakeCmId& id, const mprdma_abi_cm_command& in) {
  const auto peer = ids_.find(id.peer);
  if (id.state != FakeCmState::kRequested || peer == ids_.end()) return EINVAL;
  id.cookie = in.cookie;
  id.state = is_datagram(id) ? FakeCmState::kIdle : FakeCmState::kAccepted;
  peer->second.state = is_datagram(id) ? FakeCmState::kIdle : FakeCmState::kResponded;
  peer->second.peer = is_datagram(id) ? 0 : number;
  tell(peer->first, peer->second,
       is_datagram(id) ? MPRDMA_ABI_CM_EVENT_ESTABLISHED : MPRDMA_ABI_CM_EVENT_RESPONSE, 0,
       &in.params);
  return 0;
}

int FakeCm::establish(FakeCmId& id) {
  const auto peer = ids_.find(id.peer);
  if (id.state != FakeCmState::kResponded || peer == ids_.end()) return EINVAL;
  id.state = FakeCmState::kConnected;
  if (peer->second.state != FakeCmState::kAccepted) return 0;  // NOTIFY came first
  peer->second.state = FakeCmState::kConnected;
  tell(peer->first, peer->second, MPRDMA_ABI_CM_EVENT_ESTABLISHED);
  return 0;
}

int FakeCm::reject(FakeCmId& id, const mprdma_abi_cm_command& in) {
  const auto peer = ids_.find(id.peer);
  if (id.state != FakeCmState::kRequested && id.state != FakeCmState::kResponded) return EINVAL;
  id.state = FakeCmState::kIdle;
  if (peer == ids_.end()) return 0;
  peer->second.state = FakeCmState::kIdle;
  tell(peer->first, peer->second, MPRDMA_ABI_CM_EVENT_REJECTED, static_cast<int>(in.reason),
       &in.params);
  return 0;
}

int FakeCm::disconnect(uint32_t number, FakeCmId& id) {
  if (id.state == FakeCmState::kIdle && id.peer != 0) return 0;  // it answers the peer's DREQ
  if (id.state != FakeCmState::kConnected) return EINVAL;
  for (const uint32_t one : {number, id.peer}) {
    const auto found = ids_.find(one);
    if (found == ids_.end()) continue;
    found->second.state = FakeCmState::kIdle;
    tell(one, found->second, MPRDMA_ABI_CM_EVENT_DISCONNECTED);
  }
  return 0;
}

// Notifies the waiting thread.
void FakeCm::end(uint32_t number, FakeCmId& id) {
  const auto peer = ids_.find(id.peer);
  const FakeCmState was = std::exchange(id.state, FakeCmState::kIdle);
  if (peer != ids_.end() && peer->second.state != FakeCmState::kIdle) {
    peer->second.state = FakeCmState::kIdle;
    const bool connected = was == FakeCmState::kConnected;
    tell(peer->first, peer->second,
         connected ? MPRDMA_ABI_CM_EVENT_DISCONNECTED : MPRDMA_ABI_CM_EVENT_REJECTED,
         connected ? 0 : 28);
  }
  ids_.erase(number);
}

int FakeCm::dispatch(uint32_t number, FakeCmId& id, const mprdma_abi_cm_command& in) {
  switch (in.op) {
    case MPRDMA_ABI_CM_DESTROY:
      end(number, id);
      return 0;
    case MPRDMA_ABI_CM_BIND:
      return bind(id, in.local);
    case MPRDMA_ABI_CM_RESOLVE:
      return resolve(number, id, in);
    case MPRDMA_ABI_CM_LISTEN:
      if (id.state != FakeCmState::kBound) return EINVAL;
      id.state = FakeCmState::kListening;
      return 0;
    case MPRDMA_ABI_CM_CONNECT:
      return connect(number, id, in);
    case MPRDMA_ABI_CM_ACCEPT:
      return accept(number, id, in);
    case MPRDMA_ABI_CM_ESTABLISH:
      return establish(id);
    case MPRDMA_ABI_CM_REJECT:
      return reject(id, in);
    case MPRDMA_ABI_CM_DISCONNECT:
      return disconnect(number, id);
    case MPRDMA_ABI_CM_NOTIFY:
      if (id.state != FakeCmState::kAccepted) return EINVAL;
      id.state = FakeCmState::kConnected;
      tell(number, id, MPRDMA_ABI_CM_EVENT_ESTABLISHED);
      return 0;
    case MPRDMA_ABI_CM_SET_OPTION:
      if (in.option == MPRDMA_ABI_CM_OPTION_REUSEADDR) id.reuses = in.value != 0;
      return 0;
    default:
      return EINVAL;
  }
}

int FakeCm::execute(const void* owner, const mprdma_abi_cm_command& in, mprdma_abi_cm_result& out) {
  const auto client = clients_.find(owner);
  if (client == clients_.end()) return EINVAL;
  last_[in.op] = in;
  if (fail_op_ == in.op) {
    fail_op_ = 0;
    return fail_error_;
  }
  if (in.op == MPRDMA_ABI_CM_CREATE) {
    out.id = next_++;
    ids_.emplace(out.id, FakeCmId{owner, client->second, in.cookie, in.port_space});
    return 0;
  }
  const auto found = ids_.find(in.id);
  if (found == ids_.end() || found->second.owner != owner) return ENOENT;
  const int error = dispatch(found->first, found->second, in);
  const auto still = ids_.find(in.id);
  if (still != ids_.end()) out.local = still->second.local;
  return error;
}

}  // namespace mprdma::provider_test
