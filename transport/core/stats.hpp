// State and counts of one sending stream of a queue pair, for mprdmadv, telemetry and figures.
// Plain integers, a copy made on demand: Qp::request_stats() for the requests that a queue pair
// sends, Qp::response_stats() for the READ data. Counts begin when the queue pair connects.
#pragma once

#include <cstdint>

#include "base/units.hpp"

namespace mprdma::transport {

struct StreamStats {
  // ---- State
  uint32_t window_raw = 0;  // congestion window, packets in Q16.16
  uint32_t in_flight = 0;   // packets
  int64_t srtt_ns = 0;      // 0: no sample yet
  // Estimate of the virtual paths that the last one or two round trips used, <= 64.
  uint32_t paths_in_use = 0;
  uint32_t ooo_degree = 0;  // estimate: packets from snd_una to the highest SACKed one
  uint32_t ooo_degree_max = 0;
  uint64_t rate_bps = 0;  // rate limit of congestion control; 0: no limit

  // ---- Counts
  uint64_t packets_sent = 0;   // first copies and retransmissions
  uint64_t retransmitted = 0;  // packets sent again
  // PSNs marked lost, by cause. The sum may exceed `retransmitted`, because a PSN that is
  // acknowledged before its copy leaves is not sent again.
  uint64_t retransmitted_nack = 0;
  uint64_t retransmitted_trigger = 0;
  uint64_t retransmitted_early = 0;
  uint64_t retransmitted_rto = 0;
  uint64_t retransmitted_sync = 0;  // refused, because their operation was too early; no loss
  // Tail probes, copies of a timeout (D19), and questions to a receiver that was not ready.
  uint64_t retransmitted_probe = 0;
  uint64_t rto_expired = 0;
  uint64_t timeouts_undone = 0;    // timeouts after which the original's acknowledgement came
  uint64_t losses_undone = 0;      // the same of single packets, and the window has come back
  uint64_t ece_received = 0;       // acknowledgements with an echo of congestion experienced
  uint64_t acks_pruned = 0;        // acknowledgements from slow paths, which were not used again
  uint64_t path_probes = 0;        // packets sent on a new path to explore it
  uint64_t random_paths = 0;       // packets whose path was drawn, for whatever reason
  uint64_t restarts = 0;           // window restarts after the application was idle
  uint64_t window_reductions = 0;  // acknowledgements that found nothing to send
};

}  // namespace mprdma::transport
