// One communication id, which a client names by a number, with its connection, if any. States are
// the standard's (IBTA 12.9.5, 12.9.6) under the names of abi/mprdma_abi_cm.h; the side that asked
// is active, the other one passive.
//
// An id whose client destroyed it before the peer was told lives on as an orphan: no command finds
// it, it gets no events, and it is removed after TIME WAIT.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_set>

#include "base/qpn.hpp"
#include "base/timing_wheel.hpp"
#include "base/units.hpp"
#include "wire/cm_mad.hpp"
#include "wire/ip_address.hpp"

namespace mprdma::dataplane {

enum class CmState : uint8_t {
  kIdle,  // with or without a port
  kResolving,
  kResolved,
  kListening,
  kConnecting,     // active: REQ sent
  kResponded,      // active: REP received, the client has still to say ESTABLISH
  kRequested,      // passive: REQ received, the client has still to answer
  kAccepted,       // passive: REP sent
  kConnected,      // either
  kDisconnecting,  // DREQ sent
  kHungUp,         // DREQ received, DREP not sent yet
  kTimeWait,
  kSidrAsking,     // active: SIDR_REQ sent
  kSidrRequested,  // passive: SIDR_REQ received
};

struct CmListener {
  uint32_t backlog = 0;
  std::unordered_set<uint32_t> waiting;  // requests without an answer so far
};

struct CmId {
  TimerNode timer;
  uint32_t id = 0;
  uint32_t client = 0;
  uint64_t cookie = 0;
  uint32_t port_space = 0;
  CmState state = CmState::kIdle;

  // ---- Addresses and options
  wire::IpAddress local{};
  wire::IpAddress remote{};  // datagrams of the connection come from there and nowhere else
  uint16_t local_port = 0;
  uint16_t remote_port = 0;
  bool has_port = false;  // local_port is claimed by this id; a child shares its listener's
  bool reuse_address = false;
  bool family_only = false;  // bound for its own address family alone
  bool family_said = false;  // family_only was set by OPTION_AFONLY, not derived from the address
  bool has_ack_timeout = false;
  uint8_t ack_timeout = 0;
  uint8_t traffic_class = 0;

  // ---- Requests
  std::unique_ptr<CmListener> listener;  // of a listener
  uint32_t listener_id = 0;              // listener of a request that waits for an answer
  bool delivered = false;                // the client has taken the REQUEST event

  // ---- Connection
  uint32_t comm_id = 0;  // on the wire: another one for each attempt; 0: none
  uint32_t remote_comm_id = 0;
  Qpn local_qpn{};
  Qpn remote_qpn{};
  uint64_t transaction = 0;
  wire::CmService service = wire::CmService::kRc;
  uint8_t path_mtu = 0;
  bool passive = false;
  bool ended = false;        // a connection existed: a second DISCONNECT is no error
  bool mra_heard = false;    // the peer has asked for time since the message was sent
  bool mra_said = false;     // we have
  bool knows_comm = false;   // found by the peer's communication id
  bool knows_qpn = false;    // found by the peer's queue pair
  bool knows_sidr = false;   // found by the peer's request id
  uint8_t retries = 0;       // of each message but a DREQ
  uint8_t retries_left = 0;  // of the one under way
  Duration timeout;          // the peer's, for an answer (to a DREQ: agent.hpp)
  Duration patience;         // ours, before we ask the peer for time
  // The last message that may be sent again: REQ, REP, RTU, DREQ, SIDR_REQ, SIDR_REP.
  std::array<unsigned char, wire::kMadBytes> message{};

  bool counted = false;  // included in the client's count of ids
  bool orphan = false;
  std::list<uint32_t>::iterator orphan_place;
};

}  // namespace mprdma::dataplane
