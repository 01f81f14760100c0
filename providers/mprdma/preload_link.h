/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The interface between the provider and the preload. The preload exports these; the provider
 * declares them weak, so that it loads (and says EOPNOTSUPP where it must) in a process without the
 * preload.
 */
#pragma once

#include "abi/mprdma_abi_cm.h"

/* Changes when a function below changes. */
#define MPRDMA_PRELOAD_LINK_VERSION 2

/*
 * The pipe behind a completion channel that the preload's mini-uverbs created. `app_fd` is
 * ibv_comp_channel.fd. On success fills fds[0] (read end) and fds[1] (write end, O_NONBLOCK) with
 * new close-on-exec duplicates that belong to the caller, and returns 0. ENOENT: not such a
 * descriptor. Any thread.
 */
__attribute__((weak, visibility("default"))) int mprdma_preload_dup_event_pipe(int app_fd,
                                                                               int fds[2]);

/*
 * The way from the preload's mini-ucma to the CM agent behind the engine. Any thread; no lock that
 * on_event takes may be held.
 * open: connects to the engine of this process and opens CM, if that is not done yet (a child of a
 *       fork starts anew). on_event is called as mprdma_abi_cm_open says. 0 or an errno value;
 *       EOPNOTSUPP: the engine has no agent.
 * execute: MPRDMA_ABI_CM, after open() in this process. 0 or an errno value.
 */
struct mprdma_cm_link {
  int (*open)(void (*on_event)(void* context, const struct mprdma_abi_cm_event* event),
              void* context);
  int (*execute)(const struct mprdma_abi_cm_command* in, struct mprdma_abi_cm_result* out);
};

/* Called by the provider when it is loaded; `link` stays valid for ever. */
__attribute__((weak, visibility("default"))) void mprdma_preload_set_cm_link(
    const struct mprdma_cm_link* link);

/* MPRDMA_PRELOAD_LINK_VERSION of the preload that is loaded. */
__attribute__((weak, visibility("default"))) int mprdma_preload_link_version(void);
