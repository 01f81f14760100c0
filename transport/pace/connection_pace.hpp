// Rate control of a connection: the reaction point, a controller that gives the rate (cc/rate.hpp)
// and the pacer that keeps it; while there is no limit, a packet costs a few predictable branches.
// And the notification point (notification_point.hpp).
//
// Params::congestion chooses the controller. The standard's mode always has a notification point,
// because the peer may have a controller of its own. For the same reason it obeys CNPs where no
// controller is chosen: by DCQCN with its paper's constants, which limits nothing before the first
// CNP.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.hpp"
#include "cc/rate.hpp"
#include "transport/core/params.hpp"
#include "transport/pace/notification_point.hpp"
#include "transport/pace/pacer.hpp"
#include "wire/packet.hpp"

namespace mprdma::transport {

// Bytes of the wire that a packet takes over IPv4 besides the transport's headers and its payload,
// as its rate counts them: preamble and start delimiter 8, Ethernet 14, IPv4 20, UDP 8, ICRC 4, FCS
// 4, gap 12.
inline constexpr uint32_t kOuterWireBytes = 8 + 14 + 20 + 8 + 4 + 4 + 12;

class ConnectionPace {
 public:
  // The queue pair connects or is reset: the rate is the controller's first one.
  void reset(const Params& params) {
    pacer_ = Pacer();
    on_ = params.congestion != Congestion::kNone;
    hears_acks_ = cc::hears_acks(params.congestion);
    rate_ = cc::Rate(controller_of(params), {.link_bps = uint64_t{params.link_mbps} * 1'000'000,
                                             .base_rtt = params.base_rtt,
                                             .rtt_low = params.timely_low,
                                             .rtt_high = params.timely_high});
    pacer_.follow(Time(), rate_.bps());
    const Duration named = rate_.cnp_interval();
    const bool always = params.protocol == Protocol::kRoce && named == Duration::infinite();
    notifications_.reset(always ? kCnpInterval : named);
  }
  // True if a rate controller was chosen.
  [[nodiscard]] bool controlled() const { return on_; }

  // ---- Reaction point. Immediate acknowledgements and CNPs are not paced; the keep-alive
  // acknowledgement of the mode mp waits for its turn, but takes none of the rate.
  [[nodiscard]] bool open() const { return pacer_.open(); }
  // The time at which paced packets may leave, or the rate may change.
  [[nodiscard]] Time deadline() const { return std::min(pacer_.deadline(), rate_.next_deadline()); }
  void on_time(Time now) {
    pacer_.on_time(now);
    if (rate_.next_deadline() <= now) [[unlikely]]
      follow_deadline(now);
  }
  void on_cnp(Time now) {
    rate_.on_cnp(now);
    pacer_.follow(now, rate_.bps());
  }
  // True if the controller wants to be told of round trips.
  [[nodiscard]] bool hears_acks() const { return hears_acks_; }
  void on_ack(const cc::AckSample& sample) {
    rate_.on_ack(sample);
    pacer_.follow(sample.now, rate_.bps());
  }
  // Accounts for any packet that has left.
  void on_sent(Time now, const wire::Packet& packet) {
    if (pacer_.limited()) [[unlikely]]
      pace(now, packet);
  }
  // The rate limit; 0: no limit.
  [[nodiscard]] uint64_t rate_bps() const { return pacer_.rate_bps(); }

  // ---- Notification point: NotificationPoint::due().
  bool cnp_due(Time now) { return notifications_.due(now); }

 private:
  // Of a link whose rate nobody has named, no half can be taken; the engine and the simulator name
  // it always.
  static Congestion controller_of(const Params& params) {
    const bool obeys = params.protocol == Protocol::kRoce && params.link_mbps != 0;
    return obeys && params.congestion == Congestion::kNone ? Congestion::kDcqcnPaper
                                                           : params.congestion;
  }
  void follow_deadline(Time now) {
    rate_.on_deadline(now);
    pacer_.follow(now, rate_.bps());
  }

  void pace(Time now, const wire::Packet& packet) {
    const wire::Operation operation = packet.info().operation;
    if (operation == wire::Operation::kAck || operation == wire::Operation::kCnp) return;
    const auto bytes = static_cast<uint32_t>(kOuterWireBytes + wire::header_bytes(packet)) +
                       packet.payload_len + wire::pad_bytes(packet.payload_len);
    rate_.on_sent(now, bytes);
    pacer_.follow(now, rate_.bps());
    if (pacer_.limited()) pacer_.on_sent(now, bytes);
  }

  Pacer pacer_;
  cc::Rate rate_;
  NotificationPoint notifications_;
  bool on_ = false;
  bool hears_acks_ = false;
};

}  // namespace mprdma::transport
