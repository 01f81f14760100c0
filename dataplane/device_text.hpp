// Checks of device names and path MTUs, for the configuration of an engine and of mprdmad. No
// state; any thread.
#pragma once

#include <cstdint>
#include <string>

namespace mprdma::dataplane {

// 1024, 2048 or 4096 bytes.
bool valid_mtu(uint64_t mtu);
// 1 to 63 letters, digits, '_' and '-'.
bool valid_device_name(const std::string& name);

}  // namespace mprdma::dataplane
