// SPDX-License-Identifier: Apache-2.0
// How a rank comes up, shared by kolo_init and kolo_run_threads.
#ifndef KOLO_RUNTIME_INIT_H
#define KOLO_RUNTIME_INIT_H

#include "runtime/comm.h"

/** Settings from the environment, then from @p config (which may be NULL). Checks config->size. */
kolo_status kolo_config_settings(const struct kolo_config *config,
                                 struct kolo_settings *settings_out) KOLO_NODISCARD;
/** Warns of unknown KOLO_* variables, once per process. */
void kolo_config_warn_unknown(void);
/** What the store's server needs to know where there is no launcher. ERR_CONFIG. */
kolo_status kolo_store_config(const struct kolo_settings *settings, int size,
                              const struct kolo_secret *secret,
                              struct kolo_store_server_config *config_out) KOLO_NODISCARD;
/** Opens the timeline, if the settings ask for one; it says that the rank comes up since @p
 * begun_ns. engine->rank, size and settings are set. ERR_CONFIG, ERR_SYSTEM, ERR_NO_MEMORY. */
kolo_status kolo_engine_keep_timeline(struct kolo_engine *engine, int64_t begun_ns) KOLO_NODISCARD;
/** Opens the endpoint and joins the world through @p fd, a connection to the store (taken in every
 * case); makes the communicator of all ranks. engine->rank, size and settings are set. On failure
 * the caller destroys the engine. */
kolo_status kolo_engine_join(struct kolo_engine *engine, const struct kolo_secret *secret, int fd,
                             kolo_deadline deadline) KOLO_NODISCARD;

#endif
