// ACK clocking (paper 3.2) that remembers paths [deviation], as REPS does (Bonato et al., "REPS:
// Recycled Entropy Packet Spraying", 2024). An acknowledgement that finds nothing to send, or whose
// credit would wait behind older ones, leaves its path here. A packet without an echoed path takes
// the newest of them that had no mark, else the newest, else a random one: so messages that fit the
// window, too, keep to paths that work and have room.
//
// A straggler (stragglers.hpp) is kept as the oldest one: its acknowledgement comes last, so that
// it would be the newest. Packets that explore then bring more paths than a message needs, and it
// is not used again.
//
// An answer to a READ says that its request has arrived, and not on which path: the request's own
// acknowledgement may have been lost, on a path that is dead on its way back. Requests would then
// take random paths for ever. The path of the answer stands in for a random one: the peer sends on
// paths that work in both directions, once it has found some. For an answer so does the path of its
// request, on which at least acknowledgements of the answer come through.
//
// The policy has to hold a window's worth: what a message of that size used, the next one finds
// again. Of paths with a mark it holds few: where all are full, random ones spread the load. (Five
// flows of 1 MB messages over four paths of 100 Gb/s and 100 us: 161 Gb/s; with a window's worth of
// them 132.)
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/prng.hpp"
#include "base/units.hpp"
#include "transport/path/path_policy.hpp"
#include "transport/path/path_stack.hpp"
#include "transport/path/random_path.hpp"
#include "transport/path/stragglers.hpp"

namespace mprdma::transport {

class RecycledPaths {
 public:
  static constexpr std::string_view kName = "recycled";
  static constexpr bool kClocked = true;

  void hold(uint32_t packets) { unmarked_ = PathStack(packets); }
  void reset(uint16_t /*fixed_vp*/) {
    good_ = {};
    peer_ = 0;
    stragglers_ = {};
    unmarked_.clear();
    marked_.clear();
  }
  uint16_t next(Time, Prng& prng) {
    if (!unmarked_.empty()) return unmarked_.pop();
    if (!marked_.empty()) return marked_.pop();
    return peer_ != 0 ? std::exchange(peer_, 0) : random_path(prng);
  }
  uint16_t explore(Prng& prng) {
    const uint16_t vp = random_path(prng);
    stragglers_.on_explore(vp);
    return vp;
  }
  [[nodiscard]] bool seeks() const { return stragglers_.seeks(); }
  [[nodiscard]] const Stragglers& stragglers() const { return stragglers_; }
  // The paths on which the last packets arrived, in turn; from the second attempt on random ones,
  // because those may all be the same path of the network.
  uint16_t retry(uint16_t avoid, uint32_t attempt, Prng& prng) {
    for (uint32_t tries = attempt == 0 ? kGoodMax : 0; tries > 0; --tries) {
      const uint16_t vp = good_[(newest_ - turn_++) % kGoodMax];
      if (vp != 0 && vp != avoid) return vp;
    }
    return random_path(prng);
  }

  void on_ack(const PathSample& sample) {
    if (sample.vp == 0 || sample.slow) return;
    good_[++newest_ % kGoodMax] = sample.vp;
    turn_ = 0;
  }
  void on_spare(const PathSample& sample, Duration usual) {
    const bool straggles = stragglers_.judge(sample.vp, sample.rtt, usual);
    if (sample.ece) return marked_.push(sample.vp);
    if (straggles) return unmarked_.push_oldest(sample.vp);
    unmarked_.push(sample.vp);
  }
  void on_peer(uint16_t vp) { peer_ = vp; }
  void on_round(bool /*congested*/) { stragglers_.on_round(); }
  void on_timeout(Time) { reset(0); }

 private:
  static constexpr uint32_t kGoodMax = 8;
  static constexpr uint32_t kMarkedMax = 16;
  std::array<uint16_t, kGoodMax> good_{};  // of the last acknowledgements; 0: none
  uint32_t newest_ = 0;                    // in good_, modulo its size
  uint16_t peer_ = 0;                      // of the newest packet of the peer; 0: none, or taken
  uint32_t turn_ = 0;                      // taken since the last acknowledgement
  Stragglers stragglers_;
  PathStack unmarked_{1};  // until hold() says how many packets the stream may have
  PathStack marked_{kMarkedMax};
};

}  // namespace mprdma::transport
