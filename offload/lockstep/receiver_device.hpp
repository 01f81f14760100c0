// The verilated receiver (offload/rtl/mp_receiver.sv), a clock cycle at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "transport/stream/offload_receiver.hpp"

class Vmp_receiver;

namespace mprdma::offload {

template <class Top>
class VerilatedModule;

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

  [[nodiscard]] std::string text() const;
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
  [[nodiscard]] std::string text() const;
};

class ReceiverDevice {
 public:
  static constexpr uint32_t kConnections = 1024;

  // As of VerilatedModule.
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
  void record(const std::string& path);

 private:
  [[nodiscard]] ReceiverReply reply();

  std::unique_ptr<VerilatedModule<Vmp_receiver>> module_;
};

}  // namespace mprdma::offload
