// DPDK's environment (EAL) inside a process that is not ours: a library that an application loaded
// without knowing of DPDK.
//
// Started once, on a helper thread with all signals blocked, so that EAL's threads never run the
// application's handlers and the application's thread keeps its affinity. Nothing is printed; what
// EAL had to say is kept for the error message (MPRDMA_EAL_LOG=1 in the environment shows it all).
// It is never shut down, as DPDK cannot be started twice: at exit, only its files are removed, and
// only by the process that made them (not by a forked child).
#pragma once

#include <string>

#include "base/status.hpp"
#include "dataplane/port/dpdk/eal_telemetry.hpp"

namespace mprdma::dataplane {

struct EalOptions {
  std::string pci_address;  // empty: virtual devices only, the PCI bus is not touched
  bool hugepages = false;   // else ordinary memory, which needs no privilege
  unsigned memory_mb = 256;
  EalTelemetry* telemetry = nullptr;  // null: no telemetry socket
};

// Starts EAL unless it runs already. The first caller's options hold for the life of the process.
Status start_eal(const EalOptions& options);

// The last lines that DPDK logged, and forgets them. One line, for an error message.
std::string drain_eal_log();

}  // namespace mprdma::dataplane
