// Every tunable of the transport that one side may choose alone: unit, default, range, source.
// What both peers must agree on lives in wire/ or is negotiated. The ranges are what the swarm
// draws from.
#pragma once

#include <cstdint>

#include "base/fixed_point.hpp"
#include "base/units.hpp"
#include "cc/window.hpp"
#include "transport/path_policies.hpp"

namespace mprdma::transport {

// Whose rules a reliable connection follows (design 3).
enum class Protocol : uint8_t {
  kMp,    // streams with selective acknowledgement; the extended opcodes
  kRoce,  // RoCEv2 as the standard has it: go-back-N, one PSN space, one path
};

// Congestion control of the mode `roce`: none, or DCQCN with the constants of a preset
// (cc/dcqcn.hpp).
enum class Congestion : uint8_t { kNone, kDcqcnPaper, kDcqcnTuned };

// When WRITE and READ data reaches memory (design 1, docs/algorithms.md).
enum class PlacementPolicy : uint8_t {
  kStandard,  // in order, unless the memory was registered with relaxed ordering
  kRelaxed,   // everything as it arrives, as in the paper
  kOrdered,   // everything in order
};
// How a synchronise operation is kept behind what was posted before it, towards a receiver that
// does not place in order (paper 3.5).
enum class SyncPolicy : uint8_t {
  kOptimistic,   // it leaves a little later; the receiver sends back what comes too early
  kStopAndWait,  // it leaves when everything before it is complete
};

// When a connection begins anew with the initial window on random paths (paper 3.5).
enum class RestartRule : uint8_t {
  kNever,
  kIdle,       // nothing was outstanding for 3 RTT: the paper
  kNoBacklog,  // the application had nothing that waits for 3 RTT [mend]
};

// kWindowSlotsMax: largest receive window, slots (design 3.1); the bitmap's width.
// kSendSpanMax: a stream never has more packets than this between snd_una and snd_nxt; the width of
// the maps. MPRDMA_WIDE_WINDOWS is set in a second build for the simulator alone
// (tools/figures/wide), which shows how far out of order packets come where no window limits it.
#ifdef MPRDMA_WIDE_WINDOWS
inline constexpr uint32_t kWindowSlotsMax = 2048;
inline constexpr uint32_t kSendSpanMax = 4096;
#else
inline constexpr uint32_t kWindowSlotsMax = 128;
inline constexpr uint32_t kSendSpanMax = 256;
#endif

// Packets that a stream may have between the oldest that matters and the newest: well below 2^23,
// where serial numbers come round.
inline constexpr uint32_t kStreamSpanMax = 1u << 22;

// One acknowledgement clocks out at most so many packets (burst control, paper 3.5).
inline constexpr uint32_t kBurstPackets = 2;
// No growth while more than so many packets of a stream wait for the wire [mend].
inline constexpr uint32_t kWireBacklogMax = 8;
// Restart after so many SRTT (paper 3.5).
inline constexpr int64_t kRestartRtts = 3;
// A transport timer of the verbs that is shorter does not shorten our retransmission timeout.
inline constexpr Duration kTimeoutLimitMin = Duration::ms(64);

struct Params {
  // The presets of design 3. Literal is the paper's algorithm with none of our mends; figures is
  // the mended one with the paper's L.
  static constexpr Params mp() { return {}; }
  static constexpr Params mp_single();
  static constexpr Params mp_figures();
  static constexpr Params mp_paper();
  static constexpr Params roce();
  // RoCE whose rate, not its window, is the limit.
  static constexpr Params roce_with(Congestion congestion);

  Protocol protocol = Protocol::kMp;
  // L: slots of the receive window. Both peers use the same; 64 as in the paper, 128 in software.
  // Range 8..128, a power of two.
  uint32_t window_slots = 128;
  // Initial window, packets: one bandwidth-delay product (paper 3.2). Range 1..window_slots.
  uint32_t initial_window = 54;
  // Largest window, packets: two bandwidth-delay products [mend]. Range initial_window..256.
  uint32_t window_max = 108;
  // An un-SACKed PSN this far below the highest SACKed one is lost [mend]; 0 switches it off.
  // Must lie clearly above delta (facts: 64 with L = 128, delta = 32). Range 0, 8..window_slots.
  uint32_t loss_trigger = 64;
  // delta: how far reordering reaches before a path is judged or, at a NACK, a hole is lost (paper
  // 3.4). Range 8..window_slots.
  uint32_t reorder_delta = 32;
  // Growth stops when the stream was not window-limited, or the wire was the limit [mend].
  bool limit_growth = true;
  // A hole costs 1/2 packet of window, a window drop 1/4 [mend].
  bool loss_shrinks_window = true;
  // A timeout leaves min(window / 2, initial window) [mend].
  bool timeout_shrinks_window = true;
  // The timeout and the tail probe allow for the variance of the RTT, and a timeout that proves too
  // early is undone (RFC 6298; RFC 3522 and 4015) [mend]: hosts in software are stopped for
  // milliseconds by their operating system.
  bool adapt_timeout = true;
  // Early retransmission of what is older than 5/4 SRTT, and the tail probe [mend]. The first needs
  // sack_map, as the trigger does.
  bool early_retransmit = true;
  bool tail_probe = true;
  // In flight by a map of SACKed PSNs, and exactly what is marked lost is sent again [mend]. Off:
  // the paper's `inflate` and its sweep of all PSNs (recovery_paper.hpp); needs kAckClocked.
  bool sack_map = true;

  // Retransmission timeout: max(floor, 4 SRTT, SRTT + 4 RTTVAR), doubled at each expiry up to the
  // ceiling; both end at the verbs' timeout (StreamSender::limit_timeouts). Range 50 us .. 1 s.
  Duration rto_floor = Duration::ms(4);
  Duration rto_ceiling = Duration::ms(500);
  // The tail probe leaves after max(floor, 2 SRTT, SRTT + 4 RTTVAR) without an acknowledgement.
  // Range 5 us .. 1 s.
  Duration probe_floor = Duration::us(500);
  // SRTT before the first sample. Range 1 us .. 100 ms.
  Duration initial_rtt = Duration::us(50);

  // What the window does at each event (cc/window.hpp). The mode `roce` has no such window.
  cc::WindowControl window_control = cc::WindowControl::kMp;
  // On which path a packet leaves (path_policies.hpp).
  PathPolicy path_policy = PathPolicy::kAckClocked;
  // p: once per RTT, with so many chances in a thousand, a packet goes to a new random path (paper
  // 3.5). Range 0..1000.
  uint32_t path_probe_per_mille = 10;
  // An acknowledgement that finds nothing to send takes one packet of window (paper 3.5).
  bool path_window_reduction = true;
  // What that took comes back, up to the initial window and on random paths, when the application
  // has something again [mend].
  bool window_give_back = true;
  RestartRule restart = RestartRule::kNoBacklog;
  // What waits only for the delay of a synchronise operation counts as something to send [mend]:
  // acknowledgements that come meanwhile take no window and keep their path.
  bool sync_wait_is_backlog = true;

  PlacementPolicy placement = PlacementPolicy::kStandard;
  SyncPolicy sync_policy = SyncPolicy::kOptimistic;
  // alpha: an optimistic synchronise operation leaves alpha * delta * SRTT / cwnd after what was
  // posted before it (paper 3.5). Range 0..16.
  Fixed16 sync_alpha = Fixed16::from_int(1);

  // Mode `roce` only.
  Congestion congestion = Congestion::kNone;
  // Rate of the host's link, Mb/s: where DCQCN begins. Range 1 .. 1 000 000; without congestion
  // control it is not looked at.
  uint32_t link_mbps = 0;
};

constexpr Params Params::mp_single() {
  Params p;
  p.path_policy = PathPolicy::kSingle;
  return p;
}

constexpr Params Params::mp_figures() {
  Params p;
  p.window_slots = 64;
  p.loss_trigger = 0;
  return p;
}

constexpr Params Params::mp_paper() {
  Params p = mp_figures();
  p.window_max = kSendSpanMax;
  p.limit_growth = false;
  p.loss_shrinks_window = false;
  p.timeout_shrinks_window = false;
  p.adapt_timeout = false;
  p.early_retransmit = false;
  p.tail_probe = false;
  p.sack_map = false;
  p.window_give_back = false;
  p.sync_wait_is_backlog = false;
  p.restart = RestartRule::kIdle;
  return p;
}

// Of the numbers only window_max (packets that may be unacknowledged), rto_floor (the shortest
// transport timer) and link_mbps mean something here.
constexpr Params Params::roce() {
  Params p;
  p.protocol = Protocol::kRoce;
  p.path_policy = PathPolicy::kSingle;
  p.window_max = 64;
  p.initial_window = 64;
  return p;
}

// DCQCN's paper has no window; this one is larger than what a network holds of one flow (a
// bandwidth-delay product and a port's buffer of 1 MB).
constexpr Params Params::roce_with(Congestion congestion) {
  Params p = roce();
  p.congestion = congestion;
  if (congestion != Congestion::kNone) p.window_max = 1024;
  return p;
}

}  // namespace mprdma::transport
