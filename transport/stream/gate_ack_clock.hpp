// The ACK clock of MP-RDMA (paper 3.2 to 3.5; design 3.1): a packet needs a *credit*, the right to
// leave once. A credit has the path that an acknowledgement echoed, or none; in that case the path
// policy draws a random one when it is used. There is no state per path.
//
// Hardware sends when the acknowledgement comes; software may find the wire busy or the application
// late, so unused credits wait here in a short FIFO: those without a path first, because they are
// mostly the older ones, then by age; a retransmission takes one with a path first. A credit that
// was unused for 3 RTT, and what spaces packets in each, loses its path but stays valid.
//
// What the window allows beyond the credits (burst control held it back, or an acknowledgement was
// lost) leaves without a path once no acknowledgement came for half an RTT.
//
// Room of packets that were lost, or whose acknowledgement was, becomes credits without a path
// [deviation], one for each acknowledgement beside its own: so what a dead path held spreads over
// all that are left, and does not pile up where the next acknowledgements come from.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/check.hpp"
#include "base/units.hpp"

namespace mprdma::transport {

class AckClock {
 public:
  static constexpr std::string_view kName = "ack-clock";
  static constexpr bool kClocked = true;
  // Most credits with a path that the FIFO holds.
  static constexpr uint32_t kStoredMax = 128;

  [[nodiscard]] uint32_t credits() const { return pathless_ + stored_; }
  [[nodiscard]] uint32_t with_path() const { return stored_; }
  [[nodiscard]] uint32_t pathless() const { return pathless_; }
  template <class Facts>
  [[nodiscard]] bool open(const Facts&) const {
    return credits() > 0;
  }

  void note_ack(Time now) { burst_base_ = now; }
  void note_orphans(uint32_t packets) { orphans_ = std::min(orphans_ + packets, kStoredMax); }
  // If `vp` is 0, the credits have no path.
  template <class Facts>
  bool on_ack(Time now, uint16_t vp, const Facts& f, uint32_t most) {
    note_ack(now);
    const uint32_t allowed = room(f);
    uint32_t granted = std::min(allowed, most);
    if (orphans_ > 0 && granted > 1) {
      --orphans_;
      --granted;
      ++pathless_;
    }
    for (uint32_t n = std::min(granted, kStoredMax - stored_); n > 0; --n) store(now, vp);
    return allowed > 0;
  }
  // Credits never exceed the free room of the window, and when no packet is in flight, so that no
  // acknowledgement can grant one, the whole window may leave on random paths.
  template <class Facts>
  void update(const Facts& f, bool work) {
    const uint32_t used = f.in_flight() + credits();
    const uint32_t window = f.window();
    if (used > window && !f.exceeds_window()) drop(std::min(used - window, credits()));
    const bool under_way = !f.idle() && (!f.exact() || f.in_flight() > 0);
    if (under_way || (work && credits() > 0)) return;
    orphans_ = 0;
    pathless_ += std::max(room(f), credits() == 0 ? 1u : 0u);
  }
  template <class Facts>
  void refill(const Facts& f) {
    orphans_ = 0;
    pathless_ += room(f);
  }
  template <class Facts>
  void restart(const Facts& f) {
    clear();
    refill(f);
  }
  // Acknowledgements fail to come, so the stored paths may be dead.
  template <class Facts>
  void on_timeout(const Facts& f) {
    clear();
    pathless_ = f.window();
  }

  // Uses one credit, one with a path first if `on_path`; requires credits().
  std::optional<uint16_t> consume(Time now, Duration stale, bool on_path) {
    DCHECK(credits() > 0);
    if (stored_ > 0 && now - stored_at_ > stale) {
      pathless_ += stored_;
      stored_ = 0;
    }
    if (pathless_ > 0 && (stored_ == 0 || !on_path)) {
      --pathless_;
      return std::nullopt;
    }
    const uint16_t vp = vps_[head_];
    pop(1);
    return vp;
  }

  template <class Facts>
  [[nodiscard]] Time deadline(const Facts& f, Duration half_rtt) const {
    return room(f) == 0 ? Time::never() : burst_base_ + half_rtt;
  }
  template <class Facts>
  void on_deadline(Time now, const Facts& f, Duration half_rtt) {
    if (now < burst_base_ + half_rtt) return;
    burst_base_ = now;
    refill(f);
  }

  // When the burst timer began, and its inverse for hardware (offload_context.hpp), which has no
  // paths of unused credits.
  [[nodiscard]] Time burst_base() const { return burst_base_; }
  void load(uint32_t credits, Time burst_base) {
    clear();
    pathless_ = credits;
    burst_base_ = burst_base;
  }

 private:
  // Packets that the window allows and that have no credit.
  template <class Facts>
  [[nodiscard]] uint32_t room(const Facts& f) const {
    const uint32_t used = f.in_flight() + credits();
    const uint32_t window = f.window();
    return used < window ? window - used : 0;
  }
  void store(Time now, uint16_t vp) {
    DCHECK(stored_ < kStoredMax);
    if (vp == 0) {
      ++pathless_;
      return;
    }
    vps_[(head_ + stored_++) % kStoredMax] = vp;
    stored_at_ = now;
  }
  void clear() { pathless_ = stored_ = orphans_ = 0; }
  // Takes back `count` credits, the oldest first.
  void drop(uint32_t count) {
    DCHECK(count <= credits());
    const uint32_t of_free = std::min(count, pathless_);
    pathless_ -= of_free;
    pop(count - of_free);
  }
  void pop(uint32_t count) {
    head_ = (head_ + count) % kStoredMax;
    stored_ -= count;
  }

  uint32_t pathless_ = 0;  // credits without a path
  uint32_t head_ = 0;
  uint32_t stored_ = 0;
  uint32_t orphans_ = 0;  // packets whose room no acknowledgement will bring
  Time stored_at_;        // time of the newest credit in the FIFO
  Time burst_base_;       // the last acknowledgement, or expiry of the burst timer
  std::array<uint16_t, kStoredMax> vps_{};
};

}  // namespace mprdma::transport
