// SPDX-License-Identifier: Apache-2.0
// One queue, one writing thread, and one uv_async that reports what was written. The queue is
// bounded by the credit that the agents hold, which is returned by `written`.
//
// Threads: everything except write_all and writer runs on the loop; `lock` guards queue, done,
// is_stopping, error and is_writing.
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "launcher/output.h"

enum { BATCH = 64, PREFIX_MAX = 16, NOBODY = -1 };

struct chunk {
    struct chunk *next;
    int owner;
    size_t owed;  /* bytes of credit that the owner gets back */
    size_t bytes; /* bytes to write */
    uint8_t data[];
};

struct kolo_output {
    uv_async_t wake;
    uv_thread_t thread;
    uv_mutex_t lock;
    uv_cond_t more;
    int fd;
    struct kolo_output_events events;
    struct chunk *queue, **queue_end, *done;
    bool is_stopping, is_writing, told_broken, has_left;
    int error; /* that a write failed with; 0: none */
};

/* Writes the parts. Returns 0, or the error. */
static int write_all(int fd, struct iovec *parts, int count)
{
    while (count > 0) {
        ssize_t sent = writev(fd, parts, count);
        if (sent < 0 && errno == EAGAIN) { /* another process made it non-blocking */
            fd_set set;
            FD_ZERO(&set);
            FD_SET(fd, &set);
            (void)select(fd + 1, NULL, &set, NULL, NULL);
        }
        if (sent < 0 && errno != EINTR && errno != EAGAIN)
            return errno;
        size_t left = sent > 0 ? (size_t)sent : 0;
        while (count > 0 && left >= parts->iov_len) {
            left -= parts->iov_len;
            parts++;
            count--;
        }
        if (count > 0) {
            parts->iov_base = (char *)parts->iov_base + left;
            parts->iov_len -= left;
        }
    }
    return 0;
}

/* Takes up to a batch off the queue, which is not empty. Held: lock. */
static struct chunk *take_batch(struct kolo_output *output, struct iovec parts[BATCH], int *count)
{
    struct chunk *first = output->queue, *last, *next = first;
    do {
        last = next;
        parts[(*count)++] = (struct iovec){.iov_base = last->data, .iov_len = last->bytes};
        next = last->next;
    } while (next && *count < BATCH);
    output->queue = last->next;
    if (!output->queue)
        output->queue_end = &output->queue;
    last->next = NULL;
    return first;
}

static void give_back(struct kolo_output *output, struct chunk *batch)
{
    while (batch) {
        struct chunk *next = batch->next;
        batch->next = output->done;
        output->done = batch;
        batch = next;
    }
}

static void writer(void *context)
{
    struct kolo_output *output = context;
    uv_mutex_lock(&output->lock);
    for (;;) {
        while (!output->queue && !output->is_stopping)
            uv_cond_wait(&output->more, &output->lock);
        if (output->is_stopping)
            break;
        struct iovec parts[BATCH];
        int count = 0;
        struct chunk *batch = take_batch(output, parts, &count);
        int error = output->error;
        output->is_writing = true;
        uv_mutex_unlock(&output->lock);
        if (error == 0)
            error = write_all(output->fd, parts, count);
        uv_mutex_lock(&output->lock);
        output->is_writing = false;
        output->error = error;
        give_back(output, batch);
        (void)uv_async_send(&output->wake);
    }
    output->has_left = true;
    uv_mutex_unlock(&output->lock);
}

static void tell(uv_async_t *async)
{
    struct kolo_output *output = async->data;
    uv_mutex_lock(&output->lock);
    struct chunk *done = output->done;
    output->done = NULL;
    int error = output->told_broken ? 0 : output->error;
    output->told_broken = output->error != 0;
    uv_mutex_unlock(&output->lock);
    while (done) {
        struct chunk *next = done->next;
        if (done->owner != NOBODY)
            output->events.written(output->events.context, done->owner, done->owed);
        kolo_free_memory(done);
        done = next;
    }
    output->events.batch(output->events.context);
    if (error != 0)
        output->events.broken(output->events.context, error);
    if (kolo_output_is_drained(output))
        output->events.drained(output->events.context);
}

kolo_status kolo_output_create(uv_loop_t *loop, int fd, const struct kolo_output_events *events,
                               struct kolo_output **output_out)
{
    struct kolo_output *output = kolo_calloc(1, sizeof *output);
    if (!output)
        return KOLO_ERR_NO_MEMORY;
    output->fd = fd;
    output->events = *events;
    output->queue_end = &output->queue;
    int error = uv_mutex_init(&output->lock);
    if (error != 0)
        goto no_lock;
    error = uv_cond_init(&output->more);
    if (error != 0)
        goto no_cond;
    error = uv_async_init(loop, &output->wake, tell);
    if (error != 0)
        goto no_async;
    output->wake.data = output;
    error = uv_thread_create(&output->thread, writer, output);
    if (error == 0) {
        *output_out = output;
        return KOLO_OK;
    }
    uv_close((uv_handle_t *)&output->wake, NULL);
    (void)uv_run(loop, UV_RUN_NOWAIT);
no_async:
    uv_cond_destroy(&output->more);
no_cond:
    uv_mutex_destroy(&output->lock);
no_lock:
    kolo_free_memory(output);
    return kolo_fail_start(-error, "cannot start a thread for output"); /* libuv's are negated */
}

static void put(struct kolo_output *output, struct chunk *chunk)
{
    uv_mutex_lock(&output->lock);
    *output->queue_end = chunk;
    output->queue_end = &chunk->next;
    uv_cond_signal(&output->more);
    uv_mutex_unlock(&output->lock);
}

static size_t count_lines(const uint8_t *data, size_t bytes)
{
    size_t lines = 0;
    for (const uint8_t *at = data, *past = data + bytes; at < past; lines++) {
        const uint8_t *newline = memchr(at, '\n', (size_t)(past - at));
        at = newline ? newline + 1 : past;
    }
    return lines;
}

static size_t prefix_lines(uint8_t *out, const char *prefix, const uint8_t *data, size_t bytes)
{
    size_t prefix_bytes = strlen(prefix);
    uint8_t *to = out;
    for (const uint8_t *at = data, *past = data + bytes; at < past;) {
        const uint8_t *newline = memchr(at, '\n', (size_t)(past - at));
        size_t len = (size_t)((newline ? newline : past) - at);
        memcpy(to, prefix, prefix_bytes);
        memcpy(to + prefix_bytes, at, len);
        to += prefix_bytes + len;
        *to++ = '\n';
        at += len + (newline ? 1 : 0);
    }
    return (size_t)(to - out);
}

void kolo_output_lines(struct kolo_output *output, int owner, int rank, const void *data,
                       size_t bytes)
{
    char prefix[PREFIX_MAX] = "";
    if (rank >= 0)
        snprintf(prefix, sizeof prefix, "[%d] ", rank);
    const size_t room = bytes + count_lines(data, bytes) * strlen(prefix) + 1;
    struct chunk *chunk = kolo_calloc(1, sizeof *chunk + room);
    if (!chunk) { /* lost, but the credit must be returned */
        output->events.written(output->events.context, owner, bytes);
        return;
    }
    chunk->owner = owner;
    chunk->owed = bytes;
    if (rank >= 0) {
        chunk->bytes = prefix_lines(chunk->data, prefix, data, bytes);
    } else { /* a line without an end (yet) does not get one: a rank's output may be binary */
        memcpy(chunk->data, data, bytes);
        chunk->bytes = bytes;
    }
    put(output, chunk);
}

void kolo_output_print(struct kolo_output *output, const char *format, ...)
{
    char line[2 * KOLO_DETAIL_MAX];
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (len < 0)
        return;
    size_t bytes = (size_t)len < sizeof line - 1 ? (size_t)len : sizeof line - 2;
    line[bytes++] = '\n';
    struct chunk *chunk = kolo_calloc(1, sizeof *chunk + bytes);
    if (!chunk)
        return;
    chunk->owner = NOBODY;
    chunk->bytes = bytes;
    memcpy(chunk->data, line, bytes);
    put(output, chunk);
}

bool kolo_output_is_drained(struct kolo_output *output)
{
    uv_mutex_lock(&output->lock);
    /* not before the loop has heard how it went (tell): the job must not end as if all were well */
    bool is_drained = !output->queue && !output->is_writing && !output->done;
    uv_mutex_unlock(&output->lock);
    return is_drained;
}

void kolo_output_close(struct kolo_output *output)
{
    if (!output)
        return;
    uv_mutex_lock(&output->lock);
    output->is_stopping = true;
    bool is_stuck = output->is_writing;
    uv_cond_signal(&output->more);
    uv_mutex_unlock(&output->lock);
    if (is_stuck)
        return; /* in a write that nobody reads: it ends with the process */
    (void)uv_thread_join(&output->thread);
    uv_close((uv_handle_t *)&output->wake, NULL);
}

static void free_chunks(struct chunk *chunk)
{
    while (chunk) {
        struct chunk *next = chunk->next;
        kolo_free_memory(chunk);
        chunk = next;
    }
}

void kolo_output_destroy(struct kolo_output *output)
{
    if (!output || !output->has_left)
        return;
    free_chunks(output->queue);
    free_chunks(output->done);
    uv_cond_destroy(&output->more);
    uv_mutex_destroy(&output->lock);
    kolo_free_memory(output);
}
