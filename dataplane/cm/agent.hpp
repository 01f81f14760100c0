// The CM agent of a device: connections are made and ended by management datagrams between the
// queue pairs 1 of two devices (IBTA 12), on behalf of clients that each have communication ids
// (abi/mprdma_abi_cm.h, where states, commands and events are described).
//
// Pure: no clock, thread, socket or allocation beyond its tables; time is an argument. The agent
// runs in the engine of a process that owns the wire, and in mprdmad for all processes of a host,
// so that the peers of a killed process are told at once. The host moves datagrams: on_mad() in,
// poll_mad() out; resolves addresses: poll_resolve() out, on_resolved() in; and delivers
// poll_event().
//
// Robust against whatever comes: each message is checked against the state that it is for (12.9.5
// to 12.9.8); duplicates are answered as before; a REQ to a listener from the QPN of an existing
// connection, but with another id, is stale (12.9.8.3.1); a message that fits no state is counted.
// After the response timeout a message is sent again, up to the retry count; then the event is
// UNREACHABLE. A DREQ has a timeout and retry count of its own; DISCONNECTED follows them.
// If the client does not answer a request in a quarter of the peer's timeout, the agent sends an
// MRA.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "abi/mprdma_abi_cm.h"
#include "base/counters.hpp"
#include "base/ipv4.hpp"
#include "base/prng.hpp"
#include "base/units.hpp"
#include "wire/ethernet.hpp"
#include "wire/ip_address.hpp"
#include "wire/mad.hpp"

namespace mprdma::dataplane {

struct CmConfig {
  wire::IpAddress address{};  // of the device: IPv4-mapped
  Ipv4 ipv4{};
  uint64_t node_guid = 0;     // network order, as the queue ABI has it
  uint8_t path_mtu = 5;       // enum ibv_mtu
  uint16_t port_min = 32768;  // of those that BIND chooses, as Linux does
  uint16_t port_max = 60999;
  uint32_t ids_max = 16384;         // of all clients together
  uint32_t backlog_default = 1024;  // for LISTEN with 0, and the maximum, as in Linux
  uint8_t response_timeout = 20;    // 4.096 us * 2^n: about 4.3 s, as Linux
  uint8_t retries = 15;
  Duration time_wait = Duration::s(2);
  uint64_t seed = 0;
};

#define MPRDMA_CM_COUNTERS(X)                                         \
  X(cm_requests_sent, "REQ and SIDR_REQ sent, repetitions included")  \
  X(cm_requests_received, "REQ and SIDR_REQ received")                \
  X(cm_messages_sent, "messages of any kind sent")                    \
  X(cm_messages_received, "messages of any kind received")            \
  X(cm_repeated, "messages sent again for want of an answer")         \
  X(cm_duplicates, "messages that had come before")                   \
  X(cm_rejected, "requests that were rejected here")                  \
  X(cm_stale, "requests of a connection that the peer has forgotten") \
  X(cm_established, "connections made")                               \
  X(cm_drop_malformed, "datagrams of the class that cannot be read")  \
  X(cm_drop_unexpected, "messages that no connection of ours expects")
MPRDMA_DEFINE_COUNTERS(CmCounters, MPRDMA_CM_COUNTERS);

class CmAgent {
 public:
  struct OutgoingMad {
    wire::IpAddress to{};
    uint8_t traffic_class = 0;
    std::array<unsigned char, wire::kMadBytes> bytes{};
  };
  struct ClientEvent {
    uint32_t client = 0;
    mprdma_abi_cm_event event{};
  };

  explicit CmAgent(const CmConfig& config);
  ~CmAgent();
  CmAgent(const CmAgent&) = delete;
  CmAgent& operator=(const CmAgent&) = delete;

  // ---- Commands. `client`: the host's number for the asking client. 0 or an errno value.
  int execute(uint32_t client, const mprdma_abi_cm_command& in, mprdma_abi_cm_result* out,
              Time now);
  // Removes a client: its listeners end, requests to it are rejected, its connections are ended.
  void forget_client(uint32_t client, Time now);
  // Changes the device's address: ids bound to the old one get ADDRESS_CHANGE.
  void set_address(const CmConfig& config, Time now);

  // True if the client has this id, with a connection that its packets may belong to.
  [[nodiscard]] bool has_connection(uint32_t client, uint32_t id) const;

  // ---- Facts
  void on_mad(std::span<const unsigned char> bytes, const wire::IpAddress& from, Time now);
  // `mac`: Ethernet address of the next hop; nullptr: unreachable.
  void on_resolved(const wire::IpAddress& to, const wire::MacAddress* mac, Time now);
  void on_deadline(Time now);

  // ---- Work. False: nothing more. poll_mad() is asked until it gives false, or until the wire is
  // full; what was taken and could not be sent is repeated by the agent's own timers.
  bool poll_mad(OutgoingMad* out);
  // Asks for the device's own address, too: the answer is the device's own Ethernet address.
  bool poll_resolve(wire::IpAddress* out);
  bool poll_event(ClientEvent* out);
  [[nodiscard]] Time next_deadline() const;

  [[nodiscard]] const CmCounters& counters() const;
  [[nodiscard]] uint32_t ids_in_use() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mprdma::dataplane
