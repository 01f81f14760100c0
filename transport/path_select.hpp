// On which virtual path (UDP source port) the packets of a stream leave (paper 3.2; design 3.1).
//
// kAckClocked: a packet needs a *clock*, the right to leave once. A clock has the path that an
// acknowledgement echoed, or none yet: then a random path is drawn when it is used. No state per
// path, ever. Hardware sends when the acknowledgement comes; software may find the wire busy or the
// application late, so unused clocks wait here in a short FIFO: random ones first, for they are
// the older ones, then by age. Clocks that were not used for 3 RTT keep their right, not their
// path. Under a policy without clocks (kSingle, kSpray: path_policies.hpp) the window alone
// decides.
//
// Who grants a clock, and how many, is the sender's affair (stream_sender.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>
#include <variant>

#include "base/check.hpp"
#include "base/prng.hpp"
#include "base/units.hpp"
#include "transport/path_policies.hpp"
#include "wire/constants.hpp"

namespace mprdma::transport {

class PathSelector {
 public:
  // Paths that are remembered at most; what is beyond is not granted now.
  static constexpr uint32_t kStoredMax = 128;

  explicit PathSelector(PathPolicy policy)
      : policy_(PathPolicies::make(policy)),
        clocked_(std::visit([](const auto& p) { return std::decay_t<decltype(p)>::kClocked; },
                            policy_)) {}

  // Forgets all clocks. `fixed_vp` is the path of kSingle, `prng` what random paths come from.
  void reset(uint16_t fixed_vp, const Prng& prng) {
    std::visit([fixed_vp](auto& p) { p.reset(fixed_vp); }, policy_);
    prng_ = prng;
    clear();
  }

  [[nodiscard]] bool clocked() const { return clocked_; }
  [[nodiscard]] uint32_t clocks() const { return random_ + stored_; }
  [[nodiscard]] uint32_t room() const { return kStoredMax - stored_; }

  // A clock on `vp`; requires room(). A port that is no path (a peer may echo anything) has none.
  void store(Time now, uint16_t vp) {
    DCHECK(stored_ < kStoredMax);
    if (vp < wire::kVirtualPathMin) return add_random(1);
    vps_[(head_ + stored_++) % kStoredMax] = vp;
    stored_at_ = now;
  }
  void add_random(uint32_t count) { random_ += count; }
  void clear() { random_ = stored_ = 0; }
  // Takes back `count` clocks, the oldest first.
  void drop(uint32_t count) {
    DCHECK(count <= clocks());
    const uint32_t of_random = count < random_ ? count : random_;
    random_ -= of_random;
    pop(count - of_random);
  }

  struct Taken {
    uint16_t vp;
    bool random;
  };
  // Uses one clock; requires clocks(). `stale_after`: see above.
  Taken take(Time now, Duration stale_after) {
    DCHECK(clocks() > 0);
    if (stored_ > 0 && now - stored_at_ > stale_after) {
      random_ += stored_;
      stored_ = 0;
    }
    if (random_ > 0) {
      --random_;
      return {draw(), true};
    }
    const uint16_t vp = vps_[head_];
    pop(1);
    return {vp, false};
  }

  // A path for what needs no clock.
  uint16_t draw() {
    return std::visit([this](auto& p) { return p.next(prng_); }, policy_);
  }
  [[nodiscard]] bool chance(uint32_t per_mille) { return prng_.chance(per_mille, 1000); }

 private:
  void pop(uint32_t count) {
    head_ = (head_ + count) % kStoredMax;
    stored_ -= count;
  }

  PathPolicies::Any policy_;
  bool clocked_;
  Prng prng_{0};
  uint32_t random_ = 0;  // clocks without a path
  uint32_t head_ = 0;
  uint32_t stored_ = 0;
  Time stored_at_;  // when the newest was
  std::array<uint16_t, kStoredMax> vps_{};
};

}  // namespace mprdma::transport
