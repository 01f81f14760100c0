// The daemon's CM agent, between the switch, which moves its datagrams, and the server, which owns
// its clients. One thread.
#pragma once

#include "dataplane/cm/driver.hpp"
#include "dataplane/daemon/switch.hpp"

namespace mprdma::dataplane::mprdmad {

class CmPump final : public Management {
 public:
  explicit CmPump(const CmConfig& config) : driver_(config) {}

  void on_mad(std::span<const unsigned char> bytes, const wire::IpAddress& from,
              Time now) override {
    agent().on_mad(bytes, from, now);
  }
  void on_resolved(const wire::IpAddress& to, const wire::MacAddress* mac, Time now) override {
    agent().on_resolved(to, mac, now);
  }

  // Sends the agent's datagrams, starts its address resolutions, and calls deliver(event) for each
  // event. True: there may be more work. The switch drops and counts what the wire has no room for.
  template <class Deliver>
  bool pump(Switch& sw, Time now, Deliver&& deliver) {
    const unsigned done = driver_.serve(
        now, kWorkPerPump, [&](const wire::IpAddress& to) { sw.resolve(to, now); },
        [&](const CmAgent::OutgoingMad& mad) {
          sw.send_mad(mad, now);
          return true;
        },
        deliver);
    if (done > 0) sw.flush();
    return done == kWorkPerPump;
  }

  [[nodiscard]] CmAgent& agent() { return driver_.agent(); }

 private:
  static constexpr unsigned kWorkPerPump = 512;

  CmDriver driver_;
};

}  // namespace mprdma::dataplane::mprdmad
