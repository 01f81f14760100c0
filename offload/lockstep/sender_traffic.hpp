// Events of many connections for the lock-step of the sender, with what OffloadSender answers: each
// as a list of requests, the event and the packets that leave then.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "base/prng.hpp"
#include "offload/lockstep/sender_device.hpp"
#include "transport/core/params.hpp"

namespace mprdma::offload {

class SenderTraffic {
 public:
  struct Step {
    SenderRequest request;
    SenderReply reply;
  };

  SenderTraffic(uint64_t seed, uint32_t connections);

  [[nodiscard]] const SenderSettings& settings() const { return settings_; }
  // The next request of any connection, until it is taken.
  const Step& next();
  // The request that next() gave was taken.
  void take();
  // The connection's context is not defined any more.
  void forget(uint32_t connection);
  // Now and then no request is offered, or the device is reset.
  bool rests() { return prng_.chance(1, 8); }
  bool resets() { return prng_.chance(1, 5000); }

 private:
  // The draws of an event are inputs of the device.
  struct Draw {
    bool drawn_explore = false;
    uint16_t drawn_path = 0;
    [[nodiscard]] bool explore() const { return drawn_explore; }
    [[nodiscard]] uint16_t path() const { return drawn_path; }
  };
  using Reference = transport::OffloadSender<Draw>;
  struct Connection {
    bool loaded = false;
    transport::OffloadContext context;
    transport::RoceSender roce;
    std::deque<Step> steps;
  };

  uint32_t below(uint32_t n) { return static_cast<uint32_t>(prng_.below(n)); }
  uint16_t path();
  void make(uint32_t index);
  void load(uint32_t index);
  SenderState any_state();
  transport::OffloadContext any_maps(uint32_t span);
  uint32_t any_time();
  transport::OffloadAck any_ack(const Connection& c);
  // Steps of one event; the packets follow.
  void event(uint32_t index, SenderRequest::Kind kind);
  void happen(Reference& sender, const SenderRequest& request, SenderReply* reply) const;
  void send(uint32_t index, SenderRequest request, Reference& sender, Draw* draw);
  void add(uint32_t index, const SenderRequest& request, const Reference& after, SenderReply reply);
  bool may_have_new(const transport::RoceSender& roce);

  Prng prng_;
  SenderSettings settings_;
  transport::Params params_;
  std::vector<Connection> connections_;
  std::optional<uint32_t> offered_;
  Time now_;
};

}  // namespace mprdma::offload
