// The congestion control of a connection: one of the rate controllers, chosen when the connection
// begins. Events in, a rate out; a tag dispatches, nothing is virtual.
#pragma once

#include <cstdint>
#include <type_traits>
#include <variant>

#include "base/units.hpp"
#include "cc/algorithms.hpp"

namespace mprdma::cc {

class Rate {
 public:
  explicit Rate(RateControl which = RateControl::kNone, const Setup& setup = {})
      : control_(RateControls::make(which, setup)) {
    dispatch([](auto&) {});
  }

  void on_cnp(Time now) {
    dispatch([=](auto& control) { control.on_cnp(now); });
  }
  void on_sent(Time now, uint32_t bytes) {
    dispatch([=](auto& control) { control.on_sent(now, bytes); });
  }
  // Told only to a controller that hears_acks().
  void on_ack(const AckSample& sample) {
    dispatch([&](auto& control) { control.on_ack(sample); });
  }
  void on_deadline(Time now) {
    dispatch([=](auto& control) { control.on_deadline(now); });
  }

  // Bits per second; kNoRate: no limit.
  [[nodiscard]] uint64_t bps() const { return bps_; }
  [[nodiscard]] Time next_deadline() const { return deadline_; }
  // Shortest time between two CNPs; infinite: none is sent.
  [[nodiscard]] Duration cnp_interval() const {
    return std::visit([](const auto& c) { return std::decay_t<decltype(c)>::kCnpInterval; },
                      control_);
  }

 private:
  template <class Event>
  void dispatch(Event event) {
    std::visit(
        [this, &event](auto& control) {
          event(control);
          bps_ = control.rate_bps();
          deadline_ = control.next_deadline();
        },
        control_);
  }

  // Cached, because they are read for each packet.
  uint64_t bps_ = kNoRate;
  Time deadline_ = Time::never();
  RateControls::Any control_;
};

}  // namespace mprdma::cc
