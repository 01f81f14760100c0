/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma-core's private provider ABI, version IBVERBS_PRIVATE_34 (rdma-core 34 to 56), as far as this
 * provider needs it. The distributions install libibverbs without the header that declares it, so
 * the layout is declared here and every size and offset is asserted below; a provider built for
 * another private version is another small file, not an edit of this one.
 *
 * C only: only C files may include it. Reference: rdma-core v44.0, libibverbs/driver.h.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct mprdma_list_node { /* the library's intrusive list; opaque to a provider */
  struct mprdma_list_node* next;
  struct mprdma_list_node* previous;
};

/* ---- Device matching and registration ---- */

enum { VERBS_MATCH_END = 0, VERBS_MATCH_BY_MODALIAS = 2 };

struct verbs_match_ent {
  void* driver_data;
  union {
    const char* modalias; /* fnmatch(3) pattern on "rdma_device:N<name>" or device/modalias */
    uint64_t driver_id;
  } u;
  uint16_t vendor;
  uint16_t device;
  uint8_t kind;
};

struct verbs_sysfs_dev { /* one device found in sysfs */
  struct mprdma_list_node entry;
  void* provider_data;
  const struct verbs_match_ent* match;
  unsigned int flags;
  char sysfs_name[IBV_SYSFS_NAME_MAX];
  dev_t sysfs_cdev;
  char ibdev_name[IBV_SYSFS_NAME_MAX];
  char ibdev_path[IBV_SYSFS_PATH_MAX];
  char modalias[512];
  uint64_t node_guid;
  uint32_t driver_id;
  enum ibv_node_type node_type;
  int ibdev_idx;
  uint32_t num_ports;
  uint32_t abi_ver;
  struct timespec time_created;
};

struct verbs_device;
struct verbs_context; /* public, <infiniband/verbs.h> */

struct verbs_device_ops {
  const char* name;
  uint32_t match_min_abi_version;
  uint32_t match_max_abi_version;
  const struct verbs_match_ent* match_table;
  const struct verbs_device_ops** static_providers;
  bool (*match_device)(struct verbs_sysfs_dev* sysfs_dev);
  struct verbs_context* (*alloc_context)(struct ibv_device* device, int cmd_fd, void* private_data);
  struct verbs_context* (*import_context)(struct ibv_device* device, int cmd_fd);
  struct verbs_device* (*alloc_device)(struct verbs_sysfs_dev* sysfs_dev);
  void (*uninit_device)(struct verbs_device* device);
};

struct verbs_device {
  struct ibv_device device;
  const struct verbs_device_ops* ops;
  int refcount;
  struct mprdma_list_node entry;
  struct verbs_sysfs_dev* sysfs;
  uint64_t core_support; /* IB_UVERBS_CORE_SUPPORT_* */
};

/* ---- Objects that the library expects a provider to embed ---- */

struct verbs_xrcd;

enum { VERBS_QP_HAS_EX = 1 << 1 }; /* verbs_qp.comp_mask: ibv_qp_to_qp_ex() may be used */

struct verbs_qp {
  union {
    struct ibv_qp qp;
    struct ibv_qp_ex qp_ex;
  };
  uint32_t comp_mask;
  struct verbs_xrcd* xrcd;
};

struct verbs_cq {
  union {
    struct ibv_cq cq;
    struct ibv_cq_ex cq_ex;
  };
};

struct verbs_srq {
  struct ibv_srq srq;
  enum ibv_srq_type srq_type;
  struct verbs_xrcd* xrcd;
  struct ibv_cq* cq;
  uint32_t srq_num;
};

enum ibv_mr_type {
  MPRDMA_VERBS_MR_TYPE_MR = 0, /* the only type whose memory the library keeps from a fork */
  MPRDMA_VERBS_MR_TYPE_NULL = 1,
  MPRDMA_VERBS_MR_TYPE_IMPORTED = 2,
  MPRDMA_VERBS_MR_TYPE_DMABUF = 3,
};

struct verbs_mr {
  struct ibv_mr ibv_mr;
  enum ibv_mr_type mr_type;
  int access;
};

/* ---- Operations of a context: 76 of them in alphabetical order; what is NULL answers EOPNOTSUPP.
 * Those that this provider does not fill are declared without their arguments. ---- */
typedef void (*verbs_unused_op)(void);

struct verbs_context_ops {
  int (*advise_mr)(struct ibv_pd* pd, enum ibv_advise_mr_advice advice, uint32_t flags,
                   struct ibv_sge* sg_list, uint32_t num_sges);
  struct ibv_dm* (*alloc_dm)(struct ibv_context* context, struct ibv_alloc_dm_attr* attr);
  struct ibv_mw* (*alloc_mw)(struct ibv_pd* pd, enum ibv_mw_type type);
  struct ibv_mr* (*alloc_null_mr)(struct ibv_pd* pd);
  struct ibv_pd* (*alloc_parent_domain)(struct ibv_context* context,
                                        struct ibv_parent_domain_init_attr* attr);
  struct ibv_pd* (*alloc_pd)(struct ibv_context* context);
  struct ibv_td* (*alloc_td)(struct ibv_context* context, struct ibv_td_init_attr* attr);
  void (*async_event)(struct ibv_context* context, struct ibv_async_event* event);
  verbs_unused_op attach_counters_point_flow;
  int (*attach_mcast)(struct ibv_qp* qp, const union ibv_gid* gid, uint16_t lid);
  int (*bind_mw)(struct ibv_qp* qp, struct ibv_mw* mw, struct ibv_mw_bind* bind);
  int (*close_xrcd)(struct ibv_xrcd* xrcd);
  void (*cq_event)(struct ibv_cq* cq);
  struct ibv_ah* (*create_ah)(struct ibv_pd* pd, struct ibv_ah_attr* attr);
  verbs_unused_op create_counters;
  struct ibv_cq* (*create_cq)(struct ibv_context* context, int cqe,
                              struct ibv_comp_channel* channel, int comp_vector);
  struct ibv_cq_ex* (*create_cq_ex)(struct ibv_context* context, struct ibv_cq_init_attr_ex* attr);
  verbs_unused_op create_flow;
  verbs_unused_op create_flow_action_esp;
  struct ibv_qp* (*create_qp)(struct ibv_pd* pd, struct ibv_qp_init_attr* attr);
  struct ibv_qp* (*create_qp_ex)(struct ibv_context* context, struct ibv_qp_init_attr_ex* attr);
  verbs_unused_op create_rwq_ind_table;
  struct ibv_srq* (*create_srq)(struct ibv_pd* pd, struct ibv_srq_init_attr* attr);
  struct ibv_srq* (*create_srq_ex)(struct ibv_context* context, struct ibv_srq_init_attr_ex* attr);
  verbs_unused_op create_wq;
  int (*dealloc_mw)(struct ibv_mw* mw);
  int (*dealloc_pd)(struct ibv_pd* pd);
  int (*dealloc_td)(struct ibv_td* td);
  int (*dereg_mr)(struct verbs_mr* mr);
  int (*destroy_ah)(struct ibv_ah* ah);
  verbs_unused_op destroy_counters;
  int (*destroy_cq)(struct ibv_cq* cq);
  verbs_unused_op destroy_flow;
  verbs_unused_op destroy_flow_action;
  int (*destroy_qp)(struct ibv_qp* qp);
  verbs_unused_op destroy_rwq_ind_table;
  int (*destroy_srq)(struct ibv_srq* srq);
  verbs_unused_op destroy_wq;
  int (*detach_mcast)(struct ibv_qp* qp, const union ibv_gid* gid, uint16_t lid);
  void (*free_context)(struct ibv_context* context);
  int (*free_dm)(struct ibv_dm* dm);
  int (*get_srq_num)(struct ibv_srq* srq, uint32_t* srq_num);
  struct ibv_dm* (*import_dm)(struct ibv_context* context, uint32_t dm_handle);
  struct ibv_mr* (*import_mr)(struct ibv_pd* pd, uint32_t mr_handle);
  struct ibv_pd* (*import_pd)(struct ibv_context* context, uint32_t pd_handle);
  int (*modify_cq)(struct ibv_cq* cq, struct ibv_modify_cq_attr* attr);
  verbs_unused_op modify_flow_action_esp;
  int (*modify_qp)(struct ibv_qp* qp, struct ibv_qp_attr* attr, int attr_mask);
  verbs_unused_op modify_qp_rate_limit;
  int (*modify_srq)(struct ibv_srq* srq, struct ibv_srq_attr* attr, int attr_mask);
  verbs_unused_op modify_wq;
  struct ibv_qp* (*open_qp)(struct ibv_context* context, struct ibv_qp_open_attr* attr);
  struct ibv_xrcd* (*open_xrcd)(struct ibv_context* context, struct ibv_xrcd_init_attr* attr);
  int (*poll_cq)(struct ibv_cq* cq, int num_entries, struct ibv_wc* wc);
  int (*post_recv)(struct ibv_qp* qp, struct ibv_recv_wr* wr, struct ibv_recv_wr** bad_wr);
  int (*post_send)(struct ibv_qp* qp, struct ibv_send_wr* wr, struct ibv_send_wr** bad_wr);
  verbs_unused_op post_srq_ops;
  int (*post_srq_recv)(struct ibv_srq* srq, struct ibv_recv_wr* wr, struct ibv_recv_wr** bad_wr);
  int (*query_device_ex)(struct ibv_context* context, const struct ibv_query_device_ex_input* input,
                         struct ibv_device_attr_ex* attr, size_t attr_size);
  int (*query_ece)(struct ibv_qp* qp, struct ibv_ece* ece);
  int (*query_port)(struct ibv_context* context, uint8_t port, struct ibv_port_attr* attr);
  int (*query_qp)(struct ibv_qp* qp, struct ibv_qp_attr* attr, int attr_mask,
                  struct ibv_qp_init_attr* init_attr);
  int (*query_qp_data_in_order)(struct ibv_qp* qp, enum ibv_wr_opcode op, uint32_t flags);
  int (*query_rt_values)(struct ibv_context* context, struct ibv_values_ex* values);
  int (*query_srq)(struct ibv_srq* srq, struct ibv_srq_attr* attr);
  verbs_unused_op read_counters;
  struct ibv_mr* (*reg_dm_mr)(struct ibv_pd* pd, struct ibv_dm* dm, uint64_t dm_offset,
                              size_t length, unsigned int access);
  struct ibv_mr* (*reg_dmabuf_mr)(struct ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova,
                                  int fd, int access);
  struct ibv_mr* (*reg_mr)(struct ibv_pd* pd, void* addr, size_t length, uint64_t iova, int access);
  int (*req_notify_cq)(struct ibv_cq* cq, int solicited_only);
  int (*rereg_mr)(struct verbs_mr* mr, int flags, struct ibv_pd* pd, void* addr, size_t length,
                  int access);
  int (*resize_cq)(struct ibv_cq* cq, int cqe);
  int (*set_ece)(struct ibv_qp* qp, struct ibv_ece* ece);
  void (*unimport_dm)(struct ibv_dm* dm);
  void (*unimport_mr)(struct ibv_mr* mr);
  void (*unimport_pd)(struct ibv_pd* pd);
};

/* ---- The four private functions that this provider imports ---- */

void verbs_register_driver_34(const struct verbs_device_ops* ops);
/* Takes cmd_fd over. Returns zeroed memory of alloc_size bytes; context_offset is the offset of the
 * embedded verbs_context, spelled as a pointer. */
void* _verbs_init_and_alloc_context(struct ibv_device* device, int cmd_fd, size_t alloc_size,
                                    struct verbs_context* context_offset, uint32_t driver_id);
void verbs_set_ops(struct verbs_context* context, const struct verbs_context_ops* ops);
void verbs_uninit_context(struct verbs_context* context);

/* ---- The layout, amd64 ---- */
#define MPRDMA_LAYOUT(type, bytes) _Static_assert(sizeof(type) == (bytes), #type " has changed")
#define MPRDMA_OFFSET(type, member, bytes) \
  _Static_assert(offsetof(type, member) == (bytes), #type "." #member " has moved")

MPRDMA_LAYOUT(struct verbs_device_ops, 72);
MPRDMA_OFFSET(struct verbs_device_ops, match_min_abi_version, 8);
MPRDMA_OFFSET(struct verbs_device_ops, match_max_abi_version, 12);
MPRDMA_OFFSET(struct verbs_device_ops, match_table, 16);
MPRDMA_OFFSET(struct verbs_device_ops, static_providers, 24);
MPRDMA_OFFSET(struct verbs_device_ops, match_device, 32);
MPRDMA_OFFSET(struct verbs_device_ops, alloc_context, 40);
MPRDMA_OFFSET(struct verbs_device_ops, import_context, 48);
MPRDMA_OFFSET(struct verbs_device_ops, alloc_device, 56);
MPRDMA_OFFSET(struct verbs_device_ops, uninit_device, 64);

MPRDMA_LAYOUT(struct ibv_device, 664);
MPRDMA_LAYOUT(struct verbs_device, 712);
MPRDMA_OFFSET(struct verbs_device, ops, 664);
MPRDMA_OFFSET(struct verbs_device, refcount, 672);
MPRDMA_OFFSET(struct verbs_device, entry, 680);
MPRDMA_OFFSET(struct verbs_device, sysfs, 696);
MPRDMA_OFFSET(struct verbs_device, core_support, 704);

MPRDMA_LAYOUT(struct verbs_context_ops, 608);
MPRDMA_OFFSET(struct verbs_context_ops, advise_mr, 0 * 8);
MPRDMA_OFFSET(struct verbs_context_ops, alloc_pd, 5 * 8);
MPRDMA_OFFSET(struct verbs_context_ops, async_event, 7 * 8);
MPRDMA_OFFSET(struct verbs_context_ops, cq_event, 12 * 8);
MPRDMA_OFFSET(struct verbs_context_ops, create_qp_ex, 20 * 8);
MPRDMA_OFFSET(struct verbs_context_ops, dealloc_td, 27 * 8);
MPRDMA_OFFSET(struct verbs_context_ops, free_context, 39 * 8);
MPRDMA_OFFSET(struct verbs_context_ops, modify_srq, 49 * 8);
MPRDMA_OFFSET(struct verbs_context_ops, poll_cq, 53 * 8);
MPRDMA_OFFSET(struct verbs_context_ops, query_device_ex, 58 * 8);
MPRDMA_OFFSET(struct verbs_context_ops, reg_mr, 68 * 8);
MPRDMA_OFFSET(struct verbs_context_ops, unimport_pd, 75 * 8);

MPRDMA_LAYOUT(struct verbs_sysfs_dev, 992);
MPRDMA_OFFSET(struct verbs_sysfs_dev, flags, 32);
MPRDMA_OFFSET(struct verbs_sysfs_dev, ibdev_path, 176);
MPRDMA_OFFSET(struct verbs_sysfs_dev, node_guid, 944);
MPRDMA_OFFSET(struct verbs_sysfs_dev, ibdev_idx, 960);

MPRDMA_LAYOUT(struct verbs_match_ent, 24);
MPRDMA_OFFSET(struct verbs_match_ent, u, 8);
MPRDMA_OFFSET(struct verbs_match_ent, kind, 20);

MPRDMA_LAYOUT(struct verbs_context, 648);
MPRDMA_OFFSET(struct verbs_context, priv, 208);
MPRDMA_OFFSET(struct verbs_context, context, 320);
MPRDMA_LAYOUT(struct ibv_context, 328);
MPRDMA_OFFSET(struct ibv_context, cmd_fd, 264);
MPRDMA_OFFSET(struct ibv_context, async_fd, 268);

MPRDMA_LAYOUT(struct verbs_qp, 368);
MPRDMA_OFFSET(struct verbs_qp, comp_mask, 352);
MPRDMA_LAYOUT(struct verbs_cq, 288);
MPRDMA_LAYOUT(struct verbs_srq, 160);
MPRDMA_LAYOUT(struct verbs_mr, 56);
