// Between the queue ABI and the transport's tunables and statistics of one queue pair: which preset
// a mode names, which numbers may replace its own, and how what a stream counts is told.
// No state; any thread, but for fill_qp_stats(), which reads a queue pair under the engine's lock.
#pragma once

#include "abi/mprdma_abi.h"
#include "base/units.hpp"
#include "dataplane/qp_context.hpp"
#include "transport/params.hpp"

namespace mprdma::dataplane {

// What a queue pair is made with. `configured` is the device's. 0, EINVAL (no such mode, a number
// out of range or at odds with another), or EOPNOTSUPP (a mode that is not built).
int choose_params(const mprdma_abi_qp_transport& wanted, const transport::Params& configured,
                  transport::Params* out);

// The same for a mode and a window that were agreed with the peer: what the queue pair was made
// with and the device's configuration stay as far as they mean something in that mode.
int agreed_params(const mprdma_abi_qp_transport& wanted, const transport::Params& configured,
                  uint32_t mode, uint32_t window_slots, transport::Params* out);

// What a peer is told of a queue pair with these. `agrees`: RC, and no mode is pinned.
PairNegotiation::Facts pair_facts(const transport::Params& params, bool agrees);

// The mode that these amount to, never MPRDMA_ABI_MODE_DEFAULT.
mprdma_abi_transport_mode mode_of(const transport::Params& params);

void fill_qp_stats(const QpContext& qp, Time now, mprdma_abi_qp_stats* out);

}  // namespace mprdma::dataplane
