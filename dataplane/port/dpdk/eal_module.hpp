// The one entry point of libmprdma-eal.so, which holds everything that needs DPDK and is loaded
// only when a process owns an ethdev. Both sides come from one build: the seam's version says so.
#pragma once

#include <cstdint>
#include <string_view>

#include "dataplane/port/dpdk/eal_telemetry.hpp"
#include "dataplane/port/port_result.hpp"

namespace mprdma::dataplane {

// Raise the version when Port, PortResult or this function change.
inline constexpr uint32_t kEalModuleVersion = 4;
inline constexpr const char* kEalModuleFile = "libmprdma-eal.so";
inline constexpr const char* kEalModuleEntry = "mprdma_eal_open_port";

// Opens the device that `spec` names (without "ethdev:"). `telemetry`: null, or the object that
// answers DPDK's telemetry socket from then on.
using EalOpenPort = void(uint32_t version, std::string_view spec, EalTelemetry* telemetry,
                         PortResult* result);

}  // namespace mprdma::dataplane
