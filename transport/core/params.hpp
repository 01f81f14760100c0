// The parameters of a queue pair's transport, and the presets that set them. Unit, range and source
// of each stand in param_list.hpp.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/fixed_point.hpp"
#include "base/units.hpp"
#include "transport/core/param_list.hpp"
#include "transport/core/param_words.hpp"

namespace mprdma::transport {

// Most packets of a stream between the oldest that is still open and the newest: well below 2^23,
// where serial numbers wrap.
inline constexpr uint32_t kStreamSpanMax = 1u << 22;

// Most packets that one acknowledgement clocks out (burst control, paper 3.5).
inline constexpr uint32_t kBurstPackets = 2;
// Of 1000 round trips, the most that explore a path because of their length [deviation].
inline constexpr int64_t kExploreMax = 100;
// SRTT that a packet which explores a path has at least before it is late: the path may have a
// queue [deviation].
inline constexpr int64_t kExploredTrip = 2;
// SRTT until a tail probe up to which a packet that is alone in its round trip explores as often as
// others [deviation].
inline constexpr int64_t kExploredWait = 2;
// Packets of a stream that wait for the wire, above which its window does not grow [deviation].
inline constexpr uint32_t kWireBacklogMax = 8;
// Idle time before a restart, in SRTT (paper 3.5).
inline constexpr int64_t kRestartRtts = 3;
// Time without a sign of congestion, in SRTT, after which an idle connection may send the initial
// window at once [deviation].
inline constexpr int64_t kForgetCongestionRtts = 30;
// Packets in flight, up to which a retransmission timeout is RTO_low (IRN: N = 3).
inline constexpr uint32_t kRtoLowPackets = 3;
// A transport timer of the verbs below this does not shorten the retransmission timeout further.
inline constexpr Duration kTimeoutLimitMin = Duration::ms(64);

#define MPRDMA_PRESET_ENUMERATOR_(enumerator, name, make) enumerator,
#define MPRDMA_PRESET_NAME_(enumerator, name, make) name ""sv,
#define MPRDMA_PRESET_CASE_(enumerator, name, make) \
  case Preset::enumerator:                          \
    return make;
#define MPRDMA_PARAM_MEMBER_(type, member, key, initial, scope, range, source, meaning) \
  type member = initial;

enum class Preset : uint8_t { MPRDMA_PRESETS(MPRDMA_PRESET_ENUMERATOR_) };
inline constexpr Words kPresetWords = {MPRDMA_PRESETS(MPRDMA_PRESET_NAME_)};
template <>
inline constexpr Words kWordsOf<Preset> = kPresetWords;

struct Params {
  static constexpr Params of(Preset preset);
  // mp_paper() is the paper's algorithm to the letter. mp_figures() has the deviations from the
  // paper (docs/algorithms.md) except the trigger, maps and spacing, and the paper's L.
  static constexpr Params mp() { return {}; }
  static constexpr Params mp_single();
  static constexpr Params mp_figures();
  static constexpr Params mp_paper();
  static constexpr Params roce();
  // RoCE with congestion control: the limit is the rate, not the window.
  static constexpr Params roce_with(Congestion congestion);
  // RoCE as its first adapters recovered: a loss begins the message again.
  static constexpr Params roce_gb0();
  // Selective retransmission on one path, BDP-FC, two timeouts (IRN).
  static constexpr Params irn();
  // What Ultra Ethernet and Google publish, over the extended mode and its loss detector.
  static constexpr Params spray_nscc();
  static constexpr Params swift_plb();

  // Sets the congestion control. In the mode roce it also sets the preset (that of a controller
  // without one of its own is roce, or roce-gb0), and raises window_max to kRateWindow unless
  // `which` is kNone, so a caller sets its own window_max afterwards; nothing lowers the window
  // again. In the mode mp it sets nothing else: windows and the rate both hold.
  constexpr void set_congestion(Congestion which);
  // Sets the values that follow from single parameters; called after those were set.
  constexpr void settle();

  // The preset that these parameters began as; peers are told the mode that it belongs to. Only
  // set_congestion() and settle() change it, no single parameter does.
  Preset preset = Preset::kMp;
  MPRDMA_PARAMS(MPRDMA_PARAM_MEMBER_)

  constexpr bool operator==(const Params&) const = default;
};

constexpr Params Params::mp_single() {
  Params p;
  p.preset = Preset::kMpSingle;
  p.path_policy = PathPolicy::kSingle;
  return p;
}

constexpr Params Params::mp_figures() {
  Params p;
  p.preset = Preset::kMpFigures;
  p.window_slots = 64;
  p.window_rtt = Duration::zero();
  p.loss_trigger = 0;
  p.ack_map = false;
  p.window_spacing = false;
  return p;
}

constexpr Params Params::mp_paper() {
  Params p = mp_figures();
  p.preset = Preset::kMpPaper;
  p.window_max = kSendSpanMin;
  p.limit_growth = false;
  p.loss_shrinks_window = false;
  p.timeout_shrinks_window = false;
  p.adapt_timeout = false;
  p.loss_by_time = false;
  p.path_policy = PathPolicy::kAckClocked;
  p.tail_probe = false;
  p.timeout_tries = 1;
  p.recovery = Recovery::kPaper;
  p.path_probe_interval = Duration::zero();
  p.own_ack_credit = false;
  p.window_give_back = false;
  p.sync_wait_is_backlog = false;
  p.restart = RestartRule::kIdle;
  return p;
}

// RoCE uses window_max (packets that may be unacknowledged), rto_floor (the shortest transport
// timer), link_mbps and go_back_0; with a window_control also what that one uses.
constexpr Params Params::roce() {
  Params p;
  p.preset = Preset::kRoce;
  p.protocol = Protocol::kRoce;
  p.path_policy = PathPolicy::kSingle;
  p.window_max = 64;
  p.initial_window = 64;
  return p;
}

// In the mode roce the window control `mp` stands for none: window_max packets.
constexpr bool controls_roce_window(const Params& params) {
  return params.window_control != cc::WindowControl::kMp;
}

// The papers of the rate controllers have no window. This one, in packets, exceeds what a network
// holds of one flow (a bandwidth-delay product and a port's buffer of 1 MB), so that the rate stays
// the limit.
inline constexpr uint32_t kRateWindow = 1024;

constexpr Params Params::roce_with(Congestion congestion) {
  Params p = roce();
  p.set_congestion(congestion);
  return p;
}

constexpr Params Params::roce_gb0() {
  Params p = roce();
  p.preset = Preset::kRoceGb0;
  p.go_back_0 = true;
  return p;
}

// The timeouts are those of IRN's slides for 40 Gb/s; where hosts take longer, they follow
// (adapt_timeout).
constexpr Params Params::irn() {
  Params p;
  p.preset = Preset::kIrn;
  p.protocol = Protocol::kIrn;
  p.recovery = Recovery::kIrn;
  p.path_policy = PathPolicy::kSingle;
  p.placement = PlacementPolicy::kOrdered;
  p.window_control = cc::WindowControl::kFixed;
  p.loss_trigger = 0;
  p.loss_by_time = false;
  p.tail_probe = false;
  p.ack_map = false;
  p.own_ack_credit = false;
  p.window_spacing = false;
  p.rto_low = Duration::us(100);
  p.rto_high = Duration::us(320);
  return p;
}

// REPS sends on unequal paths as well, so that a distance of PSNs says nothing of a loss: times do.
constexpr Params Params::spray_nscc() {
  Params p;
  p.preset = Preset::kSprayNscc;
  p.path_policy = PathPolicy::kReps;
  p.window_control = cc::WindowControl::kNscc;
  p.loss_trigger = 0;
  return p;
}

constexpr Params Params::swift_plb() {
  Params p;
  p.preset = Preset::kSwiftPlb;
  p.path_policy = PathPolicy::kPlb;
  p.window_control = cc::WindowControl::kSwift;
  return p;
}

constexpr void Params::set_congestion(Congestion which) {
  congestion = which;
  if (protocol != Protocol::kRoce) return;
  if (which != Congestion::kNone && window_max < kRateWindow) window_max = kRateWindow;
  preset = which == Congestion::kDcqcnPaper   ? Preset::kDcqcnPaper
           : which == Congestion::kDcqcnTuned ? Preset::kDcqcnTuned
           : go_back_0                        ? Preset::kRoceGb0
                                              : Preset::kRoce;
}

constexpr void Params::settle() {
  if (protocol == Protocol::kRoce) {
    // Without a window control nothing is smaller than window_max.
    if (initial_window > window_max) initial_window = window_max;
    if (preset == Preset::kRoce || preset == Preset::kRoceGb0) {
      preset = go_back_0 ? Preset::kRoceGb0 : Preset::kRoce;
    }
  } else if (protocol == Protocol::kMp && preset != Preset::kMpPaper) {
    // The number of paths is what distinguishes the two presets.
    const bool single = path_policy == PathPolicy::kSingle;
    if (single) preset = Preset::kMpSingle;
    if (!single && preset == Preset::kMpSingle) preset = Preset::kMp;
  }
}

constexpr Params Params::of(Preset preset) {
  switch (preset) { MPRDMA_PRESETS(MPRDMA_PRESET_CASE_) }
  return mp();
}

}  // namespace mprdma::transport
