// What congestion control adds to a connection of the mode `roce`: the pace of what it sends (the
// reaction point of DCQCN, cc/dcqcn.hpp) and its word to the peer that something came marked (the
// notification point). Off unless Params::congestion says so; then each packet costs one
// predictable branch.
//
// Pace: after a packet the next one waits for as long as the packet takes at the rate. Nanoseconds
// per byte are kept, so a packet costs a multiplication; a division is for a new rate only. A host
// that comes late may catch up for kPaceSlack, or its own granularity would be the rate.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.hpp"
#include "cc/dcqcn.hpp"
#include "transport/params.hpp"
#include "wire/packet.hpp"

namespace mprdma::transport {

// The engine's timers are exact to 4.1 us, and a burst of its worker takes a few more.
inline constexpr Duration kPaceSlack = Duration::us(16);

// Bytes of the wire that a packet takes over IPv4, as its rate counts them: preamble and start
// delimiter 8, Ethernet 14, IPv4 20, UDP 8, ICRC 4, FCS 4, gap 12, and the transport's headers.
inline constexpr uint32_t kOuterWireBytes = 8 + 14 + 20 + 8 + 4 + 4 + 12;

class RatePacer {
 public:
  // The queue pair connects, or forgets: no limit.
  void reset(const Params& params) {
    on_ = params.congestion != Congestion::kNone;
    open_at_ = due_ = next_cnp_ = Time::never();
    limited_ = false;
    if (!on_) return;
    constants_ = &constants_of(params.congestion);
    dcqcn_.reset(*constants_, uint64_t{params.link_mbps} * 1'000'000);
    next_cnp_ = Time();
  }

  // ---- Reaction point
  // A packet that counts may leave.
  [[nodiscard]] bool open() const { return open_at_.is_never(); }
  // When it opens; never while it is open.
  [[nodiscard]] Time deadline() const { return open_at_; }
  void on_time(Time now) {
    if (open_at_ <= now) open_at_ = Time::never();
  }
  void on_cnp(Time now) {
    if (!on_) return;
    if (!limited_) {
      due_ = now;
      due_fraction_ = 0;
    }
    dcqcn_.on_cnp(now);
    follow_rate();
  }
  // Acknowledgements do not count.
  void on_sent(Time now, const wire::Packet& packet) {
    if (limited_) [[unlikely]]
      pace(now, packet);
  }
  // 0: no limit.
  [[nodiscard]] uint64_t rate_bps() const { return limited_ ? dcqcn_.rate_bps() : 0; }

  // ---- Notification point
  // A marked packet came: is a CNP due?
  bool take_cnp(Time now) {
    if (now < next_cnp_) return false;
    next_cnp_ = now + constants_->cnp_interval;
    return true;
  }

 private:
  // Nanoseconds in this format: 44.20.
  static constexpr uint32_t kFractionBits = 20;

  static constexpr const cc::DcqcnConstants& constants_of(Congestion congestion) {
    return cc::dcqcn_constants(congestion == Congestion::kDcqcnPaper ? cc::DcqcnPreset::kPaper
                                                                     : cc::DcqcnPreset::kTuned);
  }

  void follow_rate() {
    limited_ = dcqcn_.limited();
    ns_per_byte_ = (uint64_t{8'000'000'000} << kFractionBits) / dcqcn_.rate_bps();
  }

  void pace(Time now, const wire::Packet& packet) {
    if (packet.info().operation == wire::Operation::kAck) return;
    const auto bytes = static_cast<uint32_t>(kOuterWireBytes + wire::header_bytes(packet)) +
                       packet.payload_len + wire::pad_bytes(packet.payload_len);
    const bool timer = dcqcn_.on_time(now);
    if (dcqcn_.on_bytes(bytes) || timer) follow_rate();
    if (!limited_) return;
    const uint64_t gap = bytes * ns_per_byte_ + due_fraction_;
    due_fraction_ = static_cast<uint32_t>(gap & ((1U << kFractionBits) - 1));
    due_ =
        std::max(due_, now - kPaceSlack) + Duration::ns(static_cast<int64_t>(gap >> kFractionBits));
    if (due_ > now) open_at_ = due_;
  }

  cc::Dcqcn dcqcn_;
  const cc::DcqcnConstants* constants_ = nullptr;
  uint64_t ns_per_byte_ = 0;
  uint32_t due_fraction_ = 0;
  bool on_ = false;
  bool limited_ = false;
  Time due_ = Time::never();       // of the next packet, if all were on time
  Time open_at_ = Time::never();   // nothing that counts leaves before
  Time next_cnp_ = Time::never();  // none is made before; off: never
};

}  // namespace mprdma::transport
