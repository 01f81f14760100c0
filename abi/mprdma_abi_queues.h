/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue ABI's memory: rings of send, receive and completion entries, their doorbell records,
 * and the doorbell page. Included through mprdma_abi.h, whose rules hold here.
 */
#pragma once

#include "abi/mprdma_abi_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Send queue ------------------------------------------------------------------------------
 * A slot is one mprdma_abi_send_wqe followed by max_sge mprdma_abi_sge entries or by max_inline
 * bytes of data; the stride is chosen by the provider: a multiple of 64 that holds the larger.
 */
enum mprdma_abi_send_opcode {
  MPRDMA_ABI_SEND = 0,
  MPRDMA_ABI_SEND_IMM = 1,
  MPRDMA_ABI_SEND_INVALIDATE = 2,
  MPRDMA_ABI_WRITE = 3,
  MPRDMA_ABI_WRITE_IMM = 4,
  MPRDMA_ABI_READ = 5,
  MPRDMA_ABI_COMPARE_SWAP = 6,
  MPRDMA_ABI_FETCH_ADD = 7,
  MPRDMA_ABI_LOCAL_INVALIDATE = 8,
  MPRDMA_ABI_BIND_MW = 9,
  MPRDMA_ABI_ATOMIC_WRITE = 10, /* RC, XRC: a WRITE of 8 aligned bytes, which change at once */
};

#define MPRDMA_ABI_WQE_SIGNALED (1u << 0)
#define MPRDMA_ABI_WQE_SOLICITED (1u << 1)
#define MPRDMA_ABI_WQE_FENCE (1u << 2)
#define MPRDMA_ABI_WQE_INLINE (1u << 3)      /* inline_bytes of data follow instead of SGEs */
#define MPRDMA_ABI_WQE_SYNCHRONISE (1u << 4) /* memory is updated after everything before it */

/* LOCAL_INVALIDATE: imm_or_rkey is the key to invalidate.
 * BIND_MW: rkey is the window's key now, imm_or_rkey the one that it gets (type 2: only its low 8
 * bits count, which are the application's), remote_addr and compare_add the range's address and
 * length (0: unbind), swap the lkey of the memory region, remote_qkey the MPRDMA_ABI_ACCESS_* bits.
 */
struct mprdma_abi_send_wqe {
  uint64_t wr_id;
  uint8_t opcode; /* enum mprdma_abi_send_opcode */
  uint8_t num_sge;
  uint16_t flags;        /* MPRDMA_ABI_WQE_* */
  uint32_t imm_or_rkey;  /* immediate data as in verbs (network order), or the rkey to invalidate */
  uint32_t inline_bytes; /* with MPRDMA_ABI_WQE_INLINE */
  uint32_t rkey;
  uint64_t remote_addr;
  uint64_t compare_add;
  uint64_t swap;
  uint32_t ah;         /* UD: handle of the address handle */
  uint32_t remote_qpn; /* UD */
  uint32_t remote_qkey;
  uint32_t xrc_srqn; /* XRC: number of the remote SRQ */
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_send_wqe) == 64);

struct mprdma_abi_sge {
  uint64_t addr;
  uint32_t length;
  uint32_t lkey;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_sge) == 16);

/* ---- Receive queue, also a shared one: a slot is this header followed by max_sge SGEs; stride a
 * multiple of 16. */
struct mprdma_abi_recv_wqe {
  uint64_t wr_id;
  uint32_t num_sge;
  uint32_t reserved;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_recv_wqe) == 16);

/* ---- Doorbell record of a send or receive queue, in the provider's memory. --------------------
 * producer: slots written by the provider (store-release after the slot).
 * consumer: slots whose request has completed, with or without a CQE; of a shared receive queue,
 *           slots that a message took. producer - consumer <= depth always.
 */
struct mprdma_abi_queue_dbr {
  MPRDMA_ABI_ALIGNED64 uint32_t producer;
  MPRDMA_ABI_ALIGNED64 uint32_t consumer;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_queue_dbr) == 128);

/* ---- Completion queue ------------------------------------------------------------------------ */

/* Completion statuses, with the values of the standard's work completion statuses (IBTA 11.6.2,
   enum ibv_wc_status). */
enum mprdma_abi_wc_status {
  MPRDMA_ABI_WC_SUCCESS = 0,
  MPRDMA_ABI_WC_LOC_LEN_ERR = 1,
  MPRDMA_ABI_WC_LOC_QP_OP_ERR = 2,
  MPRDMA_ABI_WC_LOC_EEC_OP_ERR = 3,
  MPRDMA_ABI_WC_LOC_PROT_ERR = 4,
  MPRDMA_ABI_WC_WR_FLUSH_ERR = 5,
  MPRDMA_ABI_WC_MW_BIND_ERR = 6,
  MPRDMA_ABI_WC_BAD_RESP_ERR = 7,
  MPRDMA_ABI_WC_LOC_ACCESS_ERR = 8,
  MPRDMA_ABI_WC_REM_INV_REQ_ERR = 9,
  MPRDMA_ABI_WC_REM_ACCESS_ERR = 10,
  MPRDMA_ABI_WC_REM_OP_ERR = 11,
  MPRDMA_ABI_WC_RETRY_EXC_ERR = 12,
  MPRDMA_ABI_WC_RNR_RETRY_EXC_ERR = 13,
  MPRDMA_ABI_WC_REM_ABORT_ERR = 16,
  MPRDMA_ABI_WC_FATAL_ERR = 19,
  MPRDMA_ABI_WC_GENERAL_ERR = 21,
};

enum mprdma_abi_wc_opcode {
  MPRDMA_ABI_WC_SEND = 0,
  MPRDMA_ABI_WC_WRITE = 1,
  MPRDMA_ABI_WC_READ = 2,
  MPRDMA_ABI_WC_COMPARE_SWAP = 3,
  MPRDMA_ABI_WC_FETCH_ADD = 4,
  MPRDMA_ABI_WC_BIND_MW = 5,
  MPRDMA_ABI_WC_LOCAL_INVALIDATE = 6,
  MPRDMA_ABI_WC_ATOMIC_WRITE = 9,
  MPRDMA_ABI_WC_RECV = 128,
  MPRDMA_ABI_WC_RECV_WRITE_IMM = 129,
};

#define MPRDMA_ABI_CQE_GRH (1u << 0)
#define MPRDMA_ABI_CQE_IMM (1u << 1)
#define MPRDMA_ABI_CQE_INVALIDATED (1u << 3)
#define MPRDMA_ABI_CQE_GRH_IPV4 (1u << 4) /* with GRH: an IPv4 header; else an IPv6 one */
#define MPRDMA_ABI_CQE_SOLICITED                                  \
  (1u << 8) /* for the engine's own use: raises a solicited event \
             */

/* One cache line; `sequence` is written last (store-release): the entry at ring index i is valid
 * when sequence == i + 1. */
struct mprdma_abi_cqe {
  uint64_t wr_id;
  uint32_t byte_len;
  uint32_t imm_or_rkey;
  uint32_t qpn; /* local QP */
  uint32_t src_qpn;
  uint8_t status; /* enum mprdma_abi_wc_status */
  uint8_t opcode; /* enum mprdma_abi_wc_opcode */
  uint16_t flags; /* MPRDMA_ABI_CQE_* */
  uint32_t vendor_err;
  uint64_t timestamp_ns;
  uint64_t qp_cookie; /* mprdma_abi_create_qp.cookie */
  uint16_t pkey_index;
  uint16_t reserved0;
  uint32_t reserved1;
  uint32_t reserved2;
  uint32_t sequence;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_cqe) == 64);
MPRDMA_ABI_ASSERT(offsetof(struct mprdma_abi_cqe, sequence) == 60);

/* Doorbell record of a completion queue.
 * consumer: entries taken by the provider. If the ring is full the engine reports a CQ error.
 * arm: (serial << 2) | kind, kind one of MPRDMA_ABI_ARM_*; a new serial asks for one more event.
 *      The engine remembers the serial that it fired last; it never writes here.
 * After storing `arm` the provider calls channel->idle(): the application may now sleep. */
#define MPRDMA_ABI_ARM_NEXT 1u
#define MPRDMA_ABI_ARM_SOLICITED 2u
struct mprdma_abi_cq_dbr {
  MPRDMA_ABI_ALIGNED64 uint32_t consumer;
  uint32_t arm;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_cq_dbr) == 64);

/* ---- Doorbell page: a bit for each QP that has new work, and a summary bit for each word. ----
 * Owned by the engine, one for each channel; see mprdma_abi_ring_doorbell() in mprdma_ring.h. */
#define MPRDMA_ABI_MAX_QPS 16384u
#define MPRDMA_ABI_DOORBELL_WORDS (MPRDMA_ABI_MAX_QPS / 64u)
struct mprdma_abi_doorbell_page {
  MPRDMA_ABI_ALIGNED64 uint64_t summary[MPRDMA_ABI_DOORBELL_WORDS / 64u];
  MPRDMA_ABI_ALIGNED64 uint64_t word[MPRDMA_ABI_DOORBELL_WORDS];
  MPRDMA_ABI_ALIGNED64 uint32_t sleeping; /* engine: nobody runs the worker, call channel->kick */
  uint32_t taken; /* provider: changes whenever completions are taken from a CQ of the channel,
                     since the application then looks for them and not at memory; a hint */
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_doorbell_page) == 2176);

/* ---- How a command describes a ring. ---- */
struct mprdma_abi_queue { /* a send or receive ring in the provider's memory */
  uint64_t ring;          /* 64-byte aligned */
  uint64_t dbr;           /* struct mprdma_abi_queue_dbr */
  uint32_t depth;         /* power of two; 0: no such queue */
  uint32_t stride;        /* bytes of a slot */
  uint32_t max_sge;
  uint32_t max_inline; /* bytes; 0 for a receive queue */
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_queue) == 32);

#ifdef __cplusplus
}
#endif
