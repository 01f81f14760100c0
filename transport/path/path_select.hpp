// The path policy of a stream: chosen when the stream is made, told what it wants to hear, asked
// for the virtual path (UDP source port) of a packet. A tag dispatches, nothing is virtual.
#pragma once

#include <cstdint>
#include <type_traits>
#include <variant>

#include "base/prng.hpp"
#include "base/units.hpp"
#include "transport/path/path_policies.hpp"

namespace mprdma::transport {

// `Policies`: the alternatives, an Alternatives<..>. Tests have policies of their own.
template <class Policies>
class BasicPathSelector {
 public:
  // `in_flight_max`: packets.
  template <class Which>
  explicit BasicPathSelector(Which which, uint32_t in_flight_max = 1)
      : policy_(Policies::make(which)),
        clocked_(visit([](const auto& p) { return std::decay_t<decltype(p)>::kClocked; })),
        hears_(visit([](const auto& p) {
          using P = std::decay_t<decltype(p)>;
          return HearsAcks<P> || HearsLosses<P> || HearsTimeouts<P> || HearsRounds<P> ||
                 HearsSpares<P> || HearsPeer<P>;
        })),
        retries_(visit([](const auto& p) { return Retries<std::decay_t<decltype(p)>>; })),
        keeps_spares_(visit([](const auto& p) { return HearsSpares<std::decay_t<decltype(p)>>; })) {
    visit([=](auto& p) {
      if constexpr (HoldsPaths<std::decay_t<decltype(p)>>) p.hold(in_flight_max);
    });
  }

  // `fixed_vp` is the path that the connection got when it was set up; random paths are drawn from
  // `prng`.
  void reset(uint16_t fixed_vp, const Prng& prng) {
    visit([fixed_vp](auto& p) { p.reset(fixed_vp); });
    prng_ = prng;
    acks_ = signs_ = 0;
  }

  // The generator of random paths, of which a device has one.
  [[nodiscard]] const Prng& prng() const { return prng_; }

  // True if the policy's gate is the ACK clock.
  [[nodiscard]] bool clocked() const { return clocked_; }
  // The path of a packet that has none from a credit. The first policy, of one path, is asked for
  // every packet of a direct ring: it needs no jump among all.
  // `idle`: nothing is outstanding.
  uint16_t draw(Time now, bool idle = false) {
    if (auto* const first = std::get_if<0>(&policy_)) return first->next(now, prng_);
    return visit([=, this](auto& p) {
      if constexpr (HearsIdle<std::decay_t<decltype(p)>>) {
        if (idle) p.on_idle();
      }
      return p.next(now, prng_);
    });
  }
  // The path of a packet that was lost on `avoid`, or is sent again in a silence (path_policy.hpp).
  uint16_t retry(Time now, uint16_t avoid, uint32_t attempt) {
    return visit([=, this](auto& p) {
      if constexpr (Retries<std::decay_t<decltype(p)>>) return p.retry(avoid, attempt, prng_);
      return p.next(now, prng_);
    });
  }
  [[nodiscard]] bool retries() const { return retries_; }
  // True if the policy is told of paths whose acknowledgements found nothing to send.
  [[nodiscard]] bool keeps_spares() const { return keeps_spares_; }
  uint16_t explore(Time now) {
    return visit([=, this](auto& p) {
      if constexpr (Explores<std::decay_t<decltype(p)>>) return p.explore(prng_);
      return p.next(now, prng_);
    });
  }
  [[nodiscard]] bool seeks() {
    return visit([](const auto& p) {
      if constexpr (Seeks<std::decay_t<decltype(p)>>) return p.seeks();
      return false;
    });
  }
  // The policy by its type; nullptr: it is another one.
  template <class P>
  [[nodiscard]] P* as() {
    return std::get_if<P>(&policy_);
  }
  [[nodiscard]] bool chance(uint32_t per_mille) { return prng_.chance(per_mille, 1000); }

  // ---- Events (path_policy.hpp). While the policy hears none, each costs a predictable branch.
  void on_ack(const PathSample& sample) {
    if (!hears_) return;
    ++acks_;
    signs_ += sample.congested ? 1 : 0;
    visit([&](auto& p) {
      if constexpr (HearsAcks<std::decay_t<decltype(p)>>) p.on_ack(sample);
    });
  }
  void on_spare(const PathSample& sample, Duration usual) {
    if (!hears_) return;
    visit([&](auto& p) {
      if constexpr (HearsSpares<std::decay_t<decltype(p)>>) p.on_spare(sample, usual);
    });
  }
  void on_peer(uint16_t vp) {
    if (!hears_) return;
    visit([=](auto& p) {
      if constexpr (HearsPeer<std::decay_t<decltype(p)>>) p.on_peer(vp);
    });
  }
  void on_loss(uint16_t vp) {
    if (!hears_) return;
    visit([=](auto& p) {
      if constexpr (HearsLosses<std::decay_t<decltype(p)>>) p.on_loss(vp);
    });
  }
  void on_timeout(Time now) {
    if (!hears_) return;
    visit([=](auto& p) {
      if constexpr (HearsTimeouts<std::decay_t<decltype(p)>>) p.on_timeout(now);
    });
  }
  // A round trip ends.
  void on_round() {
    if (!hears_) return;
    const bool congested = signs_ > 0 && signs_ * 2 >= acks_;
    acks_ = signs_ = 0;
    visit([=](auto& p) {
      if constexpr (HearsRounds<std::decay_t<decltype(p)>>) p.on_round(congested);
    });
  }

 private:
  template <class Call>
  decltype(auto) visit(Call&& call) {
    return std::visit(std::forward<Call>(call), policy_);
  }

  typename Policies::Any policy_;
  bool clocked_;
  bool hears_;
  bool retries_;
  bool keeps_spares_;
  Prng prng_{0};
  uint32_t acks_ = 0;   // in this round
  uint32_t signs_ = 0;  // of them that told of congestion
};

using PathSelector = BasicPathSelector<PathPolicies>;

}  // namespace mprdma::transport
