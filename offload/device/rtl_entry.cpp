// The entry of libmprdma-rtl.so, which an engine loads (dataplane/engine/hardware_module.hpp).
#include "offload/device/rtl_hardware.hpp"

extern "C" [[gnu::visibility("default")]] mprdma::transport::Hardware* mprdma_open_hardware_1(
    const mprdma::transport::Params& params) {
  return new mprdma::offload::RtlHardware(params);
}
