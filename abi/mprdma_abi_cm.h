/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection management of the queue ABI: what a process says to the CM agent of its device, and
 * hears from it. The agent stands in the engine that owns the wire, or in mprdmad; it speaks the
 * standard's protocol (IBTA 12) and knows no verbs object: queue pairs are numbers here, and the
 * caller moves them from state to state.
 *
 * A client has communication ids, numbers that the agent chooses; each has at most one connection,
 * or listens. What becomes of an id is told by events, in order. The same structures travel between
 * a process and mprdmad, so they hold no pointers.
 *
 *   IDLE -BIND-> BOUND -LISTEN-> LISTENING; a request there makes a new id in state REQUESTED
 *   BOUND (or IDLE) -RESOLVE-> RESOLVED -CONNECT-> CONNECTING -(RESPONSE) ESTABLISH-> CONNECTED
 *   REQUESTED -ACCEPT-> ACCEPTED -(ESTABLISHED)-> CONNECTED;  REQUESTED -REJECT-> IDLE
 *   CONNECTED -DISCONNECT, or a DREQ (DISCONNECTED)-> TIME WAIT -(TIMEWAIT_EXIT)-> IDLE
 *   UDP and IPOIB (SIDR): RESOLVED -CONNECT-> CONNECTING -(ESTABLISHED with qpn and qkey)-> IDLE;
 *   REQUESTED -ACCEPT (qkey) or REJECT-> IDLE
 *
 * Addresses are IPv6, IPv4 mapped; all of them zero (or the mapped zero): any. A port space is
 * rdma_cm's (RDMA_PS_TCP = 0x0106, UDP = 0x0111, IPOIB = 0x0002, IB = 0x013f: REQ or SIDR_REQ, as
 * qp_type of CONNECT's params says; for listeners both); its ports are the device's, whatever
 * process binds them. Ports are in host order here.
 *
 * Errors: EINVAL: the state does not allow it, or a value is out of range; ENOENT: no such id of
 * this client; EADDRINUSE, EADDRNOTAVAIL, ENETUNREACH: as bind(2) and connect(2) have them; ENOMEM:
 * too many ids; ENOTCONN: the agent is away (mprdmad restarts); EPERM: CONNECT and ACCEPT, to
 * mprdmad, with the number of a queue pair of another process (0: there is none).
 */
#pragma once

#include "abi/mprdma_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MPRDMA_ABI_CM_PS_IPOIB 0x0002u
#define MPRDMA_ABI_CM_PS_TCP 0x0106u
#define MPRDMA_ABI_CM_PS_UDP 0x0111u
#define MPRDMA_ABI_CM_PS_IB 0x013fu

#define MPRDMA_ABI_CM_PRIVATE_BYTES 224u /* the most of any message (REP 196, RTU and DREP 224) */

enum mprdma_abi_cm_op {
  MPRDMA_ABI_CM_CREATE = 1,  /* port_space, cookie; out: id */
  MPRDMA_ABI_CM_DESTROY = 2, /* says REJ or DREQ where somebody waits; no event of it afterwards */
  MPRDMA_ABI_CM_BIND = 3,    /* local; port 0: a free one; out: local */
  MPRDMA_ABI_CM_RESOLVE =
      4,                    /* local (any: chosen), remote, timeout_ms; out: local; event ADDRESS */
  MPRDMA_ABI_CM_LISTEN = 5, /* backlog: requests that may wait for an answer; 0: the agent's own */
  MPRDMA_ABI_CM_CONNECT = 6,     /* params: REQ or SIDR_REQ; event RESPONSE (ESTABLISHED of SIDR) */
  MPRDMA_ABI_CM_ACCEPT = 7,      /* params, cookie: REP or SIDR_REP; event ESTABLISHED */
  MPRDMA_ABI_CM_ESTABLISH = 8,   /* the active side's queue pair is in RTS: RTU; no event */
  MPRDMA_ABI_CM_REJECT = 9,      /* reason, private data */
  MPRDMA_ABI_CM_DISCONNECT = 10, /* DREQ; or DREP, if one has come; event DISCONNECTED */
  MPRDMA_ABI_CM_NOTIFY = 11,     /* its queue pair has received before the RTU came (COMM_EST) */
  MPRDMA_ABI_CM_SET_OPTION = 12, /* option, value: before BIND and RESOLVE */
  MPRDMA_ABI_CM_SET_COOKIE = 13, /* cookie of the events from now on */
};

enum mprdma_abi_cm_option {
  MPRDMA_ABI_CM_OPTION_TOS = 0,       /* traffic class of its packets */
  MPRDMA_ABI_CM_OPTION_REUSEADDR = 1, /* shares its port with others that say so, but for LISTEN */
  MPRDMA_ABI_CM_OPTION_AFONLY = 2,    /* any address: of its own family only */
  MPRDMA_ABI_CM_OPTION_ACK_TIMEOUT = 3, /* local ACK timeout of REQ and REP, 0..31 */
};

struct mprdma_abi_cm_address {
  uint8_t ip[16]; /* network order */
  uint16_t port;
  uint8_t reserved[6];
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_cm_address) == 24);

/* What both sides tell each other of a connection, with the standard's meanings (IBTA 12.6). Those
 * of an event are as the peer sent them: its responder resources are what our requests may use. */
struct mprdma_abi_cm_params {
  uint32_t qpn;
  uint32_t psn;  /* that the other one begins with (12.6.5): the rq_psn of who says it */
  uint32_t qkey; /* SIDR */
  uint32_t ece_vendor;
  uint32_t ece_options;
  uint8_t qp_type; /* as enum ibv_qp_type: RC, UC, UD, XRC_SEND, XRC_RECV */
  uint8_t srq;
  uint8_t responder_resources;
  uint8_t initiator_depth;
  uint8_t flow_control;
  uint8_t retry_count;
  uint8_t rnr_retry_count;
  uint8_t path_mtu;    /* enum ibv_mtu */
  uint8_t ack_timeout; /* local ACK timeout, 5 bits */
  uint8_t traffic_class;
  uint8_t reserved;
  uint8_t private_bytes;
  uint8_t private_data[MPRDMA_ABI_CM_PRIVATE_BYTES]; /* the application's own, without rdma_cm's
                                                        header */
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_cm_params) == 256);

struct mprdma_abi_cm_command { /* CM, input */
  uint32_t op;                 /* enum mprdma_abi_cm_op */
  uint32_t id;
  uint64_t cookie;
  uint32_t port_space;
  uint32_t backlog;
  uint32_t timeout_ms;
  uint32_t reason; /* of REJECT: IBTA 12.6.7.2; 28 is "consumer reject" */
  uint32_t option; /* enum mprdma_abi_cm_option */
  uint32_t value;
  struct mprdma_abi_cm_address local;
  struct mprdma_abi_cm_address remote;
  struct mprdma_abi_cm_params params;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_cm_command) == 344);

struct mprdma_abi_cm_result { /* CM, output */
  uint32_t id;
  uint32_t reserved;
  struct mprdma_abi_cm_address local;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_cm_result) == 32);

/* Values as enum rdma_cm_event_type where that has them. */
enum mprdma_abi_cm_event_type {
  MPRDMA_ABI_CM_EVENT_ADDRESS_RESOLVED = 0, /* local, remote, remote_mac */
  MPRDMA_ABI_CM_EVENT_ADDRESS_ERROR = 1,    /* status -ETIMEDOUT, -EHOSTUNREACH */
  MPRDMA_ABI_CM_EVENT_REQUEST = 4,          /* of `listener`: a new id; params are the peer's */
  MPRDMA_ABI_CM_EVENT_RESPONSE = 5,    /* REP: params are the peer's; ESTABLISH or REJECT next */
  MPRDMA_ABI_CM_EVENT_UNREACHABLE = 7, /* status -ETIMEDOUT; SIDR_REP: its status, positive */
  MPRDMA_ABI_CM_EVENT_REJECTED = 8,    /* status: reason of the REJ, with its private data */
  MPRDMA_ABI_CM_EVENT_ESTABLISHED = 9, /* passive: RTU, or NOTIFY; SIDR: qpn and qkey */
  MPRDMA_ABI_CM_EVENT_DISCONNECTED = 10,
  MPRDMA_ABI_CM_EVENT_DEVICE_REMOVAL = 11, /* the agent is gone for good */
  MPRDMA_ABI_CM_EVENT_ADDRESS_CHANGE = 14,
  MPRDMA_ABI_CM_EVENT_TIMEWAIT_EXIT = 15,
};

struct mprdma_abi_cm_event {
  uint32_t type; /* enum mprdma_abi_cm_event_type */
  uint32_t id;
  uint32_t listener; /* REQUEST */
  int32_t status;
  uint64_t cookie; /* of the id; of the listener for REQUEST */
  struct mprdma_abi_cm_address local;
  struct mprdma_abi_cm_address remote;
  uint32_t port_space;
  uint8_t remote_mac[6];
  uint8_t reserved[2];
  struct mprdma_abi_cm_params params;
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_cm_event) == 336 + 8);

/* CM_OPEN, input: where this client's events go, at most once for a client. on_event is called by
 * whatever thread runs the worker, with its lock held: it must not call back into the channel and
 * must not block. */
struct mprdma_abi_cm_open {
  void* context;
  void (*on_event)(void* context, const struct mprdma_abi_cm_event* event);
};
MPRDMA_ABI_ASSERT(sizeof(struct mprdma_abi_cm_open) == 16);

#ifdef __cplusplus
}
#endif
