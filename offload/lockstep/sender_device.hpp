// The verilated sender (offload/rtl/mp_sender.sv), a clock cycle at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "transport/stream/offload_context.hpp"
#include "transport/stream/offload_sender.hpp"

class Vmp_sender;

namespace mprdma::offload {

template <class Top>
class VerilatedModule;

// What the sender keeps of a connection, but for the timer's times. Of the context the receiver's
// slots mean nothing, and the credits are all, with a path or without.
struct SenderState {
  transport::OffloadContext context;
  uint32_t una = 0;
  uint32_t nxt = 0;
  uint32_t backoff = 0;

  bool operator==(const SenderState&) const = default;
  [[nodiscard]] std::string text() const;
};

struct SenderRequest {
  enum class Kind : uint8_t { kLoad, kAck, kBurst, kTimeout, kPost, kWake, kAsk, kNext };

  uint32_t connection = 0;
  Kind kind = Kind::kLoad;
  SenderState state;  // of a load
  int64_t now_ns = 0;
  bool has_new = false;
  bool explore = false;  // drawn
  uint16_t path = 0;     // drawn
  transport::OffloadAck ack;

  [[nodiscard]] std::string text() const;
};

struct SenderReply {
  uint32_t connection = 0;
  bool refused = false;
  uint32_t packet = 0;  // 0 none, 1 new, 2 copy, 3 probe
  uint32_t psn = 0;     // of the packet
  uint16_t vp = 0;
  bool restarts = false;
  bool progresses = false;
  SenderState state;

  bool operator==(const SenderReply&) const = default;
  [[nodiscard]] std::string text() const;
};

// Of all connections.
struct SenderSettings {
  uint32_t initial_window = 16;  // packets
  uint32_t max_window = 64;
  uint32_t delta = 32;

  bool operator==(const SenderSettings&) const = default;
};

class SenderDevice {
 public:
  static constexpr uint32_t kConnections = 1024;

  // As of VerilatedModule.
  SenderDevice(int seed, uint32_t mutant, const SenderSettings& settings);
  ~SenderDevice();
  SenderDevice(const SenderDevice&) = delete;
  SenderDevice& operator=(const SenderDevice&) = delete;

  struct Cycle {
    bool taken = false;  // the request was
    std::optional<SenderReply> reply;
  };
  // One cycle, in which `request` is offered, if there is one.
  Cycle step(const SenderRequest* request);
  // A cycle in reset, in which it is offered, too: true if it was taken.
  bool reset(const SenderRequest& request);
  void record(const std::string& path);

 private:
  struct Maps {
    uint32_t connection = 0;
    transport::OffloadContext context;  // the maps of it
  };

  void give(const SenderRequest& request);
  [[nodiscard]] SenderReply reply();

  std::unique_ptr<VerilatedModule<Vmp_sender>> module_;
  std::deque<Maps> maps_;  // that were written before their answers
};

}  // namespace mprdma::offload
