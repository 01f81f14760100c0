// A StreamSender on one path, and the acknowledgements that a test lets it hear.
#pragma once

#include <cstdint>

#include "base/psn.hpp"
#include "base/units.hpp"
#include "transport/core/counters.hpp"
#include "transport/core/params.hpp"
#include "transport/stream/stream_sender.hpp"
#include "wire/packet.hpp"

namespace mprdma::transport {

inline Params params_with(uint32_t window, uint32_t window_max = 200) {
  Params p;
  p.initial_window = window;
  p.window_max = window_max;
  p.loss_trigger = 0;
  p.loss_by_time = false;
  p.tail_probe = false;
  p.limit_growth = false;
  p.path_policy = PathPolicy::kSingle;
  p.initial_rtt = Duration::us(10);
  p.rto_floor = Duration::us(500);
  p.rto_ceiling = Duration::ms(10);
  return p;
}

class Sender {
 public:
  explicit Sender(const Params& params, Psn first = Psn(1000)) : sender(params, &counters) {
    sender.reset(first);
    first_ = first;
  }

  // PSNs are told by their distance from the first.
  Psn psn(int index) const { return first_ + static_cast<uint32_t>(index); }
  int index(Psn p) const { return first_.distance_to(p); }

  // Sends what may be sent, `count` packets at most; returns how many.
  int send(int count = 1000, bool has_new = true) {
    int sent = 0;
    for (; sent < count; ++sent) {
      const StreamSender::Choice choice = sender.choose(has_new);
      if (!choice.any()) break;
      last = choice;
      sender.on_sent(now, choice);
    }
    return sent;
  }

  StreamSender::AckResult ack(int aack, int sack, uint8_t flags = 0,
                              wire::NackCode nack = wire::NackCode::kNone) {
    wire::Packet packet;
    packet.opcode = wire::Opcode::kMpAck;
    packet.psn = psn(aack);
    packet.mp_ack.flags = static_cast<uint8_t>(flags | wire::kMpAckSackValid);
    packet.mp_ack.nack = nack;
    packet.mp_ack.sack = psn(sack);
    packet.mp_ack.echoed_timestamp = static_cast<uint32_t>((now - rtt).ns());
    return sender.on_ack(now, packet, backlog);
  }
  StreamSender::AckResult overflow(int aack, int dropped) {
    return ack(aack, dropped, 0, wire::NackCode::kWindowOverflow);
  }
  uint32_t window_raw() const { return sender.window().exact().raw(); }

  TransportCounters counters;
  StreamSender sender;
  StreamSender::Choice last;
  Time now = Time::from_ns(5'000'000);
  Duration rtt = Duration::us(10);
  bool backlog = true;  // what the owner says at an acknowledgement

 private:
  Psn first_;
};

}  // namespace mprdma::transport
