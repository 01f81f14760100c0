// Execution of work requests that never leave the host: LOCAL_INV and BIND_MW
// (IBTA 10.6.5, 10.6.7). Their queue (send_queue.hpp; unreliable/uc_connection.cpp) decides when
// they run.
#pragma once

#include "transport/work/qp_core.hpp"

namespace mprdma::transport {

constexpr bool is_local_work(WorkOpcode opcode) {
  return opcode == WorkOpcode::kLocalInvalidate || opcode == WorkOpcode::kBindMw;
}

struct LocalOutcome {
  WcStatus status = WcStatus::kSuccess;
  uint32_t vendor_err = 0;
};

// `Work` has the fields of a SendRequest; the queue ABI (struct send_wqe) gives them a meaning for
// these opcodes.
template <class Work>
LocalOutcome perform_local_work(QpCore& core, const Work& work) {
  if (core.local_work_done > 0) {
    --core.local_work_done;
    return {};
  }
  MemoryTable& memory = *core.device.memory;
  if (work.opcode == WorkOpcode::kLocalInvalidate) {
    // The error of an invalidation is a memory management operation error (IBTA 11.6.2), for which
    // the verbs have no status; adapters report the error of a bind (mlx5, irdma).
    const bool done = memory.invalidate(Key(work.imm_or_rkey), core.config.pd, core.config.qpn);
    return {.status = done ? WcStatus::kSuccess : WcStatus::kMwBindError};
  }
  const BindError error = memory.bind({.pd = core.config.pd,
                                       .qpn = core.config.qpn,
                                       .window = work.rkey,
                                       .new_key = Key(work.imm_or_rkey),
                                       .region = Key(static_cast<uint32_t>(work.swap)),
                                       .access = work.remote_qkey,
                                       .addr = work.remote_addr,
                                       .length = work.compare_add});
  if (error == BindError::kNone) return {};
  return {.status = WcStatus::kMwBindError, .vendor_err = static_cast<uint32_t>(error)};
}

// The number of a queue's local requests that have run. `Queue` is a ring of works.
template <class Queue>
uint32_t count_local_work_done(const Queue& queue) {
  uint32_t done = 0;
  for (uint32_t i = 0; i < queue.size(); ++i) {
    const auto& work = queue[i];
    if (is_local_work(work.opcode) && work.begun && work.status == WcStatus::kSuccess) ++done;
  }
  return done;
}

}  // namespace mprdma::transport
