// Opens a port from one line of text, as it stands in a configuration:
//
//   local:PATH[,slots=N][,role=auto|listen|dial]
//       LocalPort: the wire between two processes that name the same socket PATH. slots: frames of
//       our own, a power of two from 256 to 4096 (default 1024).
//   ethdev:DEVARGS[,KEY=VALUE...]
//       EthdevPort: a DPDK device that this process owns, DEVARGS as DPDK's --vdev takes them
//       (net_virtio_user0,path=S,server=1; net_af_packet0,iface=eth1; ...) or a PCI address.
//       Loads libmprdma-eal.so, and starts DPDK's EAL in this process.
//   daemon:PATH
//       DaemonPort: a part of the device of the mprdmad that listens at PATH. Address, Ethernet
//       address and MTU are the daemon's.
//
// Any thread may call this; it may block for the second that DPDK takes to start.
#pragma once

#include <string_view>

#include "dataplane/port/dpdk/eal_telemetry.hpp"
#include "dataplane/port/port_result.hpp"

namespace mprdma::dataplane {

inline constexpr std::string_view kDaemonPortPrefix = "daemon:";

// `telemetry` answers DPDK's telemetry socket if this port starts EAL; otherwise the socket does
// not exist. `engine`: the caller reads bare packets, which a LocalPort then takes
// (wire/bare_packet.hpp).
PortResult open_port(std::string_view spec, EalTelemetry* telemetry = nullptr, bool engine = false);

}  // namespace mprdma::dataplane
