// The pacer: a rate in, the time at which the next packet may leave out. It knows neither packets
// nor where the rate comes from (connection_pace.hpp).
//
// After a packet the next one waits for as long as the packet takes at the rate. The pacer keeps
// nanoseconds per byte, so a packet costs a multiplication and only a new rate costs a division. A
// host that comes late may catch up for kPaceSlack, because otherwise the granularity of its timers
// would limit the rate.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.hpp"
#include "base/units.hpp"

namespace mprdma::transport {

// Slack for the engine's timers, which are exact to 4.1 us, and a burst of its worker, which takes
// a few microseconds more.
inline constexpr Duration kPaceSlack = Duration::us(16);

class Pacer {
 public:
  // True if a paced packet may leave.
  [[nodiscard]] bool open() const { return open_at_.is_never(); }
  // The time at which the pacer opens; never while it is open.
  [[nodiscard]] Time deadline() const { return open_at_; }
  void on_time(Time now) {
    if (open_at_ <= now) open_at_ = Time::never();
  }

  [[nodiscard]] bool limited() const { return rate_bps_ != 0; }
  // 0: no limit.
  [[nodiscard]] uint64_t rate_bps() const { return rate_bps_; }
  // Sets the rate for the packets from now on; 0: no limit.
  void follow(Time now, uint64_t rate_bps) {
    if (rate_bps == rate_bps_) return;
    if (!limited()) {
      due_ = now;
      due_fraction_ = 0;
    }
    rate_bps_ = rate_bps;
    if (limited()) ns_per_byte_ = (uint64_t{8'000'000'000} << kFractionBits) / rate_bps;
  }
  // Accounts for a paced packet of `bytes` of the wire that leaves now. Requires limited().
  void on_sent(Time now, uint32_t bytes) {
    DCHECK(limited());
    const uint64_t gap = bytes * ns_per_byte_ + due_fraction_;
    due_fraction_ = static_cast<uint32_t>(gap & ((1U << kFractionBits) - 1));
    due_ =
        std::max(due_, now - kPaceSlack) + Duration::ns(static_cast<int64_t>(gap >> kFractionBits));
    if (due_ > now) open_at_ = due_;
  }

 private:
  // Format of nanoseconds here: 44.20 fixed point.
  static constexpr uint32_t kFractionBits = 20;

  uint64_t rate_bps_ = 0;
  uint64_t ns_per_byte_ = 0;
  uint32_t due_fraction_ = 0;
  Time due_ = Time::never();      // departure of the next packet if every one leaves on time
  Time open_at_ = Time::never();  // no paced packet leaves before
};

}  // namespace mprdma::transport
