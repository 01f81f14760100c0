// The congestion window of a stream: one of the controls below, chosen when the stream is made.
// Events in, a window in packets out; a tag dispatches, nothing is virtual.
//
// A control is a class in a file of its own, with a name and these members (docs/extending.md
// walks through one). It is pure: no time, no packets, no allocation, fixed point only.
//
//   kName                      what scenarios call it
//   C(initial, max)            packets
//   reset()                    also the connection restart
//   on_ack(ece, may_grow)      an acknowledgement of something new; `ece`: it echoes a mark;
//                              `may_grow`: the window was in use, and the wire is not the limit
//   on_hole()                  a packet is lost; once for each
//   on_window_drop()           a packet was dropped because the receiver's window was full
//   on_slow_path()             an ACK of a path that is too slow, in place of on_ack()
//   on_unused_ack()            an ACK found nothing to send
//   give_back()                the application has packets again after that
//   on_timeout()               once for each silence
//   exact()                    the window, packets; never below one
//   owed()                     what give_back() would add at most
#pragma once

#include <cstdint>
#include <variant>

#include "base/alternatives.hpp"
#include "base/fixed_point.hpp"
#include "cc/dctcp_window.hpp"
#include "cc/mp_window.hpp"

namespace mprdma::cc {

// To add one: its header above, its line here.
#define MPRDMA_WINDOW_CONTROLS(X) \
  X(kMp, MpWindow)                \
  X(kDctcp, DctcpWindow)

enum class WindowControl : uint8_t { MPRDMA_WINDOW_CONTROLS(MPRDMA_ENUMERATOR) };
using WindowControls = Alternatives<void MPRDMA_WINDOW_CONTROLS(MPRDMA_ALTERNATIVE)>;

class Window {
 public:
  Window(WindowControl which, uint32_t initial_packets, uint32_t max_packets)
      : control_(WindowControls::make(which, initial_packets, max_packets)) {
    tell([](auto&) {});
  }

  void reset() {
    tell([](auto& control) { control.reset(); });
  }
  void on_ack(bool ece, bool may_grow) {
    tell([=](auto& control) { control.on_ack(ece, may_grow); });
  }
  void on_hole() {
    tell([](auto& control) { control.on_hole(); });
  }
  void on_window_drop() {
    tell([](auto& control) { control.on_window_drop(); });
  }
  void on_slow_path() {
    tell([](auto& control) { control.on_slow_path(); });
  }
  void on_unused_ack() {
    tell([](auto& control) { control.on_unused_ack(); });
  }
  void give_back() {
    tell([](auto& control) { control.give_back(); });
  }
  void on_timeout() {
    tell([](auto& control) { control.on_timeout(); });
  }

  // Whole packets that may be in flight, at least 1.
  [[nodiscard]] uint32_t packets() const { return exact_.floor(); }
  [[nodiscard]] Fixed16 exact() const { return exact_; }
  [[nodiscard]] Fixed16 owed() const {
    return std::visit([](const auto& control) { return control.owed(); }, control_);
  }

 private:
  template <class Event>
  void tell(Event event) {
    exact_ = std::visit(
        [&event](auto& control) {
          event(control);
          return control.exact();
        },
        control_);
  }

  Fixed16 exact_;  // read many times for each packet, so it does not ask which control
  WindowControls::Any control_;
};

}  // namespace mprdma::cc
