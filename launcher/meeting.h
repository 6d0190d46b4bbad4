// SPDX-License-Identifier: Apache-2.0
// The place where the ranks of a job meet: the store's server (runtime/store.h) on kolorun's loop.
#ifndef KOLO_LAUNCHER_MEETING_H
#define KOLO_LAUNCHER_MEETING_H

#include <uv.h>

#include "base/settings.h"
#include "runtime/store.h"

struct kolo_meeting;

/** Listens at a free port, on loopback (@p is_local) or on every address. Events are called from
 * the loop, or from within _died and _abort. */
kolo_status kolo_meeting_create(uv_loop_t *loop, int size, bool is_local,
                                const struct kolo_settings *settings,
                                const struct kolo_store_server_events *events,
                                struct kolo_meeting **meeting_out) KOLO_NODISCARD;
/** "tcp://HOST:PORT,..."; and the secret as 64 digits. */
const char *kolo_meeting_place(const struct kolo_meeting *meeting);
const char *kolo_meeting_secret(const struct kolo_meeting *meeting);
/** Writes the first of the places that is an address of this machine, without its port. */
void kolo_meeting_address(const struct kolo_meeting *meeting, char *text, size_t capacity);
/** A port at which a program of another framework may let rank 0 listen: one of KOLO_PORTS if that
 * is set, and not the store's if there is another. */
uint16_t kolo_meeting_master_port(const struct kolo_meeting *meeting);
void kolo_meeting_died(struct kolo_meeting *meeting, int rank, const char *how);
void kolo_meeting_abort(struct kolo_meeting *meeting, kolo_status why, const char *text);
int kolo_meeting_connected(const struct kolo_meeting *meeting);
/** Whether @p rank has joined and is still connected. */
bool kolo_meeting_is_here(const struct kolo_meeting *meeting, int rank);
/** Whether @p rank has ever called kolo_init; false once the meeting is closed. */
bool kolo_meeting_has_come(const struct kolo_meeting *meeting, int rank);
/** As kolo_store_server_view. ERR_INVALID once the meeting is closed. */
kolo_status kolo_meeting_view(const struct kolo_meeting *meeting,
                              struct kolo_store_view *views_out) KOLO_NODISCARD;
/** As kolo_store_server_pid; 0 once the meeting is closed. */
int32_t kolo_meeting_pid(const struct kolo_meeting *meeting, int rank);
/** Closes the server and the handles. */
void kolo_meeting_close(struct kolo_meeting *meeting);
/** To be called after the loop has run. */
void kolo_meeting_destroy(struct kolo_meeting *meeting);

#endif
