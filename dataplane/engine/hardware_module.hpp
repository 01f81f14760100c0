// Loads the device that keeps sending halves (transport/stream/hardware.hpp): libmprdma-rtl.so, the
// verilated SmartNIC, from beside the engine's own library or from the build tree.
#pragma once

#include <memory>

#include "base/status.hpp"
#include "transport/core/params.hpp"
#include "transport/stream/hardware.hpp"

namespace mprdma::dataplane {

// An error says what is missing. Never unloaded.
Status load_hardware(const transport::Params& params, std::unique_ptr<transport::Hardware>* out);

}  // namespace mprdma::dataplane
