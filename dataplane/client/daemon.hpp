// An engine's view of the daemon behind its port (mprdmad; client/protocol.hpp): the device, the
// engine's block of queue pair numbers, and access to the CM agent that the daemon runs for all
// processes of a host.
//
// The daemon may go away and come back; the engine stays. While it is away the transport's time
// stands still (transport_clock.hpp). Port::daemon() gives this; it lives as long as the port.
//
// "Lock" is the worker's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "abi/mprdma_abi.h"
#include "abi/mprdma_abi_cm.h"
#include "base/ipv4.hpp"
#include "base/qpn.hpp"
#include "dataplane/port/tx_batch.hpp"
#include "dataplane/qpn.hpp"
#include "wire/ethernet.hpp"

namespace mprdma::dataplane {

// The device that this process is part of.
struct DaemonDevice {
  Ipv4 ipv4{};
  uint32_t prefix_bits = 32;
  wire::MacAddress mac{};
  uint32_t mtu = 0;  // the largest path MTU
};

// A port whose other end is another process of the device (protocol.hpp, "Direct rings").
struct DirectRing {
  DirectRing(const QpBlock& of, std::unique_ptr<Port> its) : peers(of), port(std::move(its)) {}

  QpBlock peers;  // the queue pairs of the process at the other end
  std::unique_ptr<Port> port;
  // The worker's: frames of the burst that is being sent, and how many queue pairs send here. A
  // ring stays where it is as long as there is one.
  TxBatch batch{port.get(), true};
  uint32_t users = 0;
  bool up = false;
};

enum class RingState : uint8_t {
  kNone,    // there is none, and none is on its way
  kComing,  // asked for: up within some milliseconds, or refused
  kUp,
};

class Daemon {
 public:
  virtual ~Daemon() = default;
  Daemon() = default;
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Never changes: a daemon that returns with another device is rejected.
  [[nodiscard]] virtual DaemonDevice device() const = 0;

  // ---- With the lock held
  // A new block after a reconnect means that the old numbers belong to another process.
  [[nodiscard]] virtual QpBlock block() const = 0;
  // True while the daemon is away and expected back.
  [[nodiscard]] virtual bool away() const = 0;
  // CM_OPEN. Events of ids that the client makes go there, from within Port::service().
  virtual int cm_open(const mprdma_abi_client* client, const mprdma_abi_cm_open& open) = 0;
  // Destroys the client's ids and stops its events. Does not wait.
  virtual void cm_forget(const mprdma_abi_client* client) = 0;

  // The direct ring to the process that has this queue pair. `ask`: one that is not there is asked
  // for.
  virtual RingState ring_state(Qpn /*peer*/, bool /*ask*/) { return RingState::kNone; }
  // nullptr: there is none, or it is not up.
  [[nodiscard]] virtual DirectRing* ring_to(Qpn /*peer*/) { return nullptr; }
  // All that are up. Valid until Port::service().
  [[nodiscard]] virtual std::span<DirectRing* const> rings() { return {}; }
  // Changes whenever a ring_state() has changed, other than by `ask`.
  [[nodiscard]] virtual uint64_t ring_changes() const { return 0; }
  // From now on there are none: for a wire that is to have faults.
  virtual void refuse_rings() {}

  // ---- Without the lock
  // CM: sends the command to the daemon and waits for the reply. ENOTCONN: the daemon is away or
  // does not answer.
  virtual int cm_execute(const mprdma_abi_client* client, const mprdma_abi_cm_command& in,
                         mprdma_abi_cm_result* out) = 0;
};

}  // namespace mprdma::dataplane
