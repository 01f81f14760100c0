// The parts of a CmAgent, by concern: commands.cpp, active.cpp, passive.cpp, ending.cpp, sidr.cpp,
// timers.cpp, events.cpp and agent.cpp, which hands datagrams to their handlers.
//
// Rules that all of them keep:
// - A handler finds its id, compares the sender's address with the connection's, then the state.
// - `id` is dangling after end_of(): whoever calls it returns.
// - Every state that waits for somebody has a timer, except those that wait for the client.
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/qpn.hpp"
#include "dataplane/cm/agent.hpp"
#include "dataplane/cm/id.hpp"
#include "dataplane/cm/id_table.hpp"
#include "dataplane/cm/port_table.hpp"

namespace mprdma::dataplane {

struct CmAgent::State {
  using Remote = CmIdTable::Remote;

  // Source of a message.
  struct Origin {
    wire::IpAddress from{};
    uint64_t transaction = 0;
    uint32_t modifier = 0;
  };

  // Limits of the queue for the wire. Messages beyond a limit are dropped: the agents' timers
  // repeat them.
  enum class Room : uint8_t {
    kAnswer,  // answers to duplicates and strangers, whose number is unbounded
    kOwn,     // messages of our own connections
  };
  static constexpr size_t kAnswersMax = 1024;
  // Share of the id table that requests without a client's answer may use.
  static constexpr uint32_t kRequestsShare = 2;

  explicit State(const CmConfig& the_config);

  // ---- agent.cpp: the host's calls
  void begin(Time time);
  void on_mad(std::span<const unsigned char> bytes, const wire::IpAddress& from);
  void drop_unexpected() { ++counters.cm_drop_unexpected; }
  // The connection that a message names, if it comes from the peer; nullptr: counted.
  CmId* find_connection(uint32_t comm_id, uint32_t remote_comm_id, const Origin& origin);

  // ---- commands.cpp: ids, addresses, ports
  int execute(uint32_t client, const mprdma_abi_cm_command& in, mprdma_abi_cm_result* result);
  // nullptr: no such id of this client.
  [[nodiscard]] CmId* find_of(uint32_t client, uint32_t number) const;
  [[nodiscard]] bool has_connection(uint32_t client, uint32_t number) const;
  int execute_on(CmId& id, const mprdma_abi_cm_command& in, mprdma_abi_cm_result* result);
  int create(uint32_t client, const mprdma_abi_cm_command& in, mprdma_abi_cm_result* result);
  int bind(CmId& id, const wire::IpAddress& address, uint16_t port);
  int resolve(CmId& id, const mprdma_abi_cm_command& in);
  int listen(CmId& id, uint32_t backlog);
  int set_option(CmId& id, uint32_t option, uint32_t value);
  void release_port(CmId& id);
  void stop_resolving(CmId& id);
  void on_resolved(const wire::IpAddress& to, const wire::MacAddress* mac);
  void set_address(const CmConfig& now_config);
  [[nodiscard]] bool is_own(const wire::IpAddress& address) const {
    return address == config.address;
  }

  // ---- active.cpp
  int connect(CmId& id, const mprdma_abi_cm_params& params);
  int establish(CmId& id, const mprdma_abi_cm_params& params);
  void on_message(const wire::CmRep& rep, const Origin& origin);
  void on_repeated_rep(CmId& id);
  void on_message(const wire::CmMra& mra, const Origin& origin);

  // ---- passive.cpp
  void on_message(const wire::CmReq& req, const Origin& origin);
  void on_repeated_req(CmId& id, const Origin& origin);
  void refuse(const wire::CmReq& req, const Origin& origin, wire::CmRejectReason reason,
              std::span<const unsigned char> info = {});
  // The listener for a valid request. nullptr: the request was refused.
  CmId* check_request(const wire::CmReq& req, const Origin& origin, wire::CmIpHeader* header);
  // A new id for a request to the listener; nullptr: there is no room.
  CmId* add_request(CmId& listener, const wire::IpAddress& from, const wire::CmIpHeader& header);
  void end_request(CmId& id);  // it waits no longer
  int accept(CmId& id, const mprdma_abi_cm_command& in);
  void on_message(const wire::CmRtu& rtu, const Origin& origin);
  void established(CmId& id, const wire::CmPrivate* data);
  int notify(CmId& id);
  void ask_for_time(CmId& id, Room room);  // MRA

  // ---- ending.cpp
  int reject(CmId& id, const mprdma_abi_cm_command& in);
  int disconnect(CmId& id);
  void destroy(CmId& id);
  void end_listener(CmId& id);
  void forget_client(uint32_t client);
  void on_message(const wire::CmRej& rej, const Origin& origin);
  void on_message(const wire::CmDreq& dreq, const Origin& origin);
  void on_message(const wire::CmDrep& drep, const Origin& origin);
  void send_rej(CmId& id, uint32_t reason, const mprdma_abi_cm_params* params = nullptr);
  void send_dreq(CmId& id);
  void send_drep(const CmId& id, uint64_t transaction, Room room = Room::kOwn);
  void to_idle(CmId& id);       // no connection any more
  void to_time_wait(CmId& id);  // IBTA 12.9.8.4
  void end_of(CmId& id);        // the id itself is gone
  bool stale(const wire::IpAddress& from, Qpn qpn, const CmId* besides);

  // ---- sidr.cpp
  int ask_service(CmId& id, const mprdma_abi_cm_params& params);
  int answer_service(CmId& id, uint8_t status, const mprdma_abi_cm_params& params);
  void on_message(const wire::CmSidrReq& req, const Origin& origin);
  void on_message(const wire::CmSidrRep& rep, const Origin& origin);

  // ---- timers.cpp
  void set_timer(CmId& id, Duration after);
  void stop_timer(CmId& id);
  void on_timer(CmId& id);
  void on_last_repetition(CmId& id);
  // Keeps the message, sends it, and sends it again until the state changes.
  void send_repeatedly(CmId& id, const wire::CmMad& mad);
  // Keeps the message as the answer to the peer's duplicates.
  void send_and_keep(CmId& id, const wire::CmMad& mad);
  void send_kept(const CmId& id, Room room);
  void send(const CmId& id, const wire::CmMad& mad, Room room = Room::kOwn);
  void answer(const Origin& origin, const wire::CmBody& body);
  void put_out(const OutgoingMad& mad, Room room);

  // ---- events.cpp
  void emit(CmId& id, mprdma_abi_cm_event_type type, int status = 0,
            const mprdma_abi_cm_params* params = nullptr);
  bool pop_event(ClientEvent* out);
  [[nodiscard]] bool is_for_somebody(const ClientEvent& event) const;

  CmConfig config;
  CmCounters counters;
  Prng prng;
  CmIdTable ids;
  CmPortTable ports;
  std::optional<TimingWheel> wheel;  // made by the first call, which brings the time
  Time now;
  uint32_t requests_waiting = 0;
  std::deque<OutgoingMad> out;
  std::deque<ClientEvent> events;
  size_t events_sorted_at = 1024;  // at this size, events of destroyed ids are removed
  // Addresses being resolved, with the ids that wait; addresses not passed to the host yet.
  struct AddressHash {
    uint64_t secret = 0;
    size_t operator()(const wire::IpAddress& address) const;
  };
  std::unordered_map<wire::IpAddress, std::unordered_set<uint32_t>, AddressHash> resolving;
  std::set<wire::IpAddress> unasked;
};

// ---- Values of params and messages (events.cpp)

bool private_fits(const mprdma_abi_cm_params& params, size_t room);
void copy_private(const mprdma_abi_cm_params& params, wire::CmPrivate* out);
void copy_private(const wire::CmPrivate& in, mprdma_abi_cm_params* out, size_t skip = 0);
// rdma_cm's header with the id's addresses, and the application's own data behind it.
void add_ip_header(const CmId& id, const mprdma_abi_cm_params& params, wire::CmPrivate* out);
// 4.096 us * 2^exponent, limited to the longest time that this agent waits.
Duration cm_timeout(uint8_t exponent);
// The GUID of the wire as a number in host order.
uint64_t guid_number(uint64_t guid_in_network_order);
wire::IpAddress address_of(const mprdma_abi_cm_address& in);

}  // namespace mprdma::dataplane
