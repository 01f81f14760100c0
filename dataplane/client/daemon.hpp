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

#include "abi/mprdma_abi.h"
#include "abi/mprdma_abi_cm.h"
#include "base/ipv4.hpp"
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

  // ---- Without the lock
  // CM: sends the command to the daemon and waits for the reply. ENOTCONN: the daemon is away or
  // does not answer.
  virtual int cm_execute(const mprdma_abi_client* client, const mprdma_abi_cm_command& in,
                         mprdma_abi_cm_result* out) = 0;
};

}  // namespace mprdma::dataplane
