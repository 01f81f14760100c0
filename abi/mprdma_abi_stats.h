/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters of an engine, for each queue pair and in total. Included through mprdma_abi.h, whose
 * rules hold here. */
#pragma once

#include "abi/mprdma_abi_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One sending stream of a QP: requests, or the READ data that it sends as responder. */
struct mprdma_abi_stream_stats {
  uint32_t window_q16; /* congestion window, packets in Q16.16 */
  uint32_t in_flight;  /* packets */
  uint64_t srtt_ns;    /* 0: no sample yet */
  uint32_t paths_in_use;
  uint32_t ooo_degree; /* packets from the oldest unacknowledged to the highest selectively acked */
  uint32_t ooo_degree_max;
  uint32_t reserved;
  uint64_t packets_sent;       /* first copies and retransmissions */
  uint64_t retransmitted;      /* packets sent again */
  uint64_t retransmitted_nack; /* marked lost, by cause: not each of them is sent again */
  uint64_t retransmitted_trigger;
  uint64_t retransmitted_early;
  uint64_t retransmitted_rto;
  uint64_t retransmitted_probe;
  uint64_t rto_expired;
  uint64_t ece_received;
  uint64_t acks_pruned;
  uint64_t path_probes;
  uint64_t random_paths;
  uint64_t restarts;
  uint64_t window_reductions;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_stream_stats) == 144);

/* QUERY_QP_STATS: mprdma_abi_handle -> this. Counts begin when the QP connects. A later minor may
 * append: an engine writes the smaller of out_bytes and what it knows, never less than this. */
struct mprdma_abi_qp_stats {
  uint64_t time_ns; /* the engine's monotonic clock when this was read */
  uint32_t qpn;
  uint32_t dest_qpn;
  uint32_t state;     /* enum mprdma_abi_qp_state */
  uint32_t mode;      /* enum mprdma_abi_transport_mode; DEFAULT: not agreed with the peer yet */
  uint8_t dgid[16];   /* the peer; 0 before RTR */
  uint64_t bytes_out; /* payload sent, each byte once; requests and READ data together */
  uint64_t bytes_in;  /* payload placed in memory */
  uint64_t bytes_retransmitted;
  uint32_t sends_outstanding; /* send requests posted and not completed */
  uint32_t path_mtu;          /* bytes */
  struct mprdma_abi_stream_stats requests;
  struct mprdma_abi_stream_stats responses;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_qp_stats) == 360);

/* QUERY_COUNTERS, output: the head, then as many entries as fit into out_bytes, by name. */
struct mprdma_abi_counters {
  uint32_t total;  /* how many there are */
  uint32_t filled; /* how many follow */
};
struct mprdma_abi_counter {
  char name[56]; /* terminated */
  uint64_t value;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_counters) == 8);
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_counter) == 64);

#ifdef __cplusplus
}
#endif
