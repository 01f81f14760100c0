// What the transport counts, per device; one list makes the struct, the names and the page.
#pragma once

#include "base/counters.hpp"

namespace mprdma::transport {

#define MPRDMA_TRANSPORT_COUNTERS(X)                                                             \
  X(packets_sent, "data packets handed to the host, first copies and retransmissions")           \
  X(packets_retransmitted, "data packets sent again, for whatever cause")                        \
  X(copies_needless, "data packets sent again that had arrived before, as the peer told")        \
  X(acks_lost_told, "data packets that a map told of, whose own acknowledgement was lost")       \
  X(retransmitted_nack, "PSNs marked lost because a NACK named them")                            \
  X(retransmitted_trigger, "PSNs marked lost far below the highest SACKed PSN")                  \
  X(retransmitted_early, "PSNs marked lost by time; mp-paper: sent again for want of new data")  \
  X(retransmitted_rto, "PSNs marked lost by a retransmission timeout")                           \
  X(retransmitted_sync, "PSNs whose synchronise operation came too early")                       \
  X(tail_probes, "tail probes sent, and copies of a timeout before anything came back")          \
  X(rto_expired, "retransmission timeouts")                                                      \
  X(timeouts_undone, "timeouts that an acknowledgement of the original proved too early")        \
  X(losses_undone, "packets held for lost that arrived, and gave back what that took")           \
  X(acks_sent, "acknowledgements made")                                                          \
  X(acks_received, "acknowledgements taken")                                                     \
  X(nacks_sent, "negative acknowledgements made")                                                \
  X(nacks_received, "negative acknowledgements taken")                                           \
  X(acks_pruned, "acknowledgements of paths that are too slow: not used again")                  \
  X(path_probes, "data packets sent to a new path to try it")                                    \
  X(window_reductions, "acknowledgements that found nothing to send: one packet of window less") \
  X(window_restarts, "streams that have the initial window again after a pause")                 \
  X(ece_received, "acknowledgements with an echo of congestion experienced")                     \
  X(hardware_events, "events that a SmartNIC was told, which keeps the sending halves")          \
  X(hardware_left, "streams that went on in software, as their SmartNIC chose other packets")    \
  X(packets_received, "data packets taken in")                                                   \
  X(packets_out_of_order, "data packets taken in ahead of their turn")                           \
  X(packets_placed_early, "data packets placed ahead of their turn")                             \
  X(rnr_sent, "receiver-not-ready NACKs made")                                                   \
  X(rnr_received, "receiver-not-ready NACKs taken")                                              \
  X(naks_implied, "RoCE responses that a later answer proves lost: asked for again")             \
  X(reads_again, "duplicate RoCE READ requests: executed anew")                                  \
  X(atomics_replayed, "duplicate RoCE atomic requests: answered with the first result")          \
  X(cnps_sent, "congestion notification packets made")                                           \
  X(cnps_received, "congestion notification packets taken")                                      \
  X(drop_duplicate, "data packets that had arrived before")                                      \
  X(drop_window_overflow, "data packets beyond the receive window")                              \
  X(drop_sync_too_early, "synchronise packets that came before what they follow")                \
  X(drop_held_budget, "out-of-order packets whose queue pair had its share of the held frames")  \
  X(drop_bad_state, "packets for a queue pair that cannot take them in its state")               \
  X(drop_undecided, "packets for a queue pair whose mode is not agreed yet")                     \
  X(drop_wrong_mode, "packets of a transport mode that the queue pair does not speak")           \
  X(drop_bad_qkey, "datagrams with a Q_Key that is not the queue pair's")                        \
  X(drop_no_receive, "unreliable messages that found no receive")                                \
  X(drop_too_long, "datagrams for which the next receive is too small")                          \
  X(drop_message_cut, "packets of unreliable messages of which one before was lost or refused")  \
  X(drop_out_of_sequence, "RoCE requests and responses that came after one that is missing")     \
  X(drop_ghost_ack, "acknowledgements of what was never sent")                                   \
  X(drop_stale_ack, "acknowledgements that say nothing new")                                     \
  X(drop_bad_packet, "packets whose fields contradict each other")                               \
  X(errors_remote, "requests of the peer answered with a terminal NAK")                          \
  X(errors_local, "work requests that ended in a local error")                                   \
  X(retry_exceeded, "queue pairs that gave up on a silent peer")                                 \
  X(rnr_retry_exceeded, "queue pairs that gave up on a peer that is never ready")
MPRDMA_DEFINE_COUNTERS(TransportCounters, MPRDMA_TRANSPORT_COUNTERS);

}  // namespace mprdma::transport
