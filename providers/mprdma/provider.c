/* SPDX-License-Identifier: BSD-2-Clause */
/* Registration with libibverbs: the device, and what makes a context of it. */
#include "providers/mprdma/operations.h"

#include <stdlib.h>

/* <rdma/ib_user_ioctl_verbs.h> IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS: libibverbs hands us the
 * optional access flags (relaxed ordering) only if the "kernel" says that it knows them. */
#define CORE_SUPPORT_OPTIONAL_MR_ACCESS 1u

/* Must equal the preload's uverbsN/abi_version. */
#define UVERBS_DRIVER_ABI 1u

static const struct verbs_match_ent kMatchTable[] = {
    {.u.modalias = "rdma_device:*Nmprdma*", .kind = VERBS_MATCH_BY_MODALIAS},
    {.kind = VERBS_MATCH_END},
};

static struct verbs_context* open_context(struct ibv_device* device, int cmd_fd, bool imported) {
  struct mprdma_context* context = mprdma_context_new(device, cmd_fd, imported);
  if (context == NULL) {
    return NULL;
  }
  verbs_set_ops(&context->verbs, mprdma_context_ops());
  return &context->verbs;
}

static struct verbs_context* alloc_context(struct ibv_device* device, int cmd_fd,
                                           void* private_data) {
  (void)private_data;
  return open_context(device, cmd_fd, false);
}

/* A holder of the descriptor may share the objects of the process (ibv_import_device(3)). All its
 * contexts can, so nothing else is imported. */
static struct verbs_context* import_context(struct ibv_device* device, int cmd_fd) {
  return open_context(device, cmd_fd, true);
}

static struct verbs_device* alloc_device(struct verbs_sysfs_dev* sysfs) {
  (void)sysfs;
  struct verbs_device* device = calloc(1, sizeof(*device));
  if (device != NULL) {
    device->core_support = CORE_SUPPORT_OPTIONAL_MR_ACCESS;
  }
  return device;
}

static void uninit_device(struct verbs_device* device) {
  free(device);
}

static const struct verbs_device_ops kDeviceOps = {
    .name = "mprdma",
    .match_min_abi_version = UVERBS_DRIVER_ABI,
    .match_max_abi_version = UVERBS_DRIVER_ABI,
    .match_table = kMatchTable,
    .alloc_context = alloc_context,
    .import_context = import_context,
    .alloc_device = alloc_device,
    .uninit_device = uninit_device,
};

/* A device's ops are the table that its provider registered. */
bool mprdma_is_our_device(struct ibv_device* device) {
  return MPRDMA_CONTAINER(device, struct verbs_device, device)->ops == &kDeviceOps;
}

__attribute__((constructor)) static void register_provider(void) {
  verbs_register_driver_34(&kDeviceOps);
}
