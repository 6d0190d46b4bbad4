// SPDX-License-Identifier: Apache-2.0
// The place where the ranks of a job meet: the store's server (runtime/store.h) on kolorun's loop.
#ifndef KOLO_LAUNCHER_MEETING_H
#define KOLO_LAUNCHER_MEETING_H

#include <uv.h>

#include "base/settings.h"
#include "runtime/store.h"

struct kolo_meeting;

/** Listens on loopback (@p is_local) or on every address, at a free port. Events come from the
 * loop, or from within _died and _abort. */
kolo_status kolo_meeting_create(uv_loop_t *loop, int size, bool is_local,
                                const struct kolo_settings *settings,
                                const struct kolo_store_server_events *events,
                                struct kolo_meeting **meeting_out) KOLO_NODISCARD;
/** "tcp://HOST:PORT,...", and the secret as 64 digits. */
const char *kolo_meeting_place(const struct kolo_meeting *meeting);
const char *kolo_meeting_secret(const struct kolo_meeting *meeting);
/** The first address of this machine among the places, without its port. */
void kolo_meeting_address(const struct kolo_meeting *meeting, char *text, size_t capacity);
void kolo_meeting_died(struct kolo_meeting *meeting, int rank, const char *how);
void kolo_meeting_abort(struct kolo_meeting *meeting, kolo_status why, const char *text);
int kolo_meeting_connected(const struct kolo_meeting *meeting);
/** Whether @p rank has joined, and its connection stands. */
bool kolo_meeting_is_here(const struct kolo_meeting *meeting, int rank);
/** Whether @p rank has ever called kolo_init; false once it is closed. */
bool kolo_meeting_has_come(const struct kolo_meeting *meeting, int rank);
/** Closes the server and the handles. */
void kolo_meeting_close(struct kolo_meeting *meeting);
/** After the loop ran. */
void kolo_meeting_destroy(struct kolo_meeting *meeting);

#endif
