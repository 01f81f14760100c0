/* SPDX-License-Identifier: BSD-2-Clause */
/* The places of the host's own trees. */
#include "providers/mprdma/preload/preload.h"

static const char* env_or(const char* name, const char* otherwise) {
  const char* value = getenv(name);
  return value != NULL && value[0] == '/' ? value : otherwise;
}

const char* mprdma_real_sysfs(void) {
  return env_or("MPRDMA_REAL_SYSFS", "/sys");
}
const char* mprdma_real_dev(void) {
  return env_or("MPRDMA_REAL_DEV", "/dev");
}
