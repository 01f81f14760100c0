/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of a context. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "providers/mprdma/operations.h"

void mprdma_free_context(struct ibv_context* ibv) {
  struct mprdma_context* context = to_mprdma_context(ibv);
  if (context->engine_pid == getpid()) {
    mprdma_xrc_leave(context);
    mprdma_object_destroy_leftovers(context, mprdma_forget_groups);
  }
  mprdma_engine_link_disconnect(context);
  if (context->async.read_fd >= 0) {
    mprdma_event_queue_close(&context->async);
  }
  while (context->comp_channels != NULL) { /* only if the application leaked CQs */
    context->comp_channels->references = 1;
    mprdma_comp_channel_put(context, context->comp_channels);
  }
  pthread_mutex_destroy(&context->comp_lock);
  verbs_uninit_context(&context->verbs); /* closes cmd_fd and async_fd */
  free(context);
}

/* libibverbs reads ibv_context.async_fd; we keep descriptors of our own to write and to purge. */
static int open_async(struct mprdma_context* context) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) {
    return errno;
  }
  int ours = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
  int flags = fcntl(fds[1], F_GETFL);
  if (ours < 0 || flags < 0 || fcntl(fds[1], F_SETFL, flags | O_NONBLOCK) != 0 ||
      mprdma_event_queue_init(&context->async, ours, fds[1], sizeof(struct mprdma_async_record)) !=
          0) {
    int error = errno;
    close(fds[0]);
    close(fds[1]);
    if (ours >= 0) {
      close(ours);
    }
    return error;
  }
  context->verbs.context.async_fd = fds[0];
  return 0;
}

struct mprdma_context* mprdma_context_new(struct ibv_device* device, int cmd_fd, bool imported) {
  struct mprdma_device_facts facts;
  const char* culprit = NULL;
  int error = mprdma_device_facts_read(&facts, &culprit);
  if (error != 0) {
    fprintf(stderr, "mprdma: %s is %s; start the application with `mprdma run`\n", culprit,
            error == ENOENT ? "not set" : "not understood");
    close(cmd_fd);
    errno = ENODEV;
    return NULL;
  }
  struct mprdma_context* context = _verbs_init_and_alloc_context(
      device, cmd_fd, sizeof(*context),
      (struct verbs_context*)offsetof(struct mprdma_context, verbs), 0);
  if (context == NULL) {
    return NULL;
  }
  context->facts = facts;
  pthread_mutex_init(&context->comp_lock, NULL);
  context->async.read_fd = -1;
  context->verbs.context.async_fd = -1;
  error = imported ? 0 : open_async(context);
  if (error != 0) {
    verbs_uninit_context(&context->verbs);
    free(context);
    errno = error;
    return NULL;
  }
  context->verbs.context.num_comp_vectors = 1;
  return context;
}
