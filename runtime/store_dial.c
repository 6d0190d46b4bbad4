// SPDX-License-Identifier: Apache-2.0
// Owns a poller for the duration of one dial, so that no other callback runs while a rank starts.
#include "runtime/store_dial.h"

#include <unistd.h>

enum { ASK_EVERY_MS = 50 };

struct dialling {
    bool is_done;
    kolo_status status;
    int fd;
    struct kolo_greeting theirs;
};

static void dialled(void *context, kolo_status status, int fd, const struct kolo_greeting *theirs)
{
    struct dialling *dialling = context;
    dialling->is_done = true;
    dialling->status = status;
    dialling->fd = fd;
    if (status == KOLO_OK)
        dialling->theirs = *theirs;
}

/** Waits until the dial is over (KOLO_OK; the dial itself may have failed) or the places are stale
 * (KOLO_AGAIN). */
static kolo_status wait_for(struct kolo_poller *poller, const struct dialling *dialling,
                            const struct kolo_store_dial_config *config)
{
    kolo_deadline ask = config->is_stale ? kolo_deadline_in_ms(ASK_EVERY_MS) : KOLO_NEVER;
    while (!dialling->is_done) {
        kolo_deadline next = kolo_conn_expire(poller);
        if (dialling->is_done)
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
static kolo_status check_greeting(const struct dialling *dialling, uint64_t job_id)
{
    if (dialling->theirs.protocol != KOLO_PROTOCOL_VERSION)
        return kolo_fail(KOLO_ERR_PROTOCOL, "the store speaks protocol %d, this library %d",
                         dialling->theirs.protocol, KOLO_PROTOCOL_VERSION);
    if (dialling->theirs.purpose != KOLO_PURPOSE_STORE || dialling->theirs.tag != job_id)
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
    struct dialling dialling = {.fd = -1};
    const struct kolo_dial_config dial_config = {.places = config->places,
                                                 .count = config->count,
                                                 .secret = config->secret,
                                                 .mine = &mine,
                                                 .deadline = config->deadline,
                                                 .done = dialled,
                                                 .context = &dialling};
    struct kolo_poller *poller = NULL;
    struct kolo_conn *conn = NULL;
    kolo_status status;
    KOLO_TRY(kolo_poller_create(&poller));
    KOLO_TRY(kolo_conn_dial(poller, &dial_config, &conn));
    KOLO_TRY(wait_for(poller, &dialling, config));
    KOLO_TRY(dialling.status);
    KOLO_TRY(check_greeting(&dialling, config->job_id));
    *fd_out = dialling.fd;
    dialling.fd = -1;
out:
    if (conn && !dialling.is_done)
        kolo_conn_cancel(conn);
    if (dialling.fd >= 0)
        close(dialling.fd);
    kolo_poller_destroy(poller);
    return status;
}
