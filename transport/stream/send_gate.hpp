// The contract of a send gate: *when* a packet of a stream may leave. *Where* it leaves is the
// business of a path policy (transport/path/path_policy.hpp), which names its gate.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/units.hpp"

namespace mprdma::transport {

// What a gate asks its stream. The sender has its own; this one only serves the concept below.
struct GateFacts {
  // With those that have arrived, but keep their room (late_acks.hpp).
  [[nodiscard]] uint32_t in_flight() const { return 0; }
  // Packets.
  [[nodiscard]] uint32_t window() const { return 1; }
  // Nothing is outstanding.
  [[nodiscard]] bool idle() const { return true; }
  // in_flight() follows the SACKs: zero means that no acknowledgement can come.
  [[nodiscard]] bool exact() const { return true; }
  // The window does not hold retransmissions back now.
  [[nodiscard]] bool exceeds_window() const { return false; }
};

// A gate is a pure class in a file of its own; each stream has an object of it. `f` are facts as
// above, `half_rtt` is SRTT / 2.
//
//   kName, kClocked       kClocked: packets need credits, which acknowledgements grant
//   open(f)               a packet may leave
//   credits()             packets that may leave at once; 0 without credits
//   pathless()            of them those that have no path
//   note_ack(now)         acknowledgements come
//   note_orphans(n)       n packets were lost, or their acknowledgements: nobody brings their room
//   on_ack(now, vp, f, n) so does this one, which grants n credits on its path at most; true if the
//                         window had room for one
//   update(f, work)       window or packets in flight have changed; `work`: packets are ready
//   refill(f)             everything that the window allows may leave
//   restart(f)            as refill(), and former credits are void: they are old
//   on_timeout(f)         a whole window may leave; former credits are void
//   consume(now, stale, on_path)
//                         a packet leaves: the path of its credit, if it has one that is not older
//                         than `stale`; `on_path`: such a credit is preferred. Requires open()
//   deadline(f, half_rtt), on_deadline(now, f, half_rtt)
template <class G>
concept SendGate = std::default_initializable<G> &&
    requires(G g, const G& c, const GateFacts& f, Time now, Duration d, uint16_t vp, uint32_t n,
             bool work) {
  { G::kName } -> std::convertible_to<std::string_view>;
  { G::kClocked } -> std::convertible_to<bool>;
  { c.open(f) } -> std::same_as<bool>;
  { c.credits() } -> std::same_as<uint32_t>;
  { c.pathless() } -> std::same_as<uint32_t>;
  g.note_ack(now);
  g.note_orphans(n);
  { g.on_ack(now, vp, f, n) } -> std::same_as<bool>;
  g.update(f, work);
  g.refill(f);
  g.restart(f);
  g.on_timeout(f);
  { g.consume(now, d, work) } -> std::same_as<std::optional<uint16_t>>;
  { c.deadline(f, d) } -> std::same_as<Time>;
  g.on_deadline(now, f, d);
};

}  // namespace mprdma::transport
