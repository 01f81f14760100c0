// Every tunable of the transport that one side may choose alone, and every named set of them. What
// both peers must agree on lives in wire/ or is negotiated.
//
// One row of MPRDMA_PARAMS makes the member of Params (params.hpp), its key in the configuration of
// the engine and in scenarios, its check (param_check.hpp), its entry in results, what the swarm
// draws from, and the row that docs/parameters.md has to have:
//
//   X(type, member, key, default, scope, range, source, meaning)
//
//   scope    ParamScope: mode, device or link decides the value when a queue pair asks for another
//            mode
//   range    ParamRange (param_visit.hpp): unit, bounds, and other demands on the value
//   source   of the value or the rule: paper, RFC; D1..D19: a deviation from the MP-RDMA paper
//            (docs/algorithms.md), switched off in the preset mp-paper; "own value": no source
#pragma once

#include <cstdint>

namespace mprdma::transport {

// Largest receive window, slots (design 3.1).
inline constexpr uint32_t kWindowSlotsMax = 2048;
// Most packets of a stream between snd_una and snd_nxt, which is the width of its maps: two
// windows, and with small windows more.
inline constexpr uint32_t kSendSpanMax = 2 * kWindowSlotsMax;
inline constexpr uint32_t kSendSpanMin = 256;
constexpr uint32_t send_span(uint32_t window_slots) {
  return 2 * window_slots > kSendSpanMin ? 2 * window_slots : kSendSpanMin;
}

// Most packets of a connection of the mode `roce` that may be unacknowledged.
inline constexpr uint32_t kRoceSpanMax = 65'536;

}  // namespace mprdma::transport

#define MPRDMA_PARAMS(X)                                                                           \
  X(Protocol, protocol, "mode", Protocol::kMp, kMode, Range::choice(),                             \
    "`mp`: paper; `roce`: IBTA 9.7; `irn`: IRN", "the protocol of a reliable connection")          \
  X(uint32_t, window_slots, "window_slots", 256, kMode,                                            \
    Range::packets(8, kWindowSlotsMax).power_of_two(), "paper 3.3; 256: D6",                       \
    "L: slots of the receive window, the same at both ends; 64 in the paper; at least so many "    \
    "where windows follow the network")                                                            \
  X(Duration, window_rtt, "window_rtt_us", Duration::us(50), kMode,                                \
    Range::microseconds(1, 10'000).or_zero(), "D16",                                               \
    "windows follow the network: L is two bandwidth-delay products of the link's rate and this "   \
    "time, and the window's limits are one and two of the least RTT that was measured, if that "   \
    "is more than is configured; 0: they do not")                                                  \
  X(uint32_t, initial_window, "initial_window", 54, kMode, Range::packets(1, kWindowSlotsMax),     \
    "paper 3.2",                                                                                   \
    "window at the start of a connection, one bandwidth-delay product; in modes `mp` and `irn` "   \
    "at most L")                                                                                   \
  X(uint32_t, window_max, "window_max", 108, kMode,                                                \
    Range::packets(1, kSendSpanMax).of_roce(kRoceSpanMax), "D11",                                  \
    "largest window, two bandwidth-delay products of 40 Gb/s and 12 us; in mode `roce`: most "     \
    "unacknowledged packets")                                                                      \
  X(uint32_t, loss_trigger, "loss_trigger", 64, kMode,                                             \
    Range::packets(8, kWindowSlotsMax).or_zero(), "D6",                                            \
    "a PSN this far below the highest SACKed one is lost unless it is SACKed; 0: off; at most L, " \
    "and clearly above `reorder_delta`")                                                           \
  X(uint32_t, reorder_delta, "reorder_delta", 32, kMode, Range::packets(8, kWindowSlotsMax),       \
    "paper 3.4",                                                                                   \
    "delta: a path whose packets arrive this far below the highest SACKed PSN is slow, and an "    \
    "un-SACKed PSN this far below it is lost if a NACK comes; at most L")                          \
  X(bool, limit_growth, "limit_growth", true, kMode, Range::flag(), "D2",                          \
    "the window grows only while it is the limit, not the application or the wire")                \
  X(bool, loss_shrinks_window, "loss_shrinks_window", true, kMode, Range::flag(), "D3",            \
    "a hole takes 1/2 packet from the window, a packet that the receiver's window dropped 1/4")    \
  X(bool, timeout_shrinks_window, "timeout_shrinks_window", true, kMode, Range::flag(), "D4",      \
    "the first timeout since the last progress sets the window to min(window / 2, initial "        \
    "window)")                                                                                     \
  X(bool, adapt_timeout, "adapt_timeout", true, kMode, Range::flag(),                              \
    "D5: RFC 6298, RFC 3522, RFC 4015",                                                            \
    "timeout and tail probe allow for the variance of the RTT, and a timeout that proves too "     \
    "early is undone, because hosts in software stop for milliseconds")                            \
  X(bool, loss_by_time, "loss_by_time", true, kMode, Range::flag(), "D7: RFC 8985",                \
    "a packet is lost when one that left later has arrived and it has not come within the "        \
    "largest round trip of late; `recovery` = `mp` only")                                          \
  X(bool, ack_map, "ack_map", true, kMode, Range::flag(), "D17: RFC 2018, RFC 2883",               \
    "packets ask for acknowledgements with a map of what else has come, so that none is sent "     \
    "again because its acknowledgement was lost; not with `recovery` = `paper`")                   \
  X(bool, tail_probe, "tail_probe", true, kMode, Range::flag(), "D7: RFC 8985",                    \
    "packets are retransmitted to ask for an acknowledgement when none comes, on other paths")     \
  X(uint32_t, timeout_tries, "timeout_tries", 16, kMode, Range::packets(1, 64), "D19",             \
    "packets that leave at a timeout, at least, while nothing has ever come back to the stream: "  \
    "what is lost, and copies of the last one, on random paths; with `tail_probe` and "            \
    "`path_policy` = `recycled` or `reps`")                                                        \
  X(Recovery, recovery, "recovery", Recovery::kMp, kMode, Range::choice(),                         \
    "`mp`: D1; `paper`: paper 3.2, 3.4; `irn`: IRN",                                               \
    "the loss detector: which packets are lost, in flight, retransmitted; `paper` counts with "    \
    "`inflate` and retransmits every PSN from a hole on; `irn` takes all reordering for loss, "    \
    "once in a recovery")                                                                          \
  X(bool, go_back_0, "go_back_0", false, kMode, Range::flag(), "RDMA at scale 4.1",                \
    "a lost packet begins its message again, at both ends, in place of go-back-N; mode `roce` "    \
    "only, and only if the peer does the same")                                                    \
  X(Duration, rto_floor, "rto_floor_us", Duration::ms(4), kDevice,                                 \
    Range::microseconds(50, 1'000'000), "RFC 6298",                                                \
    "floor of the retransmission timeout, max(this, 4 SRTT, SRTT + 4 RTTVAR); the verbs' timeout " \
    "limits it")                                                                                   \
  X(Duration, rto_low, "rto_low_us", Duration::zero(), kMode,                                      \
    Range::microseconds(10, 1'000'000).or_zero(), "IRN",                                           \
    "RTO_low: the retransmission timeout while at most 3 packets are in flight, and `rto_high` "   \
    "with more, in place of the one that follows the round trip; both at least SRTT + 4 RTTVAR "   \
    "with `adapt_timeout`; 0: there is one timeout")                                               \
  X(Duration, rto_high, "rto_high_us", Duration::zero(), kMode,                                    \
    Range::microseconds(10, 1'000'000).or_zero(), "IRN",                                           \
    "RTO_high, with `rto_low` only, and not below it")                                             \
  X(Duration, rto_ceiling, "rto_ceiling_us", Duration::ms(500), kDevice,                           \
    Range::microseconds(50, 10'000'000), "RFC 6298",                                               \
    "ceiling of the retransmission timeout, which doubles at each expiry; the verbs' timeout "     \
    "limits it, too")                                                                              \
  X(Duration, probe_floor, "probe_floor_us", Duration::us(40), kDevice,                            \
    Range::microseconds(5, 1'000'000), "D7: RFC 8985",                                             \
    "the first tail probe leaves after max(this, 2 SRTT, SRTT + 4 RTTVAR, largest RTT of late + "  \
    "SRTT/4) without a new acknowledgement")                                                       \
  X(Duration, initial_rtt, "initial_rtt_us", Duration::us(50), kDevice,                            \
    Range::microseconds(1, 100'000), "own value", "SRTT before the first sample")                  \
  X(cc::WindowControl, window_control, "window_control", cc::WindowControl::kMp, kMode,            \
    Range::choice(),                                                                               \
    "`mp`: paper 3.2; `dctcp`: RFC 8257; `swift`: algorithm 1; "                                   \
    "`nscc`: Ultra Ethernet 1.0; `fixed`: IRN",                                                    \
    "the congestion control of the window; in mode `roce` `mp` stands for `window_max` packets; "  \
    "`fixed` keeps `initial_window` (BDP-FC)")                                                     \
  X(PathPolicy, path_policy, "path_policy", PathPolicy::kRecycled, kMode, Range::choice(),         \
    "`ack-clocked`: paper 3.2; `recycled`: D15",                                                   \
    "the choice of each packet's virtual path; modes `roce` and `irn` have only `single`")         \
  X(uint32_t, path_probe_per_mille, "path_probe_per_mille", 10, kMode, Range::per_mille(),         \
    "paper 3.5", "p: chance, drawn once per SRTT, that a packet explores a new random path")       \
  X(Duration, path_probe_interval, "path_probe_interval_us", Duration::ms(10), kMode,              \
    Range::microseconds(100, 10'000'000).or_zero(), "D13",                                         \
    "a packet explores a new random path this often on average, at most in every tenth round "     \
    "trip, even where p alone would wait longer; 0, or p = 0: p alone")                            \
  X(bool, own_ack_credit, "own_ack_credit", true, kMode, Range::flag(), "D14",                     \
    "the room of a packet waits for its own acknowledgement, and is used on the path which that "  \
    "one echoes; room that no acknowledgement brings is used on random paths; not with "           \
    "`recovery` = `paper`")                                                                        \
  X(bool, path_window_reduction, "path_window_reduction", true, kMode, Range::flag(), "paper 3.5", \
    "an acknowledgement that finds nothing to send takes one packet from the window")              \
  X(bool, window_give_back, "window_give_back", true, kMode, Range::flag(), "D8",                  \
    "what path window reduction took returns when the application has packets again, on random "   \
    "paths and up to the initial window")                                                          \
  X(bool, window_spacing, "window_spacing", true, kMode, Range::flag(), "D18",                     \
    "where a window of one packet is too much, packets are spaced further than a round trip "      \
    "apart; `window_control` = `mp`, or `swift` with `base_rtt_us`")                               \
  X(RestartRule, restart, "restart", RestartRule::kUncongested, kMode, Range::choice(),            \
    "`idle`: paper 3.5; `uncongested`: D9",                                                        \
    "the initial window on random paths after 3 SRTT without an outstanding packet (`idle`); or "  \
    "at least the initial window after 30 SRTT without a sign of congestion, and all paths stay")  \
  X(bool, sync_wait_is_backlog, "sync_wait_is_backlog", true, kMode, Range::flag(), "D10",         \
    "packets that wait only for the delay of a synchronise operation count as backlog")            \
  X(PlacementPolicy, placement, "placement", PlacementPolicy::kStandard, kDevice, Range::choice(), \
    "`relaxed`: paper 3.5",                                                                        \
    "when WRITE and READ data reaches memory; in mode `irn` always in order")                      \
  X(SyncPolicy, sync_policy, "sync_policy", SyncPolicy::kOptimistic, kDevice, Range::choice(),     \
    "paper 3.5", "how an operation with the synchronise flag stays behind earlier operations")     \
  X(Fixed16, sync_alpha, "sync_alpha", Fixed16::from_int(1), kDevice, Range::number(0, 16),        \
    "paper 3.5",                                                                                   \
    "alpha: an optimistic synchronise operation leaves alpha * delta * SRTT / cwnd after the "     \
    "packets before it")                                                                           \
  X(Congestion, congestion, "congestion", Congestion::kNone, kMode, Range::choice(), "DCQCN",      \
    "the congestion control that limits the rate of a connection; in mode `mp` beside the "        \
    "windows")                                                                                     \
  X(uint32_t, link_mbps, "link_mbps", 0, kLink, Range::mbps(1, 1'000'000).or_zero(), "DCQCN 3.1",  \
    "rate of the host's link, at which DCQCN begins; 0: the rate that the port reports")           \
  X(Duration, base_rtt, "base_rtt_us", Duration::zero(), kDevice,                                  \
    Range::microseconds(1, 100'000).or_zero(), "TIMELY algorithm 1",                               \
    "round trip of the empty network, from which a control by delay counts; 0: the smallest that " \
    "the connection has measured")                                                                 \
  X(Duration, target_delay, "target_delay_us", Duration::zero(), kDevice,                          \
    Range::microseconds(1, 1'000'000).or_zero(), "Swift algorithm 1; uet-htsim",                   \
    "delay of the queues that a window by delay allows; 0: as long as the base round trip")        \
  X(Duration, timely_low, "timely_low_us", Duration::us(50), kDevice,                              \
    Range::microseconds(1, 100'000), "TIMELY algorithm 1; CoNEXT 2016",                            \
    "T_low: below this round trip TIMELY always raises the rate")                                  \
  X(Duration, timely_high, "timely_high_us", Duration::us(500), kDevice,                           \
    Range::microseconds(1, 1'000'000), "TIMELY algorithm 1; CoNEXT 2016",                          \
    "T_high: above this round trip TIMELY always lowers the rate; not below T_low")

// The presets of design 3: X(enumerator, name, expression that makes it). The functions of Params
// (params.hpp) that the expressions call hold each preset's differences.
#define MPRDMA_PRESETS(X)                                           \
  X(kMp, "mp", mp())                                                \
  X(kMpSingle, "mp-single", mp_single())                            \
  X(kMpFigures, "mp-figures", mp_figures())                         \
  X(kMpPaper, "mp-paper", mp_paper())                               \
  X(kRoce, "roce", roce_with(Congestion::kNone))                    \
  X(kDcqcnPaper, "dcqcn-paper", roce_with(Congestion::kDcqcnPaper)) \
  X(kDcqcnTuned, "dcqcn-tuned", roce_with(Congestion::kDcqcnTuned)) \
  X(kRoceGb0, "roce-gb0", roce_gb0())                               \
  X(kIrn, "irn", irn())                                             \
  X(kSprayNscc, "spray-nscc", spray_nscc())                         \
  X(kSwiftPlb, "swift-plb", swift_plb())
