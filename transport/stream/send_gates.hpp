// The send gates of a stream (send_gate.hpp is their contract): when a packet may leave. A tag
// dispatches, nothing is virtual, nothing allocates.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/alternatives.hpp"
#include "base/units.hpp"
#include "transport/stream/gate_ack_clock.hpp"
#include "transport/stream/gate_window.hpp"
#include "transport/stream/send_gate.hpp"

namespace mprdma::transport {

// A new gate needs its header above, its line here, and a policy that asks for it: StreamSender
// chooses between these two by kClocked of the path policy.
#define MPRDMA_SEND_GATES(X) \
  X(kWindow, WindowGate)     \
  X(kAckClock, AckClock)

enum class GateKind : uint8_t { MPRDMA_SEND_GATES(MPRDMA_ENUMERATOR) };
using SendGates = Alternatives<void MPRDMA_SEND_GATES(MPRDMA_ALTERNATIVE)>;

#define MPRDMA_CHECK_GATE_(enumerator, type) static_assert(SendGate<type>);
MPRDMA_SEND_GATES(MPRDMA_CHECK_GATE_)
#undef MPRDMA_CHECK_GATE_

// The gate of one stream.
class StreamGate {
  template <class Call>
  decltype(auto) visit(Call&& call) {
    return std::visit(std::forward<Call>(call), gate_);
  }
  template <class Call>
  decltype(auto) visit(Call&& call) const {
    return std::visit(std::forward<Call>(call), gate_);
  }

 public:
  explicit StreamGate(GateKind which)
      : gate_(SendGates::make(which)),
        clocked_(visit([](const auto& g) { return std::decay_t<decltype(g)>::kClocked; })) {}

  // True if packets need credits.
  [[nodiscard]] bool clocked() const { return clocked_; }
  // The gate by its type; nullptr: it is another one.
  [[nodiscard]] AckClock* ack_clock() { return std::get_if<AckClock>(&gate_); }
  [[nodiscard]] const AckClock* ack_clock() const { return std::get_if<AckClock>(&gate_); }

  // ---- Members of the concept (send_gate.hpp)
  template <class Facts>
  [[nodiscard]] bool open(const Facts& f) const {
    return visit([&](const auto& g) { return g.open(f); });
  }
  [[nodiscard]] uint32_t credits() const {
    return visit([](const auto& g) { return g.credits(); });
  }
  [[nodiscard]] uint32_t pathless() const {
    return visit([](const auto& g) { return g.pathless(); });
  }
  void note_ack(Time now) {
    visit([=](auto& g) { g.note_ack(now); });
  }
  void note_orphans(uint32_t packets) {
    visit([=](auto& g) { g.note_orphans(packets); });
  }
  template <class Facts>
  bool on_ack(Time now, uint16_t vp, const Facts& f, uint32_t most) {
    return visit([&](auto& g) { return g.on_ack(now, vp, f, most); });
  }
  template <class Facts>
  void update(const Facts& f, bool work) {
    visit([&](auto& g) { g.update(f, work); });
  }
  template <class Facts>
  void refill(const Facts& f) {
    visit([&](auto& g) { g.refill(f); });
  }
  template <class Facts>
  void restart(const Facts& f) {
    visit([&](auto& g) { g.restart(f); });
  }
  template <class Facts>
  void on_timeout(const Facts& f) {
    visit([&](auto& g) { g.on_timeout(f); });
  }
  std::optional<uint16_t> consume(Time now, Duration stale, bool on_path) {
    return visit([=](auto& g) { return g.consume(now, stale, on_path); });
  }
  template <class Facts>
  [[nodiscard]] Time deadline(const Facts& f, Duration half_rtt) const {
    return visit([&](const auto& g) { return g.deadline(f, half_rtt); });
  }
  template <class Facts>
  void on_deadline(Time now, const Facts& f, Duration half_rtt) {
    visit([&](auto& g) { g.on_deadline(now, f, half_rtt); });
  }

 private:
  SendGates::Any gate_;
  bool clocked_;
};

}  // namespace mprdma::transport
