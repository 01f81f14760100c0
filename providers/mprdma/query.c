/* SPDX-License-Identifier: BSD-2-Clause */
/* Capabilities of the device and its port. Queries need no engine: ibv_devinfo starts none. */
#include <endian.h>
#include <time.h>
#include <unistd.h>

#include "providers/mprdma/operations.h"

enum { kPhysLinkUp = 5, kPhysDisabled = 3 };

/* The vendor id is the locally administered prefix of derived MACs, because none is assigned. */
enum { kVendorId = 0x024d52, kVendorPartId = 1 };

enum ibv_mtu mprdma_mtu_to_enum(uint32_t bytes) {
  switch (bytes) {
    case 256:
      return IBV_MTU_256;
    case 512:
      return IBV_MTU_512;
    case 1024:
      return IBV_MTU_1024;
    case 2048:
      return IBV_MTU_2048;
    default:
      return IBV_MTU_4096;
  }
}

uint32_t mprdma_mtu_to_bytes(enum ibv_mtu mtu) {
  return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << (unsigned int)mtu : 0;
}

/* Expresses a rate as lanes times speed (IBTA 14.2.5.6), the nearest that is not below: what the
 * kernel reports for an Ethernet port of that rate. */
static void set_rate(struct ibv_port_attr* attr, uint32_t mbps) {
  enum { kWidth1x = 1, kWidth4x = 2, kSdr = 1, kQdr = 4, kEdr = 32, kHdr = 64 };
  static const struct {
    uint32_t mbps;
    uint8_t width;
    uint8_t speed;
  } kRates[] = {{1000, kWidth1x, kSdr},  {10000, kWidth1x, kQdr}, {25000, kWidth1x, kEdr},
                {40000, kWidth4x, kQdr}, {50000, kWidth1x, kHdr}, {100000, kWidth4x, kEdr}};
  size_t i = 0;
  while (i + 1 < sizeof(kRates) / sizeof(kRates[0]) && mbps > kRates[i].mbps) {
    i++;
  }
  attr->active_width = kRates[i].width;
  attr->active_speed = kRates[i].speed;
}

static int clamp(uint64_t value) {
  return value > INT32_MAX ? INT32_MAX : (int)value;
}

static bool has(const struct mprdma_abi_device_info* info, uint64_t feature) {
  return (info->features & feature) != 0;
}

static unsigned int capability_flags(const struct mprdma_abi_device_info* info) {
  unsigned int flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID |
                       IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_PORT_ACTIVE_EVENT |
                       IBV_DEVICE_BAD_PKEY_CNTR;
  if (has(info, MPRDMA_ABI_FEATURE_SRQ)) {
    flags |= IBV_DEVICE_SRQ_RESIZE;
  }
  if (has(info, MPRDMA_ABI_FEATURE_UD)) {
    flags |= IBV_DEVICE_BAD_QKEY_CNTR | IBV_DEVICE_UD_AV_PORT_ENFORCE;
  }
  if (has(info, MPRDMA_ABI_FEATURE_XRC)) {
    flags |= IBV_DEVICE_XRC;
  }
  if (has(info, MPRDMA_ABI_FEATURE_MEMORY_WINDOW)) { /* with SEND with invalidate, LOCAL_INV */
    flags |= IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS;
  }
  return flags;
}

static void fill_device(const struct mprdma_context* context,
                        const struct mprdma_abi_device_info* info, struct ibv_device_attr* attr) {
  snprintf(attr->fw_ver, sizeof(attr->fw_ver), "0.1.0");
  memcpy(&attr->node_guid, context->facts.node_guid, sizeof(attr->node_guid));
  attr->sys_image_guid = attr->node_guid;
  attr->vendor_id = kVendorId;
  attr->vendor_part_id = kVendorPartId;
  attr->max_mr_size = info->max_mr_bytes;
  attr->page_size_cap = ~0xfffull; /* memory is reached by address: any page size from 4 KiB on */
  attr->max_qp = clamp(info->max_qps);
  attr->max_qp_wr = clamp(info->max_qp_wr);
  attr->device_cap_flags = capability_flags(info);
  attr->max_sge = clamp(info->max_sge);
  attr->max_sge_rd = clamp(info->max_sge_rd);
  attr->max_cq = clamp(info->max_cqs);
  attr->max_cqe = clamp(info->max_cqe);
  attr->max_mr = clamp(info->max_mrs);
  attr->max_pd = clamp(info->max_pds);
  attr->max_qp_rd_atom = clamp(info->max_rd_atomic);
  attr->max_qp_init_rd_atom = clamp(info->max_rd_atomic);
  attr->max_res_rd_atom = clamp((uint64_t)info->max_rd_atomic * info->max_qps);
  /* GLOB would be true as well, because the processor's own instructions execute atomics. But
   * adapters and rdma_rxe announce HCA, and programs (UCX) compare for equality. */
  attr->atomic_cap = has(info, MPRDMA_ABI_FEATURE_ATOMIC) ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE;
  attr->max_ah = clamp(info->max_ahs);
  attr->max_mw = clamp(info->max_mws);
  attr->max_srq = clamp(info->max_srqs);
  attr->max_srq_wr = clamp(info->max_srq_wr);
  attr->max_srq_sge = clamp(info->max_srq_sge);
  attr->max_mcast_grp = clamp(info->max_mcast_groups);
  attr->max_mcast_qp_attach = clamp(info->max_mcast_qps);
  attr->max_total_mcast_qp_attach = clamp((uint64_t)info->max_mcast_groups * info->max_mcast_qps);
  attr->max_pkeys = 1;
  attr->local_ca_ack_delay = 15; /* 4.096 us * 2^15 = 134 ms: a process may lose its core */
  attr->phys_port_cnt = 1;
}

/* Software needs no pinning: every access is by address, on demand. */
static void fill_odp(const struct mprdma_abi_device_info* info, struct ibv_device_attr_ex* attr) {
  if (!has(info, MPRDMA_ABI_FEATURE_ON_DEMAND)) {
    return;
  }
  const uint32_t kMessages = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV;
  uint32_t shared = has(info, MPRDMA_ABI_FEATURE_SRQ) ? IBV_ODP_SUPPORT_SRQ_RECV : 0;
  uint32_t atomic = has(info, MPRDMA_ABI_FEATURE_ATOMIC) ? IBV_ODP_SUPPORT_ATOMIC : 0;
  uint32_t reliable = kMessages | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | atomic | shared;
  attr->odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
  attr->odp_caps.per_transport_caps.rc_odp_caps = reliable;
  if (has(info, MPRDMA_ABI_FEATURE_UC)) {
    attr->odp_caps.per_transport_caps.uc_odp_caps = kMessages | IBV_ODP_SUPPORT_WRITE | shared;
  }
  if (has(info, MPRDMA_ABI_FEATURE_UD)) {
    attr->odp_caps.per_transport_caps.ud_odp_caps = kMessages | shared;
  }
  if (has(info, MPRDMA_ABI_FEATURE_XRC)) {
    attr->xrc_odp_caps = reliable;
  }
}

/* Members that are not set here are 0: no segmentation offload, receive hashing, pacing, raw
 * packets, tag matching. */
static void fill_extended(const struct mprdma_abi_device_info* info,
                          struct ibv_device_attr_ex* attr) {
  attr->device_cap_flags_ex = attr->orig_attr.device_cap_flags;
  attr->phys_port_cnt_ex = 1;
  attr->completion_timestamp_mask = UINT64_MAX;
  attr->hca_core_clock = 1000000; /* kHz: completions are stamped in nanoseconds */
  attr->max_dm_size = MPRDMA_DM_BYTES_MAX;
  if (has(info, MPRDMA_ABI_FEATURE_CQ_MODERATION)) {
    attr->cq_mod_caps.max_cq_count = UINT16_MAX;
    attr->cq_mod_caps.max_cq_period = UINT16_MAX;
  }
  fill_odp(info, attr);
}

int mprdma_query_device_ex(struct ibv_context* ibv, const struct ibv_query_device_ex_input* input,
                           struct ibv_device_attr_ex* attr, size_t attr_size) {
  struct mprdma_abi_device_info info;
  if (input != NULL && input->comp_mask != 0) {
    return EINVAL;
  }
  if (attr_size < sizeof(attr->orig_attr)) {
    return EINVAL;
  }
  int error = mprdma_engine_link_limits(&info);
  if (error != 0) {
    return error;
  }
  struct ibv_device_attr_ex full;
  memset(&full, 0, sizeof(full));
  fill_device(to_mprdma_context(ibv), &info, &full.orig_attr);
  fill_extended(&info, &full);
  memset(attr, 0, attr_size);
  memcpy(attr, &full, attr_size < sizeof(full) ? attr_size : sizeof(full));
  return 0;
}

/* The clock that stamps completions, as a count (ibv_query_rt_values_ex(3)). */
int mprdma_query_rt_values(struct ibv_context* ibv, struct ibv_values_ex* values) {
  struct timespec now;
  (void)ibv;
  if ((values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK) != 0) {
    return EINVAL;
  }
  if (values->comp_mask != 0 && clock_gettime(CLOCK_MONOTONIC, &now) == 0) {
    values->raw_clock.tv_sec = 0;
    values->raw_clock.tv_nsec = now.tv_sec * 1000000000 + now.tv_nsec;
  }
  return 0;
}

/* Fills in the engine's view of the port or, before there is an engine, what is known without
 * one. */
static void port_info(struct mprdma_context* context, struct mprdma_abi_port_info* info) {
  memset(info, 0, sizeof(*info));
  if (context->engine_pid == getpid() &&
      mprdma_execute(context, MPRDMA_ABI_QUERY_PORT, NULL, 0, info, sizeof(*info)) == 0) {
    return;
  }
  info->active = __atomic_load_n(&context->port_down, __ATOMIC_ACQUIRE) == 0;
  info->max_mtu = 4096;
  info->active_mtu = context->facts.mtu_bytes;
}

int mprdma_query_port(struct ibv_context* ibv, uint8_t port, struct ibv_port_attr* attr) {
  struct mprdma_context* context = to_mprdma_context(ibv);
  struct mprdma_abi_port_info info;
  if (port != MPRDMA_PORT) {
    return EINVAL;
  }
  port_info(context, &info);
  memset(attr, 0, sizeof(*attr));
  attr->state = info.active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attr->phys_state = info.active ? kPhysLinkUp : kPhysDisabled;
  attr->max_mtu = mprdma_mtu_to_enum(info.max_mtu);
  attr->active_mtu = mprdma_mtu_to_enum(info.active_mtu);
  attr->gid_tbl_len = MPRDMA_GID_TABLE;
  attr->port_cap_flags = IBV_PORT_CM_SUP;
  attr->flags = IBV_QPF_GRH_REQUIRED;
  attr->max_msg_sz = MPRDMA_ABI_MESSAGE_BYTES_MAX;
  attr->bad_pkey_cntr = (uint32_t)info.bad_pkeys;
  attr->qkey_viol_cntr = (uint32_t)info.qkey_violations;
  attr->pkey_tbl_len = 1;
  attr->max_vl_num = 1;
  set_rate(attr, info.link_mbps != 0 ? info.link_mbps : 100000); /* unknown: a fast one */
  attr->link_layer = IBV_LINK_LAYER_ETHERNET;
  return 0;
}
