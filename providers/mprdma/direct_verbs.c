/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions of mprdmadv.h, exported by libmprdma.so. */
#include "providers/mprdma/mprdmadv.h"

#include <stdlib.h>
#include <unistd.h>

#include "providers/mprdma/operations.h"

#define DV_EXPORT __attribute__((visibility("default")))

/* The layout of public structures never changes. Where it is also that of the queue ABI, one copy
 * converts them. */
_Static_assert(sizeof(struct mprdmadv_qp_stats) == MPRDMADV_QP_STATS_SIZE_1_0, "grew");
_Static_assert(sizeof(struct mprdmadv_qp_stats) ==
                   sizeof(uint64_t) + sizeof(struct mprdma_abi_qp_stats),
               "the queue ABI's statistics follow comp_mask");
#define SAME_PLACE(member, abi_member)                                                    \
  _Static_assert(offsetof(struct mprdmadv_qp_stats, member) ==                            \
                     sizeof(uint64_t) + offsetof(struct mprdma_abi_qp_stats, abi_member), \
                 #member " is elsewhere")
SAME_PLACE(time_ns, time_ns);
SAME_PLACE(qp_num, qpn);
SAME_PLACE(mode, mode);
SAME_PLACE(dgid, dgid);
SAME_PLACE(bytes_sent, bytes_out);
SAME_PLACE(bytes_received, bytes_in);
SAME_PLACE(bytes_retransmitted, bytes_retransmitted);
SAME_PLACE(sends_outstanding, sends_outstanding);
SAME_PLACE(requests, requests);
SAME_PLACE(requests.srtt_ns, requests.srtt_ns);
SAME_PLACE(requests.ooo_degree_max, requests.ooo_degree_max);
SAME_PLACE(requests.packets_sent, requests.packets_sent);
SAME_PLACE(requests.retransmitted_probe, requests.retransmitted_probe);
SAME_PLACE(responses, responses);
SAME_PLACE(responses.window_reductions, responses.window_reductions);

_Static_assert((int)MPRDMADV_MODE_MP == MPRDMA_ABI_MODE_MP, "modes");
_Static_assert((int)MPRDMADV_MODE_MP_PAPER == MPRDMA_ABI_MODE_MP_PAPER, "modes");
_Static_assert((int)MPRDMADV_MODE_MP_SINGLE == MPRDMA_ABI_MODE_MP_SINGLE, "modes");
_Static_assert((int)MPRDMADV_MODE_IRN == MPRDMA_ABI_MODE_IRN, "modes");
_Static_assert((int)MPRDMADV_MODE_ROCE == MPRDMA_ABI_MODE_ROCE, "modes");

#define DEVICE_ATTR_SIZE_1_0 24u
_Static_assert(sizeof(struct mprdmadv_device_attr) == DEVICE_ATTR_SIZE_1_0, "grew");
_Static_assert(sizeof(struct mprdmadv_qp_init_attr) == 32, "grew");

DV_EXPORT bool mprdmadv_is_supported(struct ibv_device* device) {
  return device != NULL && mprdma_is_our_device(device);
}

DV_EXPORT const char* mprdmadv_mode_str(enum mprdmadv_mode mode) {
  static const char* const kNames[] = {"default", "mp", "mp-paper", "mp-single", "irn", "roce"};
  return (size_t)mode < sizeof(kNames) / sizeof(kNames[0]) ? kNames[mode] : "unknown";
}

/* Fills the first `size` bytes of the caller's structure; bytes beyond the known ones are 0. */
static void hand_out(void* to, size_t size, const void* from, size_t known) {
  memset(to, 0, size);
  memcpy(to, from, size < known ? size : known);
}

static uint32_t caps_of(uint64_t features) {
  static const struct {
    uint64_t feature;
    uint32_t cap;
  } kCaps[] = {
      {MPRDMA_ABI_FEATURE_SYNCHRONISE, MPRDMADV_DEVICE_ATTR_CAPS_SYNCHRONISE},
      {MPRDMA_ABI_FEATURE_QP_TRANSPORT, MPRDMADV_DEVICE_ATTR_CAPS_QP_MODE},
      {MPRDMA_ABI_FEATURE_QP_STATS, MPRDMADV_DEVICE_ATTR_CAPS_QP_STATS},
      {MPRDMA_ABI_FEATURE_RELAXED_ALWAYS, MPRDMADV_DEVICE_ATTR_CAPS_RELAXED_ALWAYS},
  };
  uint32_t caps = 0;
  for (size_t i = 0; i < sizeof(kCaps) / sizeof(kCaps[0]); i++) {
    caps |= (features & kCaps[i].feature) != 0 ? kCaps[i].cap : 0;
  }
  return caps;
}

DV_EXPORT int mprdmadv_query_device(struct ibv_context* ibv, struct mprdmadv_device_attr* attr,
                                    size_t size) {
  if (ibv == NULL || !mprdma_is_our_device(ibv->device)) {
    return EOPNOTSUPP;
  }
  if (attr == NULL || size < DEVICE_ATTR_SIZE_1_0) {
    return EINVAL;
  }
  struct mprdma_context* context = to_mprdma_context(ibv);
  struct mprdma_abi_device_info info = {0};
  int error = mprdma_engine_link_connect(context);
  if (error == 0) {
    error = mprdma_execute(context, MPRDMA_ABI_QUERY_DEVICE, NULL, 0, &info, sizeof(info));
  }
  if (error != 0) {
    return error;
  }
  const struct mprdmadv_device_attr full = {
      .device_caps = caps_of(context->channel.features),
      .modes = info.modes | 1u << MPRDMADV_MODE_DEFAULT,
      .abi_major = context->channel.abi_major,
      .abi_minor = context->channel.abi_minor,
  };
  hand_out(attr, size, &full, sizeof(full));
  return 0;
}

/* Converts the attributes for the engine, into *out. Returns 0 or errno. */
static int read_init_attr(const struct mprdmadv_qp_init_attr* attr,
                          struct mprdma_abi_qp_transport* out) {
  const uint64_t kKnown = MPRDMADV_QP_INIT_ATTR_MODE | MPRDMADV_QP_INIT_ATTR_INITIAL_WINDOW |
                          MPRDMADV_QP_INIT_ATTR_WINDOW_MAX | MPRDMADV_QP_INIT_ATTR_REORDER_DELTA |
                          MPRDMADV_QP_INIT_ATTR_WINDOW_SLOTS;
  memset(out, 0, sizeof(*out));
  if (attr == NULL) {
    return 0;
  }
  if ((attr->comp_mask & ~kKnown) != 0) {
    return EOPNOTSUPP;
  }
  if (attr->reserved != 0) {
    return EINVAL;
  }
  if ((attr->comp_mask & MPRDMADV_QP_INIT_ATTR_MODE) != 0) {
    out->mode = attr->mode;
  }
  if ((attr->comp_mask & MPRDMADV_QP_INIT_ATTR_INITIAL_WINDOW) != 0) {
    out->initial_window = attr->initial_window;
  }
  if ((attr->comp_mask & MPRDMADV_QP_INIT_ATTR_WINDOW_MAX) != 0) {
    out->window_max = attr->window_max;
  }
  if ((attr->comp_mask & MPRDMADV_QP_INIT_ATTR_REORDER_DELTA) != 0) {
    out->reorder_delta = attr->reorder_delta;
  }
  if ((attr->comp_mask & MPRDMADV_QP_INIT_ATTR_WINDOW_SLOTS) != 0) {
    out->window_slots = attr->window_slots;
  }
  return 0;
}

DV_EXPORT struct ibv_qp* mprdmadv_create_qp(struct ibv_context* context,
                                            struct ibv_qp_init_attr_ex* attr,
                                            const struct mprdmadv_qp_init_attr* mprdma_attr) {
  struct mprdma_abi_qp_transport transport;
  int error = context == NULL || !mprdma_is_our_device(context->device) ? EOPNOTSUPP : 0;
  if (error == 0 && attr == NULL) {
    error = EINVAL;
  }
  if (error == 0) {
    error = read_init_attr(mprdma_attr, &transport);
  }
  if (error != 0) {
    errno = error;
    return NULL;
  }
  return mprdma_create_qp_with(context, attr, &transport);
}

DV_EXPORT int mprdmadv_query_qp_stats(struct ibv_qp* ibv, struct mprdmadv_qp_stats* stats,
                                      size_t size) {
  if (ibv == NULL || !mprdma_is_our_device(ibv->context->device)) {
    return EOPNOTSUPP;
  }
  if (stats == NULL || size < MPRDMADV_QP_STATS_SIZE_1_0) {
    return EINVAL;
  }
  struct mprdma_qp* qp = to_mprdma_qp(ibv);
  if (!mprdma_object_is_here(qp->object)) {
    return ENODEV;
  }
  if ((qp->context->channel.features & MPRDMA_ABI_FEATURE_QP_STATS) == 0) {
    return EOPNOTSUPP;
  }
  const struct mprdma_abi_handle in = {.handle = qp->object->handle};
  struct {
    uint64_t comp_mask;
    struct mprdma_abi_qp_stats abi;
  } full = {0};
  int error = mprdma_execute(qp->context, MPRDMA_ABI_QUERY_QP_STATS, &in, sizeof(in), &full.abi,
                             sizeof(full.abi));
  if (error == 0) {
    hand_out(stats, size, &full, sizeof(full));
  }
  return error;
}
