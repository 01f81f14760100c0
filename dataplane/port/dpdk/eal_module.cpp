#include "dataplane/port/dpdk/eal_module.hpp"

#include <cerrno>
#include <utility>

#include "dataplane/port/dpdk/ethdev_device.hpp"
#include "dataplane/port/dpdk/ethdev_port.hpp"

namespace mprdma::dataplane {

extern "C" __attribute__((visibility("default"))) void mprdma_eal_open_port(uint32_t version,
                                                                            std::string_view text,
                                                                            EalTelemetry* telemetry,
                                                                            PortResult* result) {
  if (version != kEalModuleVersion) {
    *result = PortResult::failure(
        EPROTO,
        "libmprdma-eal.so is of another version than the library that loads it; install both "
        "from one build");
    return;
  }
  EthdevSpec spec;
  Status status = parse_ethdev_spec(text, &spec);
  spec.eal.telemetry = telemetry;
  *result = status.ok() ? EthdevPort::open(spec) : PortResult::failure(std::move(status));
}

}  // namespace mprdma::dataplane
