// What the engine itself counts: one list makes the struct, the printed names and the page.
//
// A frame that does not decode is counted by its wire::DropReason (WireDrops); what a queue pair
// refuses is in transport/core/counters.hpp; what lies between is here. Written by the worker only.
#pragma once

#include <array>
#include <cstdint>

#include "base/counters.hpp"
#include "wire/drop_reason.hpp"

namespace mprdma::dataplane {

#define MPRDMA_ENGINE_COUNTERS(X)                                                                 \
  X(bursts, "bursts that the worker ran")                                                         \
  X(bursts_posts, "posts that were sent at once, without a whole burst")                          \
  X(drop_too_long, "packets in segments that lost the ring that carried them")                    \
  X(acks_owed_late, "acknowledgements that waited in vain for an answer to leave with")           \
  X(bursts_idle, "bursts that found nothing to do")                                               \
  X(bursts_helper, "bursts that the engine's own thread ran")                                     \
  X(helper_wakeups, "times that the engine's own thread woke up")                                 \
  X(helper_looks, "times that it looked whether an application still polls, without the lock")    \
  X(poll_sleeps, "polls that slept until a frame came, as other threads wanted the core")         \
  X(poll_sleeps_late, "sleeps of polls that ended by themselves when a frame had come")           \
  X(turns_missed, "times that the worker ran 2 ms or more after a timer of a queue pair was due") \
  X(frames_in, "frames taken from the port or the loop")                                          \
  X(frames_out, "frames handed to the port or the loop")                                          \
  X(payload_bytes_in, "bytes copied from frames to registered memory")                            \
  X(payload_bytes_out, "bytes copied from registered memory to frames")                           \
  X(payload_bytes_lent, "bytes left in registered memory for the peer to read")                   \
  X(payload_bytes_pulled, "bytes read in the peer's memory; payload_bytes_in has them too")       \
  X(pulls, "times that the peer's memory was read")                                               \
  X(drop_not_pulled, "packets whose payload was not there, was taken back, or found no room")     \
  X(drop_wrong_mac, "frames for another Ethernet address")                                        \
  X(drop_wrong_destination, "packets for an IP address that is not ours")                         \
  X(drop_wrong_source, "packets from an address that is not the queue pair's peer")               \
  X(drop_unknown_qp, "packets for a queue pair number that is not in use")                        \
  X(drop_bad_pkey, "packets with a foreign partition key")                                        \
  X(drop_no_path, "packets to send while the peer's Ethernet address cannot be resolved")         \
  X(drop_no_address,                                                                              \
    "datagrams whose address handle was destroyed, or is of another protection domain")           \
  X(drop_no_group, "datagrams to a group that no queue pair is attached to")                      \
  X(drop_group_no_room, "own datagrams to a group that found the loop full")                      \
  X(drop_ack_no_room, "acknowledgements that found the wire full")                                \
  X(drop_bad_mad, "datagrams to queue pair 1 that are not for us, or answer no question")         \
  X(drop_bad_probe, "path probes that make no sense")                                             \
  X(probes_answered, "path probes of peers that were answered")                                   \
  X(probes_refused, "path probes of peers beyond the rate that is answered")                      \
  X(arp_requests_sent, "ARP requests sent")                                                       \
  X(arp_replies_sent, "ARP replies sent")                                                         \
  X(arp_received, "ARP packets taken in")                                                         \
  X(arp_conflicts, "ARP packets in which somebody else claims our address")                       \
  X(arp_not_for_us, "ARP requests for other addresses")                                           \
  X(pfc_received, "pauses of the port's peer that were obeyed, and their ends")                   \
  X(pfc_paused_us, "microseconds for which data waited because of them")                          \
  X(pfc_ignored, "pauses that were not obeyed: pfc is off, or they are of other priorities")      \
  X(drop_bad_pause, "frames of MAC Control that are no pause")                                    \
  X(neighbour_solicitations_sent, "IPv6 neighbour solicitations sent")                            \
  X(neighbour_advertisements_sent, "answers to those of peers")                                   \
  X(neighbour_messages_received, "solicitations and advertisements taken in")                     \
  X(drop_neighbour, "ICMPv6 messages that are no valid neighbour message (RFC 4861, 7.1)")        \
  X(pair_questions_sent, "questions to peers about the mode of a pair of queue pairs")            \
  X(pair_questions_received, "questions of peers about the mode of a pair of queue pairs")        \
  X(pair_answers_sent, "answers to questions of peers about the mode")                            \
  X(pair_answers_received, "answers of peers")                                                    \
  X(pair_peers_silent, "peers that did not answer")                                               \
  X(pair_modes_changed, "decisions for a mode that were taken back")                              \
  X(memory_absent, "accesses to memory registered on demand that was not there")                  \
  X(bad_work_requests, "work requests that the transport refused")                                \
  X(completions, "completion entries written")                                                    \
  X(completion_events, "completion events raised")                                                \
  X(cq_overruns, "completion queues that overran")                                                \
  X(commands, "commands executed")                                                                \
  X(top_replies, "answers to mprdma top")                                                         \
  X(top_refused, "readers of another user, or more than the few that are served at once")         \
  X(top_unavailable, "1: mprdma top cannot see this process, for want of a directory")
MPRDMA_DEFINE_COUNTERS(EngineCounters, MPRDMA_ENGINE_COUNTERS);

// Frames dropped by the decoder, by reason.
struct WireDrops {
  std::array<uint64_t, static_cast<size_t>(wire::DropReason::kCount)> count{};
  uint64_t& operator[](wire::DropReason reason) { return count[static_cast<size_t>(reason)]; }
  uint64_t operator[](wire::DropReason reason) const { return count[static_cast<size_t>(reason)]; }
};

}  // namespace mprdma::dataplane
