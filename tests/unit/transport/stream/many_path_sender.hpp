// A StreamSender on many paths, and the acknowledgements that a test lets it hear.
#pragma once

#include <cstdint>
#include <vector>

#include "base/fixed_point.hpp"
#include "base/prng.hpp"
#include "base/psn.hpp"
#include "base/units.hpp"
#include "transport/core/counters.hpp"
#include "transport/core/params.hpp"
#include "transport/stream/stream_sender.hpp"
#include "wire/packet.hpp"

namespace mprdma::transport::many_paths {

inline constexpr uint32_t kOne = Fixed16::kOneRaw;

// The paper's clock and no growth, so that windows are whole; no probing, no timers: a test
// switches on what it is about.
inline Params clocked_params(uint32_t window) {
  Params p;
  p.initial_window = window;
  p.window_max = window;
  p.loss_trigger = 0;
  p.path_policy = PathPolicy::kAckClocked;
  p.path_probe_per_mille = 0;
  p.loss_by_time = false;
  p.tail_probe = false;
  p.initial_rtt = Duration::us(10);
  p.rto_floor = Duration::ms(1);
  p.rto_ceiling = Duration::ms(10);
  return p;
}

class Stream {
 public:
  explicit Stream(const Params& params, uint64_t seed = 7) : sender(params, &counters) {
    sender.reset(first_, 50'000, Prng(seed));
    sender.on_backlog(now);  // as the first post does
  }

  Psn psn(int index) const { return first_ + static_cast<uint32_t>(index); }
  int index(Psn p) const { return first_.distance_to(p); }

  // Sends what may be sent, `count` packets at most; their paths.
  std::vector<uint16_t> send(int count = 1000, bool has_new = true) {
    std::vector<uint16_t> paths;
    while (static_cast<int>(paths.size()) < count) {
      const StreamSender::Choice choice = sender.choose(has_new);
      if (!choice.any()) break;
      last = choice;
      paths.push_back(sender.on_sent(now, choice));
    }
    return paths;
  }
  // Sends what may leave; returns the number of packets.
  int sends(int count = 1000, bool has_new = true) {
    return static_cast<int>(send(count, has_new).size());
  }

  void ack(int aack, int sack, uint16_t vp = 60'000, uint8_t flags = 0,
           wire::NackCode nack = wire::NackCode::kNone) {
    wire::Packet packet;
    packet.opcode = wire::Opcode::kMpAck;
    packet.psn = psn(aack);
    packet.vp = vp;
    packet.mp_ack.flags = static_cast<uint8_t>(flags | wire::kMpAckSackValid);
    packet.mp_ack.nack = nack;
    packet.mp_ack.sack = psn(sack);
    packet.mp_ack.echoed_timestamp = static_cast<uint32_t>((now - echo_age).ns());
    sender.on_ack(now, packet, backlog);
  }
  void overflow(int aack, int dropped, uint16_t vp = 60'000) {
    ack(aack, dropped, vp, 0, wire::NackCode::kWindowOverflow);
  }
  void pass(Duration time) { now += time; }
  void time_out() {
    now = sender.next_deadline(backlog);
    sender.on_deadline(now);
  }
  uint32_t window_raw() const { return sender.window().exact().raw(); }
  uint32_t window() const { return sender.window().packets(); }

  TransportCounters counters;
  StreamSender sender;
  StreamSender::Choice last;
  Time now = Time::from_ns(5'000'000);
  bool backlog = true;  // what the owner says at an acknowledgement
  Duration echo_age = Duration::us(10);

 private:
  Psn first_ = Psn(kPsnMask - 5);  // every test crosses the wrap
};

}  // namespace mprdma::transport::many_paths
