#include "dataplane/eal_module.hpp"

#include <cerrno>
#include <string>

#include "dataplane/ethdev_device.hpp"
#include "dataplane/ethdev_port.hpp"

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
  std::string message;
  const int error = parse_ethdev_spec(text, &spec, &message);
  spec.eal.telemetry = telemetry;
  *result = error != 0 ? PortResult::failure(error, message) : EthdevPort::open(spec);
}

}  // namespace mprdma::dataplane
