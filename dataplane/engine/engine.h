/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The embedded engine's C entry point (libmprdma-engine.so): all that a provider calls by name.
 * Everything else goes through the channel of abi/mprdma_abi.h.
 */
#pragma once

#include "abi/mprdma_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Connects a provider context to the engine of this process, starting it if it does not run yet
 * (once per process; after a fork the child gets an engine of its own). Fills `channel`, which is
 * valid until mprdma_engine_disconnect(). Several contexts of a process share the engine.
 *
 * Configuration comes from the environment that `mprdma run` sets (docs/operations.md).
 * Returns 0, or an errno value after one clear line on standard error that says what to do:
 *   EPROTONOSUPPORT  client->abi_major is not ours
 *   EINVAL           the configuration is wrong (file, line, column, key)
 *   EACCES, EBUSY, ENOMEM, ENODEV   the port cannot be opened
 */
__attribute__((visibility("default"))) int mprdma_engine_connect(
    const struct mprdma_abi_client* client, struct mprdma_abi_channel* channel);

/* Ends a connection; the last one of the process stops the worker and closes the port. All
 * objects created over it must have been destroyed, else they are destroyed here. */
__attribute__((visibility("default"))) void mprdma_engine_disconnect(
    struct mprdma_abi_channel* channel);

/* The device's limits, for queries before an engine runs: never starts one, never fails. */
__attribute__((visibility("default"))) void mprdma_engine_limits(
    struct mprdma_abi_device_info* info);

#ifdef __cplusplus
}
#endif
