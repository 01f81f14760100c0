// The events that a queue pair raises for the trace: states, and packets of every service and mode.
#include <iterator>
#include <string_view>

#include "transport/qp.hpp"

namespace mprdma::transport {

namespace {

constexpr std::string_view kStateNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
static_assert(std::size(kStateNames) == static_cast<size_t>(QpState::kCount));

}  // namespace

void Qp::enter(QpState state) {
  const bool same = core_.state == state;
  core_.state = state;
  if (same || !traced()) return;
  core_.trace().raise(now_, TraceKind::state, Psn(),
                      {.reason = kStateNames[static_cast<size_t>(state)]});
}

void Qp::trace_packet(TraceKind kind, const wire::Packet& packet, bool again) const {
  core_.trace().raise(now_, kind, packet.psn, {.packet = packet, .again = again});
}

}  // namespace mprdma::transport
