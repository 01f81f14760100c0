/* SPDX-License-Identifier: BSD-2-Clause */
/* What the device and its port can do. Answers without an engine too: ibv_devinfo starts none. */
#include <endian.h>
#include <unistd.h>

#include "providers/mprdma/mprdma.h"

enum { kPhysLinkUp = 5, kPhysDisabled = 3 };

/* No vendor has assigned us a number: the locally administered prefix of our derived MACs. */
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

/* A rate as InfiniBand spells it, lanes times speed (IBTA 14.2.5.6), the nearest that is not below:
 * what the kernel reports of an Ethernet port of that rate. */
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
  attr->device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID |
                           IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_PORT_ACTIVE_EVENT;
  attr->max_sge = clamp(info->max_sge);
  attr->max_sge_rd = clamp(info->max_sge_rd);
  attr->max_cq = clamp(info->max_cqs);
  attr->max_cqe = clamp(info->max_cqe);
  attr->max_mr = clamp(info->max_mrs);
  attr->max_pd = clamp(info->max_pds);
  attr->max_qp_rd_atom = clamp(info->max_rd_atomic);
  attr->max_qp_init_rd_atom = clamp(info->max_rd_atomic);
  attr->max_res_rd_atom = clamp((uint64_t)info->max_rd_atomic * info->max_qps);
  attr->atomic_cap = IBV_ATOMIC_NONE;
  attr->max_pkeys = 1;
  attr->local_ca_ack_delay = 15; /* 4.096 us * 2^15 = 134 ms: a process may lose its core */
  attr->phys_port_cnt = 1;
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
  full.device_cap_flags_ex = full.orig_attr.device_cap_flags;
  full.phys_port_cnt_ex = 1;
  memset(attr, 0, attr_size);
  memcpy(attr, &full, attr_size < sizeof(full) ? attr_size : sizeof(full));
  return 0;
}

/* The engine's view of the port, or what is true before there is one. */
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
  attr->gid_tbl_len = MPRDMA_FACTS_GIDS;
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
