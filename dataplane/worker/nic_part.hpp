// The NIC's part inside an engine: the worker's port as the host of neighbours and queue pair 1
// (mgmt/neighbours.hpp, mgmt/qp1.hpp), and the CM agent with the clients of this process. In a
// process that owns its port this is all there is; behind mprdmad the daemon answers as the only
// neighbour, and runs the agent.
//
// Called with the worker's lock held, for frames that are not of a connection, for timers and for
// commands.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "abi/mprdma_abi.h"
#include "base/ipv4.hpp"
#include "base/prng.hpp"
#include "base/units.hpp"
#include "dataplane/mgmt/neighbours.hpp"
#include "dataplane/mgmt/qp1.hpp"
#include "dataplane/port/loop_port.hpp"
#include "dataplane/port/tx_batch.hpp"
#include "dataplane/worker/address_handle.hpp"
#include "dataplane/worker/cm_clients.hpp"
#include "dataplane/worker/engine_counters.hpp"
#include "wire/frame.hpp"

namespace mprdma::dataplane {

class NicPart {
 public:
  // What the worker lends, for as long as it lives.
  struct Lent {
    wire::MacAddress mac{};
    Ipv4 ipv4{};
    uint32_t mtu = 4096;
    Port* port = nullptr;
    LoopPort* loop = nullptr;
    Prng* prng = nullptr;
    EngineCounters* counters = nullptr;
    WireDrops* drops = nullptr;
    void* worker = nullptr;
    // Called when a neighbour has a new Ethernet address, or is given up: the table tells which.
    void (*on_neighbour)(void* worker, const wire::IpAddress& ip) = nullptr;
    // Called by on_datagram() for one that negotiates the mode of a pair of queue pairs.
    void (*on_pair_mad)(void* worker, const wire::PairMad& mad, Time now,
                        TxBatch& answers) = nullptr;
  };

  explicit NicPart(const Lent& lent);

  [[nodiscard]] NeighbourTable& table() { return neighbours_.table(); }
  [[nodiscard]] CmClients& cm() { return cm_; }
  [[nodiscard]] Time next_deadline() const {
    return std::min(neighbours_.table().next_deadline(), cm_.next_deadline());
  }

  // ---- Frames in. Answers go where the frame came from.
  void on_arp(std::span<const unsigned char> frame, Time now, TxBatch& answers);
  void on_discovery(std::span<const unsigned char> frame, Time now, TxBatch& answers);
  // A frame to queue pair 1 of one of our addresses; `payload`: see Qp1::on_datagram().
  void on_datagram(const wire::DecodedFrame& decoded, const unsigned char* payload, bool from_loop,
                   Time now, TxBatch& answers);

  // Called when the link came up: announces the address and asks for neighbours again.
  void on_link_up(Time now);
  // Whether the functions below have something to do.
  [[nodiscard]] bool neighbours_due(Time now) const {
    return neighbours_.table().next_deadline() <= now;
  }
  [[nodiscard]] bool cm_due(Time now) const { return cm_.next_deadline() <= now; }
  // Do the work that is due. Require: no batch is open. True: there was some.
  bool serve_neighbours(Time now);
  bool serve_cm(Time now);
  // Called after a command to the CM agent: sends its messages and delivers its events.
  void settle_cm(Time now);

  // Sends a datagram of mode negotiation to the wire. False: there is no room.
  bool send_pair_mad(const wire::FrameAddress& to, uint16_t source_port, const wire::PairMad& mad,
                     TxBatch& batch);
  // Resolves an address handle: fills `address`, `path`, `loop` and `group` of *out. EINVAL: an
  // address that cannot be reached from here.
  int resolve_address(const mprdma_abi_create_ah& to, Time now, AddressHandle* out);

 private:
  class Out;

  static CmConfig cm_config(const Lent& lent);
  void resolve_for_cm(const wire::IpAddress& to, Time now);
  bool send_cm_mad(const CmAgent::OutgoingMad& mad, TxBatch& wire_batch, TxBatch& loop_batch,
                   Time now);

  Lent lent_;
  PortInfo port_info_;
  bool shared_;  // mprdmad is behind the port
  Neighbours neighbours_;
  Qp1 qp1_;
  CmClients cm_;
};

}  // namespace mprdma::dataplane
