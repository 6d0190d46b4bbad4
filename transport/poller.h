// SPDX-License-Identifier: Apache-2.0
// epoll with callbacks, and an eventfd that any thread (or, if the descriptor is passed on, any
// process) writes to end a sleep. One thread at a time may call the functions, except
// kolo_poller_wake, which any thread may call.
#ifndef KOLO_TRANSPORT_POLLER_H
#define KOLO_TRANSPORT_POLLER_H

#include <stdint.h>

#include "base/clock.h"
#include "base/status.h"

/** A file descriptor that is watched. The memory is the owner's. @p events: EPOLLIN and so on. */
struct kolo_watch {
    int fd;
    void (*ready)(struct kolo_watch *watch, uint32_t events);
};

struct kolo_poller;
kolo_status kolo_poller_create(struct kolo_poller **poller_out) KOLO_NODISCARD;
void kolo_poller_destroy(struct kolo_poller *poller);
kolo_status kolo_poller_add(struct kolo_poller *poller, struct kolo_watch *watch,
                            uint32_t events) KOLO_NODISCARD;
/** Never fails for a watch that was added. */
void kolo_poller_modify(struct kolo_poller *poller, struct kolo_watch *watch, uint32_t events);
/** Stops watching. Safe inside a callback, for any watch: no callback comes for it afterwards. */
void kolo_poller_remove(struct kolo_poller *poller, struct kolo_watch *watch);
/** Runs the callbacks of whatever is ready now; never blocks. *count_out (may be NULL): how many
 *  ran. */
kolo_status kolo_poller_dispatch(struct kolo_poller *poller, int *count_out) KOLO_NODISCARD;
/** Blocks until something is ready, the poller is woken, or the deadline has passed. Runs no
 *  callback. */
void kolo_poller_sleep(struct kolo_poller *poller, kolo_deadline deadline);
void kolo_poller_wake(struct kolo_poller *poller);
int kolo_poller_event_fd(
    const struct kolo_poller *poller); /* write 8 bytes (the number 1) to it to wake */
/** The poller keeps this pointer for the one module that has its timers by poller
 *  (conn_timer.c). */
struct kolo_conn_list;
struct kolo_conn_list **kolo_poller_conns(struct kolo_poller *poller);
int kolo_poller_fd(const struct kolo_poller *poller); /* readable if dispatch would do something */

#endif
