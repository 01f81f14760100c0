// The verilated receiver (offload/rtl/mp_receiver.sv), a clock cycle at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "transport/stream/offload_receiver.hpp"

class Vmp_receiver;
class VerilatedContext;
class VerilatedVcdC;

namespace mprdma::offload {

// A context as the memory holds it: slots, message number, rcv_nxt.
struct ReceiverContext {
  uint64_t slots_low = 0;
  uint64_t slots_high = 0;
  uint32_t msn = 0;
  uint32_t nxt = 0;

  bool operator==(const ReceiverContext&) const = default;
};

struct ReceiverRequest {
  uint32_t connection = 0;
  bool load = false;  // replaces the context; `packet` means nothing
  ReceiverContext context;
  transport::OffloadPacket packet;
};

struct ReceiverReply {
  uint32_t connection = 0;
  bool placed = false;
  bool duplicate = false;
  uint8_t nack = 0;
  bool behind_hole = false;
  uint64_t map = 0;
  uint32_t completions = 0;
  ReceiverContext context;

  bool operator==(const ReceiverReply&) const = default;
};

class ReceiverDevice {
 public:
  static constexpr uint32_t kConnections = 1024;

  // `seed`: of what the registers and the memory hold before the reset. `mutant`: which one, where
  // the RTL's mutants are built in (tests/offload); 0 is the RTL as it is.
  ReceiverDevice(int seed, uint32_t mutant);
  ~ReceiverDevice();
  ReceiverDevice(const ReceiverDevice&) = delete;
  ReceiverDevice& operator=(const ReceiverDevice&) = delete;

  struct Cycle {
    bool taken = false;  // the request was
    std::optional<ReceiverReply> reply;
  };
  // One cycle, in which `request` is offered, if there is one.
  Cycle step(const ReceiverRequest* request);
  // A cycle in reset, in which it is offered, too: true if it was taken.
  bool reset(const ReceiverRequest& request);
  // All signals, as VCD, from here on.
  void record(const std::string& path);
  [[nodiscard]] uint64_t cycles() const { return cycles_; }

 private:
  void settle(bool clock);
  [[nodiscard]] ReceiverReply reply() const;

  std::unique_ptr<VerilatedContext> context_;
  std::unique_ptr<Vmp_receiver> top_;
  std::unique_ptr<VerilatedVcdC> waveform_;
  uint64_t cycles_ = 0;
};

}  // namespace mprdma::offload
