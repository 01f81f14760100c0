// A device that keeps the sending halves of streams, as hardware would: it has the offload context,
// takes events, and says which packet leaves on which path. A StreamSender with such a half asks it
// at every event and keeps what it answers (stream_sender_hardware.cpp); the rest of a connection,
// its work requests, memory and packets, stays in software.
//
// What the device does is OffloadSender's step, bit by bit. Any thread may call; one at a time for
// each half.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/psn.hpp"
#include "base/units.hpp"
#include "transport/core/qp_config.hpp"
#include "transport/stream/offload_ack.hpp"
#include "transport/stream/offload_context.hpp"

namespace mprdma::transport {

class HardwareSender {
 public:
  // In the order of in_kind of offload/rtl/mp_sender.sv.
  enum class Kind : uint8_t { kLoad, kAck, kBurst, kTimeout, kPost, kWake, kAsk, kNext };

  // What a half holds: the context, and what a plain RoCE connection has (RoceSender) but for its
  // timer.
  struct State {
    OffloadContext context;
    Psn una;
    Psn nxt;
    uint32_t backoff = 0;
  };
  struct Event {
    Kind kind = Kind::kNext;
    Time now;
    bool has_new = false;  // there is a packet for snd_nxt, which may leave
    bool explore = false;  // drawn
    uint16_t path = 0;     // drawn
    OffloadAck ack = {};   // of kAck
  };
  struct Answer {
    bool refused = false;  // the acknowledgement cannot be true
    std::optional<OffloadPacketOut> packet;
    bool restarts = false;    // silence counts from now
    bool progresses = false;  // so do retries
    State state;
  };

  HardwareSender() = default;
  virtual ~HardwareSender() = default;
  HardwareSender(const HardwareSender&) = delete;
  HardwareSender& operator=(const HardwareSender&) = delete;

  virtual void load(Time now, const State& state) = 0;
  virtual Answer step(const Event& event) = 0;

  Time told_at;  // of the last load or event; the stream's own, which has no room for it
};

class Hardware {
 public:
  Hardware() = default;
  virtual ~Hardware() = default;
  Hardware(const Hardware&) = delete;
  Hardware& operator=(const Hardware&) = delete;

  // nullptr: all halves are in use, and the stream stays in software.
  virtual std::unique_ptr<HardwareSender> open_sender(const Params& params) = 0;
};

// The half for a stream with these parameters; nullptr: it stays in software.
inline std::unique_ptr<HardwareSender> open_half(const Device& device, const Params& params) {
  if (device.hardware == nullptr || !fits_offload(params)) return nullptr;
  return device.hardware->open_sender(params);
}

}  // namespace mprdma::transport
