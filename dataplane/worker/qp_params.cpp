#include "dataplane/worker/qp_params.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/core/follow_network.hpp"
#include "transport/core/param_check.hpp"

namespace mprdma::dataplane {

using transport::Params;
using transport::Preset;
using transport::StreamStats;

namespace {

constexpr uint32_t kUnknownLinkMbps = 100'000;

// A mode is the algorithm and its numbers; what the device was told of its network's times, of
// placement and of its link stays.
Params preset_on(const Params& configured, Preset which) {
  Params out = Params::of(which);
  transport::for_each_param([&](const transport::Param& param, auto member) {
    if (param.scope != transport::ParamScope::kMode) out.*member = configured.*member;
  });
  // As the device follows its network, or not.
  if (configured.window_rtt == Duration::zero()) out.window_rtt = Duration::zero();
  if (out.protocol != transport::Protocol::kRoce) {
    transport::set_slots(transport::slots_for_link(out), &out);
  }
  return out;
}

int choose_preset(uint32_t mode, const Params& configured, Params* out) {
  switch (mode) {
    case MPRDMA_ABI_MODE_DEFAULT:
      *out = configured;
      return 0;
    case MPRDMA_ABI_MODE_MP:
      *out = preset_on(configured, Preset::kMp);
      return 0;
    case MPRDMA_ABI_MODE_MP_PAPER:
      *out = preset_on(configured, Preset::kMpPaper);
      return 0;
    case MPRDMA_ABI_MODE_MP_SINGLE:
      *out = preset_on(configured, Preset::kMpSingle);
      return 0;
    case MPRDMA_ABI_MODE_ROCE:
      *out = preset_on(configured, Preset::kRoce);
      return 0;
    case MPRDMA_ABI_MODE_IRN:
      *out = preset_on(configured, Preset::kIrn);
      return 0;
    default:
      return EINVAL;
  }
}

mprdma_abi_stream_stats to_abi(const StreamStats& from) {
  mprdma_abi_stream_stats to{};
  to.window_q16 = from.window_raw;
  to.in_flight = from.in_flight;
  to.srtt_ns = from.srtt_ns > 0 ? static_cast<uint64_t>(from.srtt_ns) : 0;
  to.paths_in_use = from.paths_in_use;
  to.ooo_degree = from.ooo_degree;
  to.ooo_degree_max = from.ooo_degree_max;
  to.packets_sent = from.packets_sent;
  to.retransmitted = from.retransmitted;
  to.retransmitted_nack = from.retransmitted_nack;
  to.retransmitted_trigger = from.retransmitted_trigger;
  to.retransmitted_early = from.retransmitted_early;
  to.retransmitted_rto = from.retransmitted_rto;
  to.retransmitted_probe = from.retransmitted_probe;
  to.rto_expired = from.rto_expired;
  to.ece_received = from.ece_received;
  to.acks_pruned = from.acks_pruned;
  to.path_probes = from.path_probes;
  to.random_paths = from.random_paths;
  to.restarts = from.restarts;
  to.window_reductions = from.window_reductions;
  return to;
}

}  // namespace

int choose_params(const mprdma_abi_qp_transport& wanted, const Params& configured, Params* out) {
  for (const uint32_t reserved : wanted.reserved) {
    if (reserved != 0) return EINVAL;
  }
  const bool as_configured = wanted.mode == MPRDMA_ABI_MODE_DEFAULT && wanted.initial_window == 0 &&
                             wanted.window_max == 0 && wanted.reorder_delta == 0 &&
                             wanted.window_slots == 0;
  if (as_configured) {
    *out = configured;
    return 0;
  }
  Params params;
  const int error = choose_preset(wanted.mode, configured, &params);
  if (error != 0) return error;
  // A window that is named stays.
  if (wanted.initial_window != 0 || wanted.window_max != 0) params.window_rtt = Duration::zero();
  if (wanted.window_slots != 0) {
    params.window_slots = wanted.window_slots;
    // A smaller window brings down what has to lie within it, unless that was named as well.
    params.initial_window = std::min(params.initial_window, params.window_slots);
    const uint32_t delta_min = transport::param_range(&Params::reorder_delta).low;
    params.reorder_delta =
        std::min(params.reorder_delta, std::max(params.window_slots / 2, delta_min));
    if (params.loss_trigger >= params.window_slots) params.loss_trigger = 0;
  }
  if (wanted.window_max != 0) {
    params.window_max = wanted.window_max;
    params.initial_window = std::min(params.initial_window, params.window_max);
  }
  if (wanted.initial_window != 0) {
    params.initial_window = wanted.initial_window;
    if (wanted.window_max == 0) {
      params.window_max = std::max(params.window_max, params.initial_window);
    }
  }
  if (wanted.reorder_delta != 0) params.reorder_delta = wanted.reorder_delta;
  if (!find_fault(params).key.empty()) return EINVAL;
  *out = params;
  return 0;
}

int agreed_params(const mprdma_abi_qp_transport& wanted, const Params& configured, uint32_t mode,
                  uint32_t window_slots, Params* out) {
  using transport::Protocol;
  // How many paths are used, and what answers to congestion, is the sender's business: to the peer
  // mp with one path is still mp, and RoCE with DCQCN still roce.
  const bool as_configured =
      (configured.protocol == Protocol::kMp && mode == MPRDMA_ABI_MODE_MP) ||
      (configured.protocol == Protocol::kRoce && mode == MPRDMA_ABI_MODE_ROCE) ||
      (configured.protocol == Protocol::kIrn && mode == MPRDMA_ABI_MODE_IRN);
  if (mode == MPRDMA_ABI_MODE_ROCE) {
    *out = as_configured ? configured : preset_on(configured, Preset::kRoce);
    return 0;
  }
  mprdma_abi_qp_transport agreed = wanted;
  agreed.mode = as_configured ? uint32_t{MPRDMA_ABI_MODE_DEFAULT} : mode;
  Params preset;
  const int error = choose_preset(agreed.mode, configured, &preset);
  if (error != 0) return error;
  agreed.window_slots = window_slots != preset.window_slots ? window_slots : 0;
  // The requested value fits our own window; the peer's may be smaller.
  agreed.initial_window = std::min<uint32_t>(agreed.initial_window, window_slots);
  agreed.reorder_delta = std::min<uint32_t>(agreed.reorder_delta, window_slots);
  return choose_params(agreed, configured, out);
}

PairNegotiation::Preferences pair_preferences(const Params& params, bool agrees) {
  PairNegotiation::Preferences out;
  out.negotiates = true;
  out.abilities = 1u << MPRDMA_ABI_MODE_MP | 1u << MPRDMA_ABI_MODE_MP_PAPER |
                  1u << MPRDMA_ABI_MODE_MP_SINGLE | 1u << MPRDMA_ABI_MODE_IRN |
                  1u << MPRDMA_ABI_MODE_ROCE;
  out.pinned = agrees ? wire::PairMode::kNone : static_cast<wire::PairMode>(mode_of(params));
  out.window_slots = static_cast<uint16_t>(params.window_slots);
  out.ordered = params.placement == transport::PlacementPolicy::kOrdered;
  return out;
}

mprdma_abi_transport_mode mode_of(const Params& params) {
  switch (params.preset) {
    case Preset::kMp:
    case Preset::kMpFigures:
    case Preset::kSprayNscc:
    case Preset::kSwiftPlb:
      return MPRDMA_ABI_MODE_MP;
    case Preset::kMpSingle:
      return MPRDMA_ABI_MODE_MP_SINGLE;
    case Preset::kMpPaper:
      return MPRDMA_ABI_MODE_MP_PAPER;
    case Preset::kRoce:
    case Preset::kDcqcnPaper:
    case Preset::kDcqcnTuned:
    case Preset::kRoceGb0:
      return MPRDMA_ABI_MODE_ROCE;
    case Preset::kIrn:
      return MPRDMA_ABI_MODE_IRN;
  }
  return MPRDMA_ABI_MODE_MP;
}

bool answers_marks(const QpContext& qp) {
  if (qp.mode != MPRDMA_ABI_MODE_ROCE && qp.mode != MPRDMA_ABI_MODE_IRN) return true;
  const bool reliable = qp.type != MPRDMA_ABI_QP_UC && qp.type != MPRDMA_ABI_QP_UD;
  const Params& params = qp.qp.params();
  // The acknowledgements of irn echo marks, those of the standard do not.
  const bool window = qp.mode == MPRDMA_ABI_MODE_IRN && cc::needs_marks(params.window_control);
  return reliable && (window || cc::hears_cnps(params.congestion));
}

void settle_link(const PortInfo& port, Params* params) {
  if (params->link_mbps == 0) {
    // Of a rate that nobody knows no window follows.
    if (port.link_mbps == 0) params->window_rtt = Duration::zero();
    const uint64_t most = transport::param_range(&Params::link_mbps).high;
    const uint64_t mbps = port.link_mbps == 0 ? kUnknownLinkMbps : port.link_mbps;
    params->link_mbps = static_cast<uint32_t>(std::min(mbps, most));
  }
  transport::set_slots(transport::slots_for_link(*params), params);
}

void fill_qp_stats(const QpContext& qp, Time now, mprdma_abi_qp_stats* out) {
  *out = mprdma_abi_qp_stats{};
  out->time_ns = static_cast<uint64_t>(now.ns());
  out->qpn = qp.qp.qpn().value();
  out->dest_qpn = qp.attr.dest_qpn;
  out->state = static_cast<uint32_t>(qp.qp.state());
  out->mode = qp.mode;
  std::memcpy(out->dgid, qp.attr.dgid, sizeof(out->dgid));
  out->bytes_out = qp.bytes_out;
  out->bytes_in = qp.bytes_in;
  out->bytes_retransmitted = qp.bytes_retransmitted;
  out->sends_outstanding = qp.qp.sends_outstanding();
  out->path_mtu = qp.attr.path_mtu;
  out->requests = to_abi(qp.qp.request_stats());
  out->responses = to_abi(qp.qp.response_stats());
}

}  // namespace mprdma::dataplane
