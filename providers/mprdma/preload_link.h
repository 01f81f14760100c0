/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the provider and the preload meet. The preload exports these; the provider declares them
 * weak, so that it loads (and says EOPNOTSUPP where it must) in a process without the preload.
 */
#pragma once

/* Changes when a function below changes. */
#define MPRDMA_PRELOAD_LINK_VERSION 1

/*
 * The pipe behind a completion channel that the preload's mini-uverbs created. `app_fd` is
 * ibv_comp_channel.fd. On success fills fds[0] (read end) and fds[1] (write end, O_NONBLOCK) with
 * new close-on-exec duplicates that belong to the caller, and returns 0. ENOENT: not such a
 * descriptor. Any thread.
 */
__attribute__((weak, visibility("default"))) int mprdma_preload_dup_event_pipe(int app_fd,
                                                                               int fds[2]);

/* MPRDMA_PRELOAD_LINK_VERSION of the preload that is loaded. */
__attribute__((weak, visibility("default"))) int mprdma_preload_link_version(void);
