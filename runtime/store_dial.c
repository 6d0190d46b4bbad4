// SPDX-License-Identifier: Apache-2.0
// Owns a poller for the duration of one dial, so that no other callback runs while a rank starts.
#include "runtime/store_dial.h"

#include <unistd.h>

enum { ASK_EVERY_MS = 50 };

struct dialing {
    bool is_done;
    kolo_status status;
    int fd;
    struct kolo_greeting theirs;
};

static void dialed(void *context, kolo_status status, int fd, const struct kolo_greeting *theirs)
{
    struct dialing *dialing = context;
    dialing->is_done = true;
    dialing->status = status;
    dialing->fd = fd;
    if (status == KOLO_OK)
        dialing->theirs = *theirs;
}

/** Waits until the dial is over (KOLO_OK; the dial itself may have failed) or the places are stale
 * (KOLO_AGAIN). */
static kolo_status wait_for(struct kolo_poller *poller, const struct dialing *dialing,
                            const struct kolo_store_dial_config *config)
{
    kolo_deadline ask = config->is_stale ? kolo_deadline_in_ms(ASK_EVERY_MS) : KOLO_NEVER;
    while (!dialing->is_done) {
        kolo_deadline next = kolo_conn_expire(poller);
        if (dialing->is_done)
            break;
        if (config->is_stale && kolo_deadline_passed(ask)) {
            if (config->is_stale(config->context))
                return KOLO_AGAIN;
            ask = kolo_deadline_in_ms(ASK_EVERY_MS);
        }
        kolo_poller_sleep(poller, kolo_deadline_min(next, ask));
        kolo_status status = kolo_poller_dispatch(poller, NULL);
        if (status != KOLO_OK)
            return status;
    }
    return KOLO_OK;
}

/** Checks that the other side, which has proved the secret, is the store of this job. */
static kolo_status check_greeting(const struct dialing *dialing, uint64_t job_id)
{
    if (dialing->theirs.protocol != KOLO_PROTOCOL_VERSION)
        return kolo_fail(KOLO_ERR_PROTOCOL, "the store speaks protocol %d, this library %d",
                         dialing->theirs.protocol, KOLO_PROTOCOL_VERSION);
    if (dialing->theirs.purpose != KOLO_PURPOSE_STORE || dialing->theirs.tag != job_id)
        return kolo_fail(KOLO_ERR_NOT_FOUND, "another job serves there");
    return KOLO_OK;
}

kolo_status kolo_store_dial(const struct kolo_store_dial_config *config, int *fd_out)
{
    const struct kolo_greeting mine = {.protocol = KOLO_PROTOCOL_VERSION,
                                       .purpose = KOLO_PURPOSE_STORE,
                                       .from = config->rank,
                                       .to = -1,
                                       .tag = config->job_id};
    struct dialing dialing = {.fd = -1};
    const struct kolo_dial_config dial_config = {.places = config->places,
                                                 .count = config->count,
                                                 .secret = config->secret,
                                                 .mine = &mine,
                                                 .deadline = config->deadline,
                                                 .done = dialed,
                                                 .context = &dialing};
    struct kolo_poller *poller = NULL;
    struct kolo_conn *conn = NULL;
    kolo_status status;
    KOLO_TRY(kolo_poller_create(&poller));
    KOLO_TRY(kolo_conn_dial(poller, &dial_config, &conn));
    KOLO_TRY(wait_for(poller, &dialing, config));
    KOLO_TRY(dialing.status);
    KOLO_TRY(check_greeting(&dialing, config->job_id));
    *fd_out = dialing.fd;
    dialing.fd = -1;
out:
    if (conn && !dialing.is_done)
        kolo_conn_cancel(conn);
    if (dialing.fd >= 0)
        close(dialing.fd);
    kolo_poller_destroy(poller);
    return status;
}
