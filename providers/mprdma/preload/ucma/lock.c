/* SPDX-License-Identifier: BSD-2-Clause */
/* The lock of all files, ids and events, and the condition that signals a change under it. */
#include <pthread.h>

#include "providers/mprdma/preload/ucma/ucma.h"

static pthread_mutex_t ucma_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ucma_changed = PTHREAD_COND_INITIALIZER;

void mprdma_ucma_lock(void) {
  pthread_mutex_lock(&ucma_lock);
}
void mprdma_ucma_unlock(void) {
  pthread_mutex_unlock(&ucma_lock);
}
void mprdma_ucma_wait(void) {
  pthread_cond_wait(&ucma_changed, &ucma_lock);
}
void mprdma_ucma_wake(void) {
  pthread_cond_broadcast(&ucma_changed);
}

void mprdma_ucma_lock_anew(void) {
  pthread_mutex_init(&ucma_lock, NULL);
  pthread_cond_init(&ucma_changed, NULL);
}
