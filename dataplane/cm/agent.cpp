#include "dataplane/cm/agent.hpp"

#include <variant>

#include "base/check.hpp"
#include "dataplane/cm/state.hpp"

namespace mprdma::dataplane {

size_t CmAgent::State::AddressHash::operator()(const wire::IpAddress& address) const {
  // Clients choose these, and their own ids bound how many there are: the port table's quality.
  return (load_be64(address.data()) ^ secret) * 0x9e3779b97f4a7c15 ^
         (load_be64(address.data() + 8) + secret) * 0xbf58476d1ce4e5b9;
}

CmAgent::State::State(const CmConfig& the_config)
    : config(the_config),
      prng(Prng(the_config.seed).split("cm agent")),
      ids(the_config.ids_max, the_config.seed),
      resolving(8, AddressHash{prng.next_u64()}) {}

void CmAgent::State::begin(Time time) {
  now = time;
  if (!wheel) wheel.emplace(time);
}

void CmAgent::State::on_mad(std::span<const unsigned char> bytes, const wire::IpAddress& from) {
  wire::CmMad mad;
  if (wire::decode_cm_mad(bytes, mad) != wire::MadDrop::kNone) {
    ++counters.cm_drop_malformed;
    return;
  }
  ++counters.cm_messages_received;
  const Origin origin{from, mad.transaction, mad.modifier};
  std::visit([&](const auto& message) { on_message(message, origin); }, mad.body);
}

CmId* CmAgent::State::find_connection(uint32_t comm_id, uint32_t remote_comm_id,
                                      const Origin& origin) {
  CmId* id = ids.find_comm(comm_id);
  if (id != nullptr && id->remote == origin.from && id->remote_comm_id == remote_comm_id &&
      remote_comm_id != 0) {
    return id;
  }
  return nullptr;
}

// ---- The interface

CmAgent::CmAgent(const CmConfig& config) : state_(std::make_unique<State>(config)) {
  CHECK(config.ids_max > 0);
}

CmAgent::~CmAgent() = default;

int CmAgent::execute(uint32_t client, const mprdma_abi_cm_command& in, mprdma_abi_cm_result* out,
                     Time now) {
  state_->begin(now);
  *out = {};
  return state_->execute(client, in, out);
}

bool CmAgent::has_connection(uint32_t client, uint32_t id) const {
  return state_->has_connection(client, id);
}

void CmAgent::forget_client(uint32_t client, Time now) {
  state_->begin(now);
  state_->forget_client(client);
}

void CmAgent::set_address(const CmConfig& config, Time now) {
  state_->begin(now);
  state_->set_address(config);
}

void CmAgent::on_mad(std::span<const unsigned char> bytes, const wire::IpAddress& from, Time now) {
  state_->begin(now);
  state_->on_mad(bytes, from);
}

void CmAgent::on_resolved(const wire::IpAddress& to, const wire::MacAddress* mac, Time now) {
  state_->begin(now);
  state_->on_resolved(to, mac);
}

void CmAgent::on_deadline(Time now) {
  state_->begin(now);
  state_->wheel->advance(
      now, [this](TimerNode& node) { state_->on_timer(*static_cast<CmId*>(node.owner)); });
}

bool CmAgent::poll_mad(OutgoingMad* out) {
  if (state_->out.empty()) return false;
  *out = state_->out.front();
  state_->out.pop_front();
  ++state_->counters.cm_messages_sent;
  return true;
}

bool CmAgent::poll_resolve(wire::IpAddress* out) {
  if (state_->unasked.empty()) return false;
  *out = *state_->unasked.begin();
  state_->unasked.erase(state_->unasked.begin());
  return true;
}

bool CmAgent::poll_event(ClientEvent* out) {
  return state_->pop_event(out);
}

Time CmAgent::next_deadline() const {
  return state_->wheel ? state_->wheel->next_deadline() : Time::never();
}

const CmCounters& CmAgent::counters() const {
  return state_->counters;
}

uint32_t CmAgent::ids_in_use() const {
  return state_->ids.size();
}

}  // namespace mprdma::dataplane
