// The congestion window of a stream: one of the window controls, chosen when the stream is made.
// Events in, a window in packets out; a tag dispatches, nothing is virtual.
#pragma once

#include <cstdint>
#include <type_traits>
#include <variant>

#include "base/fixed_point.hpp"
#include "base/units.hpp"
#include "cc/algorithms.hpp"

namespace mprdma::cc {

class Window {
 public:
  Window(WindowControl which, const Setup& setup) : control_(WindowControls::make(which, setup)) {
    dispatch([](auto&) {});
  }

  void reset() {
    dispatch([](auto& control) { control.reset(); });
  }
  void on_ack(const AckSample& sample) {
    dispatch([&](auto& control) { control.on_ack(sample); });
  }
  // True: on_loss_undone() may follow, and gives back what the loss took of the window. What else a
  // control made of the loss (an end to fast growth) stays.
  bool on_loss(const LossSample& sample) {
    const Fixed16 before = exact_;
    bool undoable = false;
    dispatch([&](auto& control) {
      using Control = std::decay_t<decltype(control)>;
      control.on_loss(sample);
      if constexpr (UndoesLosses<Control>) {
        undoable =
            sample.kind == LossKind::kHole && before - control.window() == Control::kLossCost;
      }
    });
    return undoable;
  }
  void on_loss_undone() {
    dispatch([](auto& control) {
      if constexpr (UndoesLosses<std::decay_t<decltype(control)>>) control.on_loss_undone();
    });
  }
  void on_timeout(Time now) {
    dispatch([=](auto& control) { control.on_timeout(now); });
  }
  // ---- The rules of MP-RDMA
  void on_slow_path(const AckSample& sample) {
    dispatch([&](auto& control) {
      if constexpr (HearsSlowPaths<std::decay_t<decltype(control)>>) {
        control.on_slow_path(sample);
      } else {
        control.on_ack(sample);
      }
    });
  }
  void on_unused_ack() {
    dispatch([](auto& control) {
      if constexpr (HearsUnusedAcks<std::decay_t<decltype(control)>>) control.on_unused_ack();
    });
  }
  void give_back() {
    dispatch([](auto& control) {
      if constexpr (GivesBack<std::decay_t<decltype(control)>>) control.give_back();
    });
  }

  void follow(uint32_t initial_packets, uint32_t max_packets) {
    dispatch([=](auto& control) {
      if constexpr (Follows<std::decay_t<decltype(control)>>) {
        control.follow(initial_packets, max_packets);
      }
    });
  }
  // The window is below what the link and the round trip need, and there was no congestion yet.
  [[nodiscard]] bool ramps() const {
    return std::visit(
        [](const auto& control) {
          if constexpr (Ramps<std::decay_t<decltype(control)>>) return control.ramps();
          return false;
        },
        control_);
  }
  void recover() {
    dispatch([](auto& control) {
      if constexpr (Recovers<std::decay_t<decltype(control)>>) control.recover();
    });
  }

  // Whether an acknowledgement, not told yet, is a sign of congestion.
  [[nodiscard]] bool congested(const AckSample& sample) const {
    return std::visit(
        [&](const auto& control) {
          if constexpr (JudgesAcks<std::decay_t<decltype(control)>>) {
            return control.congested(sample);
          } else {
            return sample.ece;
          }
        },
        control_);
  }

  // As hardware has kept the window of `mp`; requires that it is this one.
  void load(Fixed16 window, Fixed16 owed) {
    dispatch([=](auto& control) {
      if constexpr (std::is_same_v<std::decay_t<decltype(control)>, MpWindow>) {
        control.load(window, owed);
      }
    });
  }

  // Whole packets that may be in flight, at least 1.
  [[nodiscard]] uint32_t packets() const { return exact_.floor(); }
  [[nodiscard]] Fixed16 exact() const { return exact_; }
  // Most packets that give_back() would add.
  [[nodiscard]] Fixed16 owed() const {
    return std::visit(
        [](const auto& control) {
          if constexpr (GivesBack<std::decay_t<decltype(control)>>) {
            return control.owed();
          } else {
            return Fixed16();
          }
        },
        control_);
  }

  // Round trips that the next packet waits after the acknowledgement of the only one.
  [[nodiscard]] Fixed16 spacing() const {
    return std::visit([](const auto& control) { return control.spacing(); }, control_);
  }
  // False: spacing() is zero until the next sign of congestion.
  [[nodiscard]] bool has_deficit() const {
    return std::visit([](const auto& control) { return control.deficit() != Fixed16(); }, control_);
  }
  void forget_deficit() {
    dispatch([](auto& control) { control.forget_deficit(); });
  }
  // What the control asks for: below one packet the inverse of the time between two.
  [[nodiscard]] Fixed16 effective() const {
    constexpr Fixed16 kOne = Fixed16::from_int(1);
    const Fixed16 rest = spacing();
    return rest == Fixed16() || exact_ > kOne ? exact_ : (rest + kOne).reciprocal();
  }

 private:
  template <class Event>
  void dispatch(Event event) {
    exact_ = std::visit(
        [&event](auto& control) {
          event(control);
          return control.window();
        },
        control_);
  }

  Fixed16 exact_;  // cached: read many times for each packet, without a dispatch
  WindowControls::Any control_;
};

}  // namespace mprdma::cc
