/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>

#include "providers/mprdma/preload/preload.h"

void* mprdma_next_symbol(const char* name) {
  void* symbol = dlsym(RTLD_NEXT, name);
  if (symbol == NULL) {
    fprintf(stderr, "mprdma: preload: libc has no %s(); is this a glibc system?\n", name);
    abort();
  }
  return symbol;
}
