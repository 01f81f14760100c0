// The verilated sender as the device of an engine (transport/stream/hardware.hpp): one module for
// all streams, each of which is a connection of it. A request takes its cycles in the caller's
// time.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "offload/lockstep/sender_device.hpp"
#include "transport/core/params.hpp"
#include "transport/stream/hardware.hpp"

namespace mprdma::offload {

// The module and its connections. Any thread.
class RtlModule {
 public:
  explicit RtlModule(const SenderSettings& settings);

  // UINT32_MAX: all are in use.
  uint32_t take_connection();
  void give_back(uint32_t connection);
  SenderReply run(const SenderRequest& request);

 private:
  std::mutex mutex_;
  SenderDevice device_;
  std::vector<uint32_t> free_;
};

class RtlHardware : public transport::Hardware {
 public:
  // Requires parameters that fit (transport::fits_offload()).
  explicit RtlHardware(const transport::Params& params);

  // nullptr also for other windows than those of the constructor, which are the module's, and for
  // an L that is not 64.
  std::unique_ptr<transport::HardwareSender> open_sender(const transport::Params& params) override;

 private:
  SenderSettings settings_;
  std::shared_ptr<RtlModule> module_;
};

}  // namespace mprdma::offload
