// Counters of mprdmad: one set for each port (a client's, and the wire's), and their sum.
// "In" is from the port into the daemon. What was refused counts at the port that it came from,
// what found no room at the port that it was for. Page: docs/operations.md.
#pragma once

#include "base/counters.hpp"

namespace mprdma::dataplane::mprdmad {

#define MPRDMA_STATION_COUNTERS(X)                                                            \
  X(nic_frames_in, "frames taken from the port")                                              \
  X(nic_bytes_in, "bytes of those frames")                                                    \
  X(nic_frames_out, "frames handed to the port")                                              \
  X(nic_bytes_out, "bytes of those frames")                                                   \
  X(nic_hairpin, "frames of this client for a client of the same host")                       \
  X(nic_multicast_copies, "copies made of the port's frames to groups")                       \
  X(nic_arp_questions, "ARP requests and replies taken from the port")                        \
  X(nic_arp_answers, "ARP replies sent to the port")                                          \
  X(nic_arp_requests, "ARP requests sent to the port")                                        \
  X(nic_arp_conflicts, "times that somebody else claimed our address")                        \
  X(nic_neighbour_questions, "solicitations and advertisements taken from the port")          \
  X(nic_neighbour_answers, "neighbour advertisements sent to the port")                       \
  X(nic_neighbour_requests, "neighbour solicitations sent to the port")                       \
  X(nic_pings_answered, "ICMP and ICMPv6 echo requests answered")                             \
  X(nic_cm_in, "datagrams of connection management taken from the port")                      \
  X(nic_cm_out, "datagrams of connection management sent to the port")                        \
  X(nic_probes_answered, "path probes of peers that were answered")                           \
  X(nic_probes_refused, "path probes of peers beyond the rate that is answered")              \
  X(nic_probes_sent, "path probes sent for clients")                                          \
  X(nic_probe_answers, "answers to path probes sent for clients")                             \
  X(nic_pauses, "pauses of the link, and their ends, passed on to the clients")               \
  X(nic_pauses_ignored, "pauses that were not: pfc is off, or they are of other priorities")  \
  X(nic_kernel_in, "frames that the kernel sent through the tap")                             \
  X(nic_kernel_out, "frames handed to the kernel through the tap")                            \
  X(nic_back_pressure, "turns in which the client was not read, because the wire was full")   \
  X(nic_drop_malformed, "frames that are not well-formed")                                    \
  X(nic_drop_forged, "frames in the name of another address or queue pair")                   \
  X(nic_drop_not_ours, "frames for another address, or of another protocol")                  \
  X(nic_drop_unknown_qp, "frames for a queue pair number that no client has")                 \
  X(nic_drop_management, "management datagrams that nobody takes, or of a foreign partition") \
  X(nic_drop_probe, "malformed path probes, and answers that match no path probe of ours")    \
  X(nic_drop_arp, "questions for neighbours that make no sense, or beyond the limit")         \
  X(nic_drop_full, "frames for a port that had no room")                                      \
  X(nic_drop_link_down, "frames for a port without a link, or for a wire that is not there")  \
  X(nic_drop_kernel, "frames for the kernel that the tap did not take: full, or down")        \
  X(nic_drop_long, "frames longer than the port takes")                                       \
  X(nic_drop_ring, "entries of a ring in shared memory that make no sense")
MPRDMA_DEFINE_COUNTERS(StationCounters, MPRDMA_STATION_COUNTERS);

#define MPRDMA_DAEMON_SERVER_COUNTERS(X)                                               \
  X(nic_clients_served, "processes that were given a port")                            \
  X(nic_clients_refused, "connections that were refused, with a reason")               \
  X(nic_clients_gone, "processes that went away")                                      \
  X(nic_clients_misbehaved, "connections ended because of what came, or was not read") \
  X(nic_rings_made, "direct rings made between two processes")                         \
  X(nic_rings_refused, "requests for a direct ring that were refused")                 \
  X(nic_cm_commands, "commands of connection management")                              \
  X(nic_cm_forged, "connection management commands for another client's queue pair")   \
  X(nic_cm_events, "events of connection management sent to clients")
MPRDMA_DEFINE_COUNTERS(DaemonServerCounters, MPRDMA_DAEMON_SERVER_COUNTERS);

}  // namespace mprdma::dataplane::mprdmad
