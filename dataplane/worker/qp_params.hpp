// Between the queue ABI and the transport's tunables and statistics of one queue pair: the preset
// of a mode, the numbers that may replace the preset's, and the statistics of streams.
// No state; any thread, but for fill_qp_stats(), which reads a queue pair under the engine's lock.
#pragma once

#include "abi/mprdma_abi.h"
#include "base/units.hpp"
#include "dataplane/port/port.hpp"
#include "dataplane/worker/qp_context.hpp"
#include "transport/core/params.hpp"

namespace mprdma::dataplane {

// Parameters of a new queue pair. `configured`: the device's parameters. 0, EINVAL (no such mode, a
// number out of range or at odds with another), or EOPNOTSUPP (a mode that is not built).
int choose_params(const mprdma_abi_qp_transport& wanted, const transport::Params& configured,
                  transport::Params* out);

// Parameters for a mode and a window that were agreed with the peer: values requested at creation
// and the device's configuration stay as far as they apply to that mode.
int agreed_params(const mprdma_abi_qp_transport& wanted, const transport::Params& configured,
                  uint32_t mode, uint32_t window_slots, transport::Params* out);

// The preferences that a queue pair with these parameters tells its peer. `agrees`: RC, and no mode
// is pinned.
PairNegotiation::Preferences pair_preferences(const transport::Params& params, bool agrees);

// The mode of the preset behind these parameters, never MPRDMA_ABI_MODE_DEFAULT.
mprdma_abi_transport_mode mode_of(const transport::Params& params);

// True if the packets carry ECT: a control that reacts to marks was chosen, or is the mode's own.
bool answers_marks(const QpContext& qp);

// Sets what follows from the port's link: its rate, at which DCQCN begins (a fast one where the
// port does not know its own, as in the verbs' port attributes), and windows that follow the
// network.
void settle_link(const PortInfo& port, transport::Params* params);

void fill_qp_stats(const QpContext& qp, Time now, mprdma_abi_qp_stats* out);

}  // namespace mprdma::dataplane
