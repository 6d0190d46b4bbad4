// SPDX-License-Identifier: Apache-2.0
// The process answers with the status and the number of bytes, and then sends the bytes from its
// memory: once it has answered, nothing waits for a file system any more.
#include "launcher/fetch.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "launcher/beside.h"

enum { LATE_MS = 500 /* so that a limit within `read` comes first, and says more */ };

static void send_all(int fd, const void *data, size_t bytes)
{
    for (const uint8_t *at = data; bytes > 0;) {
        const ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return;
        at += sent > 0 ? sent : 0;
        bytes -= sent > 0 ? (size_t)sent : 0;
    }
}

static void fetch_main(int fd, void *context)
{
    const struct kolo_fetch *fetch = context;
    struct kolo_beside_answer answer = {.error = KOLO_OK};
    void *data = NULL;
    size_t bytes = 0;
    kolo_beside_shed(fd);
    answer.error = fetch->read(fetch->context, &data, &bytes);
    if (answer.error == KOLO_OK)
        answer.written = bytes;
    else
        kolo_detail_keep(answer.detail);
    send_all(fd, &answer, sizeof answer);
    send_all(fd, data, (size_t)answer.written);
}

static kolo_status fail_gone(const struct kolo_fetch *fetch)
{
    return kolo_fail(KOLO_ERR_SYSTEM, "%s: kolorun-files, the process that reads it, has died",
                     fetch->what);
}

static kolo_status take(const struct kolo_fetch *fetch, const struct kolo_beside *beside,
                        const struct kolo_beside_answer *answer, void **data_out, size_t *bytes_out)
{
    if (answer->error != KOLO_OK) {
        kolo_detail_set(answer->detail);
        return answer->error;
    }
    uint8_t *data = kolo_calloc((size_t)answer->written + 1, 1);
    if (!data)
        return KOLO_ERR_NO_MEMORY;
    if (!kolo_beside_receive(beside->socket, data, (size_t)answer->written)) {
        kolo_free_memory(data);
        return fail_gone(fetch);
    }
    *data_out = data;
    *bytes_out = (size_t)answer->written;
    return KOLO_OK;
}

kolo_status kolo_fetch(const struct kolo_fetch *fetch, void **data_out, size_t *bytes_out)
{
    struct kolo_beside beside;
    struct kolo_beside_answer answer;
    kolo_status status =
        kolo_beside_start(&beside, fetch->what, fetch_main, (void *)(uintptr_t)fetch);
    if (status != KOLO_OK)
        return status;
    const enum kolo_beside_how how = kolo_beside_await(&beside, fetch->limit_ms + LATE_MS, &answer);
    if (how == KOLO_BESIDE_ANSWERED)
        status = take(fetch, &beside, &answer, data_out, bytes_out);
    else if (how == KOLO_BESIDE_GONE)
        status = fail_gone(fetch);
    else
        status = kolo_fail(KOLO_ERR_INVALID,
                           "%.512s: not read within %.1f s (KOLO_START_TIMEOUT), as its file "
                           "system did not answer; name a file that can be read",
                           fetch->what, (double)fetch->limit_ms / 1000);
    if (how == KOLO_BESIDE_LATE)
        kolo_beside_abandon(&beside);
    kolo_beside_end(&beside, how == KOLO_BESIDE_ANSWERED);
    return status;
}
