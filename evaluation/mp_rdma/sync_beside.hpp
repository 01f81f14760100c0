// What synchronise messages cost where their delay is too short (figure 18).
#pragma once

#include <cstddef>
#include <cstdint>

#include "evaluation/batch.hpp"
#include "evaluation/figure.hpp"

namespace mprdma::figures {

// Numbers of groups of runs.
struct SyncBeside {
  size_t optimistic;
  size_t waiting;
};
SyncBeside add_sync_beside(uint32_t seeds, bool ci, Batch* batch);
// Once the batch has run.
void claim_sync_beside(const Batch& batch, const SyncBeside& groups, FigureResult* out);

}  // namespace mprdma::figures
