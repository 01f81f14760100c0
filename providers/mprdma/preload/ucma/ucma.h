/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A mini-ucma: what the kernel's rdma_ucm module does behind /dev/infiniband/rdma_cm for librdmacm
 * (<rdma/rdma_user_cm.h>). Commands come by write(), events are fetched by a command, and poll()
 * works because each file is an eventfd that counts its events.
 *
 * Below it stands the CM agent of the engine (abi/mprdma_abi_cm.h), reached by the provider's link
 * (preload_link.h); an id has one there from its first bind or resolve on, so that a process which
 * only looks around starts no engine.
 *
 * Locks. One lock, mprdma_ucma_lock(), for all files, ids and events. It is a leaf: the agent's
 * events come in under the engine's lock and take it, so no command is executed and nothing waits
 * for the engine while it is held. A command on an id has the id for itself (`busy`) from
 * mprdma_ucma_id_get() to mprdma_ucma_id_put(); what both it and on_event touch is under the lock.
 *
 * Fork. A child has the parent's files, empty: its descriptors are made descriptors of eventfds of
 * its own, the ids stay with the parent and are unknown (ENOENT) in the child.
 */
#pragma once

#include <netinet/in.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_cm.h>
#include <sys/socket.h>

#include "abi/mprdma_abi_cm.h"
#include "providers/mprdma/preload/preload.h"
#include "providers/mprdma/preload_link.h"

#define UCMA_HANDLE_MAX 65535u /* librdmacm finds no id beyond it */
#define UCMA_BACKLOG_MAX 1024u /* as the kernel's net.rdma_ucm.max_backlog */
#define UCMA_QKEY 0x01234567u  /* RDMA_UDP_QKEY of <rdma/rdma_cma.h> */
#define UCMA_PKEY 0xffffu
#define UCMA_PORT 1u
#define UCMA_HOP_LIMIT 64u
#define UCMA_ACK_TIMEOUT 18u /* 4.096 us * 2^n: 1.07 s, unless the application chose one */
#define UCMA_RNR_TIMER 0u    /* 655.36 ms (IBTA table 45), as the kernel's CM has it */

enum { /* enum rdma_cm_event_type of <rdma/rdma_cma.h>: those that the agent does not send */
       UCMA_EVENT_ROUTE_RESOLVED = 2,
       UCMA_EVENT_MULTICAST_JOIN = 12,
};

struct ucma_id;

/* A multicast group that an id has joined. */
struct ucma_group {
  uint32_t handle;
  uint32_t events_reported;
  uint64_t uid;
  struct ucma_id* id;
  uint8_t mgid[16];
  struct ucma_group* next;
};

struct ucma_event {
  struct mprdma_abi_cm_event event;
  struct ucma_id* id;       /* whose it is; of a request: the listener */
  struct ucma_group* group; /* of MULTICAST_JOIN */
  struct ucma_event* next;
};

/* An open of the device, which dup() and migrating threads may share. */
struct ucma_file {
  uint32_t number;
  uint32_t descriptors;
  uint32_t commands; /* under way; the file goes with the last of both */
  int fd;            /* one of its descriptors */
  struct ucma_event* first;
  struct ucma_event** last;
  struct ucma_id* ids;
};

enum ucma_state { /* as far as commands that the agent does not see depend on it */
                  UCMA_IDLE,
                  UCMA_BOUND,
                  UCMA_LISTENING,
                  UCMA_ADDRESS_QUERY,
                  UCMA_ADDRESS_RESOLVED,
                  UCMA_ROUTE_RESOLVED,
                  UCMA_CONNECTING, /* from CONNECT, or a request, on */
};

struct ucma_id {
  uint32_t handle;
  uint64_t cookie; /* what the agent calls it by; no other id ever had it */
  uint64_t uid;    /* what librdmacm calls it by; 0: a request that was not accepted */
  struct ucma_file* file;
  struct ucma_id* next;
  struct ucma_id** link;
  bool busy; /* a command has it */
  uint32_t events_reported;
  uint16_t port_space;
  uint8_t qp_type; /* enum ibv_qp_type */
  enum ucma_state state;
  bool has_agent;
  uint32_t agent;
  uint16_t local_family; /* AF_INET or AF_INET6; 0: not bound */
  uint16_t remote_family;
  struct mprdma_abi_cm_address local;
  struct mprdma_abi_cm_address remote;
  bool has_peer; /* `peer` holds what REQ or REP said */
  bool is_passive;
  struct mprdma_abi_cm_params own; /* what CONNECT or ACCEPT said; psn from the start */
  struct mprdma_abi_cm_params peer;
  uint32_t options_set; /* 1 << enum mprdma_abi_cm_option */
  uint32_t options[4];
  struct ucma_group* groups;
};

union ucma_input {
  struct rdma_ucm_create_id create_id;
  struct rdma_ucm_destroy_id destroy_id;
  struct rdma_ucm_bind_ip bind_ip;
  struct rdma_ucm_bind bind;
  struct rdma_ucm_resolve_ip resolve_ip;
  struct rdma_ucm_resolve_addr resolve_addr;
  struct rdma_ucm_resolve_route resolve_route;
  struct rdma_ucm_query query;
  struct rdma_ucm_connect connect;
  struct rdma_ucm_listen listen;
  struct rdma_ucm_accept accept;
  struct rdma_ucm_reject reject;
  struct rdma_ucm_disconnect disconnect;
  struct rdma_ucm_init_qp_attr init_qp_attr;
  struct rdma_ucm_get_event get_event;
  struct rdma_ucm_set_option set_option;
  struct rdma_ucm_notify notify;
  struct rdma_ucm_join_ip_mcast join_ip_mcast;
  struct rdma_ucm_join_mcast join_mcast;
  struct rdma_ucm_migrate_id migrate_id;
};

/* A command under way. Handlers return 0 or an errno value. */
struct ucma_call {
  struct ucma_file* file;
  int fd;             /* of GET_EVENT: its own, for the application may close what it named */
  uint16_t out_bytes; /* room of the response, at least what the handler's row says */
  union ucma_input in;
};

/* Writes a response to the application; EFAULT without an address. */
static inline int mprdma_ucma_respond(uint64_t address, const void* value, size_t bytes) {
  if (address == 0) {
    return EFAULT;
  }
  memcpy((void*)(uintptr_t)address, value, bytes);
  return 0;
}

/*
 * The files, from below: who stands in a line calls those above it.
 *   table.c lock.c address.c
 *   queue.c group.c agent.c
 *   id.c
 *   bind.c qp.c option.c
 *   resolve.c connect.c query.c mcast.c event.c
 *   file.c
 *   migrate.c
 *   commands.c
 */

/* ---- lock.c */
void mprdma_ucma_lock(void);
void mprdma_ucma_unlock(void);
void mprdma_ucma_wait(void); /* for mprdma_ucma_wake(); the lock is free meanwhile */
void mprdma_ucma_wake(void);
void mprdma_ucma_lock_anew(void); /* in a child after fork */

/* ---- file.c */
/* The file behind a descriptor, kept for a command; NULL: none. `own` may be NULL: gets a
 * descriptor of the command's own, or -1 where there is no room for one. */
struct ucma_file* mprdma_ucma_file_get(int fd, int* own);
void mprdma_ucma_file_put(struct ucma_file* file);

/* ---- queue.c, under the lock */
void mprdma_ucma_push(struct ucma_file* file, struct ucma_event* event);
struct ucma_event* mprdma_ucma_pop(struct ucma_file* file);
void mprdma_ucma_push_back(struct ucma_file* file, struct ucma_event* event); /* after pop */
/* After pop, for a reader: the count of an event that was destroyed while a reader had it in hand,
 * who got a later one, does not make an empty queue readable. */
void mprdma_ucma_settle(const struct ucma_file* file);
/* Takes the events of an id (of a group of it, unless NULL) out, in order. */
struct ucma_event* mprdma_ucma_take(struct ucma_file* file, const struct ucma_id* id,
                                    const struct ucma_group* group);
/* An event of our own making. */
int mprdma_ucma_raise(struct ucma_id* id, uint32_t type, struct ucma_group* group);

/* ---- table.c: numbers that stand for objects: 1..UCMA_HANDLE_MAX, under the lock. */
struct ucma_table {
  void** slots;
  uint32_t room;
  uint32_t next;
};
uint32_t mprdma_ucma_table_add(struct ucma_table* table, void* object); /* 0: no room */
void* mprdma_ucma_table_find(const struct ucma_table* table, uint32_t handle);
void mprdma_ucma_table_remove(struct ucma_table* table, uint32_t handle);

/* ---- id.c */
/* Under the lock; NULL: ENOMEM. */
struct ucma_id* mprdma_ucma_id_new(struct ucma_file* file, uint16_t port_space, uint8_t qp_type);
/* Under the lock; NULL: no such id any more. */
struct ucma_id* mprdma_ucma_id_of_cookie(uint64_t cookie);
/* ENOENT: no such id; EINVAL: another file's. Waits until no other command has it. */
int mprdma_ucma_id_get(struct ucma_file* file, uint32_t handle, struct ucma_id** out);
void mprdma_ucma_id_put(struct ucma_id* id);
/* Destroys an id that the caller holds; returns how many of its events were delivered. */
uint32_t mprdma_ucma_id_destroy(struct ucma_id* id);
/* In a child after fork. */
void mprdma_ucma_ids_forget(void);
/* Moves the id to another file; under the lock. */
void mprdma_ucma_id_move(struct ucma_id* id, struct ucma_file* to);
int mprdma_ucma_create_id(struct ucma_call* call);
int mprdma_ucma_destroy_id(struct ucma_call* call);
/* All ids, when the process ends. */
void mprdma_ucma_hang_up(void);

/* ---- migrate.c */
int mprdma_ucma_migrate_id(struct ucma_call* call);

/* ---- agent.c */
/* Who is told: of the agent's events, and, once it has been used, of the end of the process. */
struct ucma_agent_client {
  void (*on_event)(void* context, const struct mprdma_abi_cm_event* event);
  void (*at_exit)(void);
};
/* To be called before the first command; `client` stays for ever. */
void mprdma_ucma_agent_serve(const struct ucma_agent_client* client);
/* One command of the agent for an id, which gets its communication id there if it has none yet.
 * `out` may be NULL. Errors as the application is to see them. */
int mprdma_ucma_execute(struct ucma_id* id, struct mprdma_abi_cm_command* in,
                        struct mprdma_abi_cm_result* out);
/* Ends a communication id that has no id here. */
void mprdma_ucma_drop_agent(uint32_t agent);
/* Tells the agent the value of an option of the id. */
int mprdma_ucma_tell_option(struct ucma_id* id, uint32_t option);

/* ---- event.c */
/* The agent's callback. */
void mprdma_ucma_on_event(void* context, const struct mprdma_abi_cm_event* event);
int mprdma_ucma_get_event(struct ucma_call* call);

/* ---- address.c */
/* false: another family, or too short. */
bool mprdma_ucma_from_sockaddr(const void* sockaddr, size_t bytes, uint16_t* family,
                               struct mprdma_abi_cm_address* out);
/* Returns its size; 0 and nothing written for family 0. */
size_t mprdma_ucma_to_sockaddr(uint16_t family, const struct mprdma_abi_cm_address* address,
                               void* out);
uint16_t mprdma_ucma_family_of(const struct mprdma_abi_cm_address* address);
/* The wildcard address of a family. */
struct mprdma_abi_cm_address mprdma_ucma_any(uint16_t family);
bool mprdma_ucma_is_any(const struct mprdma_abi_cm_address* address);
bool mprdma_ucma_is_multicast(const struct mprdma_abi_cm_address* address);
/* An id that has a device: it is bound to an address of it. */
bool mprdma_ucma_has_device(const struct ucma_id* id);

/* ---- bind.c */
int mprdma_ucma_bind_to(struct ucma_id* id, uint16_t family, struct mprdma_abi_cm_address local);
int mprdma_ucma_bind_ip(struct ucma_call* call);
int mprdma_ucma_bind(struct ucma_call* call);

/* ---- resolve.c */
int mprdma_ucma_resolve_ip(struct ucma_call* call);
int mprdma_ucma_resolve_addr(struct ucma_call* call);
int mprdma_ucma_resolve_route(struct ucma_call* call);

/* ---- connect.c */
int mprdma_ucma_connect(struct ucma_call* call);
int mprdma_ucma_listen(struct ucma_call* call);
int mprdma_ucma_accept(struct ucma_call* call);
int mprdma_ucma_reject(struct ucma_call* call);
int mprdma_ucma_disconnect(struct ucma_call* call);
int mprdma_ucma_notify(struct ucma_call* call);

/* ---- query.c */
int mprdma_ucma_query_route(struct ucma_call* call);
int mprdma_ucma_query(struct ucma_call* call);

/* ---- qp.c */
int mprdma_ucma_init_qp_attr(struct ucma_call* call);
/* The path to `gid`, as an address handle of a datagram needs it. */
void mprdma_ucma_ah_attr(const struct ucma_id* id, const uint8_t gid[16],
                         struct ib_uverbs_ah_attr* out);
uint8_t mprdma_ucma_traffic_class(const struct ucma_id* id);
uint8_t mprdma_ucma_path_mtu(const struct ucma_id* id); /* enum ibv_mtu */
uint8_t mprdma_ucma_ack_timeout(const struct ucma_id* id);

/* ---- option.c */
int mprdma_ucma_set_option(struct ucma_call* call);

/* ---- group.c, under the lock */
/* NULL: ENOMEM. */
struct ucma_group* mprdma_ucma_group_new(struct ucma_id* id, uint64_t uid, const uint8_t mgid[16]);
struct ucma_group* mprdma_ucma_group_find(uint32_t handle); /* NULL: no such group */
void mprdma_ucma_group_free(struct ucma_group* group);
void mprdma_ucma_groups_free(struct ucma_id* id);
void mprdma_ucma_groups_forget(void); /* in a child after fork */

/* ---- mcast.c */
int mprdma_ucma_join_ip_mcast(struct ucma_call* call);
int mprdma_ucma_join_mcast(struct ucma_call* call);
int mprdma_ucma_leave_mcast(struct ucma_call* call);
