// The window alone: a packet may leave while fewer are in flight than the window allows.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/units.hpp"

namespace mprdma::transport {

class WindowGate {
 public:
  static constexpr std::string_view kName = "window";
  static constexpr bool kClocked = false;

  template <class Facts>
  [[nodiscard]] bool open(const Facts& f) const {
    return f.in_flight() < f.window();
  }
  [[nodiscard]] uint32_t credits() const { return 0; }
  [[nodiscard]] uint32_t pathless() const { return 0; }
  void note_ack(Time) {}
  void note_orphans(uint32_t) {}
  template <class Facts>
  bool on_ack(Time, uint16_t, const Facts&, uint32_t) {
    return false;
  }
  template <class Facts>
  void update(const Facts&, bool) {}
  template <class Facts>
  void refill(const Facts&) {}
  template <class Facts>
  void restart(const Facts&) {}
  template <class Facts>
  void on_timeout(const Facts&) {}
  std::optional<uint16_t> consume(Time, Duration, bool) { return std::nullopt; }
  template <class Facts>
  [[nodiscard]] Time deadline(const Facts&, Duration) const {
    return Time::never();
  }
  template <class Facts>
  void on_deadline(Time, const Facts&, Duration) {}
};

}  // namespace mprdma::transport
