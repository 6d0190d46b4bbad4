// SPDX-License-Identifier: Apache-2.0
// The start of a rank, shared by kolo_init and kolo_run_threads.
#ifndef KOLO_RUNTIME_INIT_H
#define KOLO_RUNTIME_INIT_H

#include "runtime/comm.h"

/** Settings from the environment, overridden by those of @p config, which may be NULL. Checks
 * config->size. */
kolo_status kolo_config_settings(const struct kolo_config *config,
                                 struct kolo_settings *settings_out) KOLO_NODISCARD;
/** Warns of unknown KOLO_* variables, once per process. */
void kolo_config_warn_unknown(void);
/** The configuration of the store's server when there is no launcher. ERR_CONFIG. */
kolo_status kolo_store_config(const struct kolo_settings *settings, int size,
                              const struct kolo_secret *secret,
                              struct kolo_store_server_config *config_out) KOLO_NODISCARD;
/** Opens the timeline if the settings ask for one, and records that the rank has been starting
 * since @p begun_ns. engine->rank, size and settings must be set. ERR_CONFIG, ERR_SYSTEM,
 * ERR_NO_MEMORY. */
kolo_status kolo_engine_keep_timeline(struct kolo_engine *engine, int64_t begun_ns) KOLO_NODISCARD;
/** Opens the endpoint, joins the world through @p fd, a connection to the store (which it owns in
 * every case), and makes the communicator of all ranks. engine->rank, size and settings must be
 * set. On failure the caller destroys the engine. */
kolo_status kolo_engine_join(struct kolo_engine *engine, const struct kolo_secret *secret, int fd,
                             kolo_deadline deadline) KOLO_NODISCARD;

#endif
