#include "dataplane/qp_transport.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace mprdma::dataplane {

using transport::Params;
using transport::PathPolicy;
using transport::StreamStats;

namespace {

constexpr uint32_t kReorderDeltaMin = 8;  // packets, transport/params.hpp

// A mode is the algorithm and its numbers; what the device was told of its network's times and of
// placement stays.
Params preset_on(const Params& configured, Params preset) {
  preset.rto_floor = configured.rto_floor;
  preset.rto_ceiling = configured.rto_ceiling;
  preset.probe_floor = configured.probe_floor;
  preset.initial_rtt = configured.initial_rtt;
  preset.placement = configured.placement;
  preset.sync_policy = configured.sync_policy;
  preset.sync_alpha = configured.sync_alpha;
  return preset;
}

int choose_preset(uint32_t mode, const Params& configured, Params* out) {
  switch (mode) {
    case MPRDMA_ABI_MODE_DEFAULT:
      *out = configured;
      return 0;
    case MPRDMA_ABI_MODE_MP:
      *out = preset_on(configured, Params::mp());
      return 0;
    case MPRDMA_ABI_MODE_MP_PAPER:
      *out = preset_on(configured, Params::mp_paper());
      return 0;
    case MPRDMA_ABI_MODE_MP_SINGLE:
      *out = preset_on(configured, Params::mp_single());
      return 0;
    case MPRDMA_ABI_MODE_ROCE:
      *out = preset_on(configured, Params::roce());
      return 0;
    case MPRDMA_ABI_MODE_IRN:
      return EOPNOTSUPP;
    default:
      return EINVAL;
  }
}

// The ranges of transport/params.hpp.
bool good_params(const Params& params) {
  const bool slots = params.window_slots >= 8 &&
                     params.window_slots <= transport::kWindowSlotsMax &&
                     std::has_single_bit(params.window_slots);
  const bool window = params.initial_window >= 1 && params.initial_window <= params.window_slots &&
                      params.window_max >= params.initial_window &&
                      params.window_max <= transport::kSendSpanMax;
  const bool delta =
      params.reorder_delta >= kReorderDeltaMin && params.reorder_delta <= params.window_slots;
  const bool trigger = params.loss_trigger == 0 ||
                       (params.loss_trigger >= 8 && params.loss_trigger <= params.window_slots);
  return slots && window && delta && trigger;
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
  if (wanted.window_slots != 0) {
    params.window_slots = wanted.window_slots;
    // A smaller window brings down what has to lie within it, unless that was named as well.
    params.initial_window = std::min(params.initial_window, params.window_slots);
    params.reorder_delta =
        std::min(params.reorder_delta, std::max(params.window_slots / 2, kReorderDeltaMin));
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
  if (!good_params(params)) return EINVAL;
  *out = params;
  return 0;
}

int agreed_params(const mprdma_abi_qp_transport& wanted, const Params& configured, uint32_t mode,
                  uint32_t window_slots, Params* out) {
  if (mode == MPRDMA_ABI_MODE_ROCE) return choose_params({mode, 0, 0, 0, 0, {}}, configured, out);
  mprdma_abi_qp_transport agreed = wanted;
  // mp with one path is still mp to the peer: how many are used is the sender's business.
  const bool as_configured =
      configured.protocol == transport::Protocol::kMp && mode == MPRDMA_ABI_MODE_MP;
  agreed.mode = as_configured ? uint32_t{MPRDMA_ABI_MODE_DEFAULT} : mode;
  Params preset;
  const int error = choose_preset(agreed.mode, configured, &preset);
  if (error != 0) return error;
  agreed.window_slots = window_slots != preset.window_slots ? window_slots : 0;
  // What was asked for had room in our window; the peer's may be smaller.
  agreed.initial_window = std::min<uint32_t>(agreed.initial_window, window_slots);
  agreed.reorder_delta = std::min<uint32_t>(agreed.reorder_delta, window_slots);
  return choose_params(agreed, configured, out);
}

PairNegotiation::Facts pair_facts(const Params& params, bool agrees) {
  PairNegotiation::Facts facts;
  facts.negotiates = true;
  facts.abilities = 1u << MPRDMA_ABI_MODE_MP | 1u << MPRDMA_ABI_MODE_MP_PAPER |
                    1u << MPRDMA_ABI_MODE_MP_SINGLE | 1u << MPRDMA_ABI_MODE_ROCE;
  facts.pinned = agrees ? wire::PairMode::kNone : static_cast<wire::PairMode>(mode_of(params));
  facts.window_slots = static_cast<uint16_t>(params.window_slots);
  facts.ordered = params.placement == transport::PlacementPolicy::kOrdered;
  return facts;
}

mprdma_abi_transport_mode mode_of(const Params& params) {
  if (params.protocol == transport::Protocol::kRoce) return MPRDMA_ABI_MODE_ROCE;
  if (params.path_policy == PathPolicy::kSingle) return MPRDMA_ABI_MODE_MP_SINGLE;
  return params.sack_map ? MPRDMA_ABI_MODE_MP : MPRDMA_ABI_MODE_MP_PAPER;
}

void fill_qp_stats(const QpContext& qp, Time now, mprdma_abi_qp_stats* out) {
  *out = mprdma_abi_qp_stats{};
  out->time_ns = static_cast<uint64_t>(now.ns());
  out->qpn = qp.qp.qpn();
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
