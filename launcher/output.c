// SPDX-License-Identifier: Apache-2.0
// One queue, and a thread beside the loop that writes it and returns what was written. The queue is
// bounded by the credit that the agents hold, which is returned by `written`. It may be for several
// files; an error of one ends them all, because they are in one place, which is full or gone.
//
// Equal lines of several ranks are found before that, in fold.c, which holds them back for a while.
//
// Threads: the thread's lock guards queue, done, error and lost. Only the thread uses batch, parts,
// count and failed; only the loop uses told_broken, events, fold, spare and unstored.
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"
#include "launcher/fold.h"
#include "launcher/line_end.h"
#include "launcher/output.h"
#include "launcher/parts.h"
#include "launcher/side_thread.h"

enum { BATCH = 64, PREFIX_MAX = 16, NOBODY = -1, LINE_BYTES = 2 * KOLO_DETAIL_MAX };

struct chunk {
    struct chunk *next;
    int fd;
    int owner;
    bool is_spare;
    size_t owed;  /* bytes of credit that the owner gets back */
    size_t bytes; /* bytes to write */
    uint8_t data[];
};

struct kolo_output {
    struct kolo_side_thread side;
    int fd;
    struct kolo_output_events events;
    kolo_output_write *write;
    void *write_context;
    /* The loop's: */
    bool has_no_prefix, keeps_open;
    int open_rank;          /* whose line has no end; NOBODY: none has */
    int back_rank;          /* whose line, the last one, is ended by a carriage return; or NOBODY */
    struct kolo_fold *fold; /* NULL: lines that are the same are written as often as they come */
    uv_timer_t fold_timer;
    int64_t hold_until_ms;
    struct chunk *queue, **queue_end, *done;
    int error;     /* that a write failed with; 0: none */
    uint64_t lost; /* as kolo_output_lost */
    bool told_broken;
    struct chunk *spare; /* for a line of kolorun's own without memory; NULL: it is in use */
    uint64_t unstored;   /* as kolo_output_unstored */
    struct chunk *batch; /* what is being written, */
    struct iovec parts[BATCH];
    int fds[BATCH];
    int count, failed; /* and its error */
};

static int write_directly(void *context, int fd, struct iovec *parts, int count)
{
    (void)context;
    return kolo_parts_write(fd, parts, count);
}

static bool has_queue(void *owner)
{
    return ((struct kolo_output *)owner)->queue != NULL;
}

/* Takes up to a batch off the queue, which is not empty. */
static void take_batch(void *owner)
{
    struct kolo_output *output = owner;
    struct chunk *last, *next = output->queue;
    output->batch = next;
    output->failed = output->error;
    output->count = 0;
    do {
        last = next;
        output->fds[output->count] = last->fd;
        output->parts[output->count++] =
            (struct iovec){.iov_base = last->data, .iov_len = last->bytes};
        next = last->next;
    } while (next && output->count < BATCH);
    output->queue = last->next;
    if (!output->queue)
        output->queue_end = &output->queue;
    last->next = NULL;
}

static void write_batch(void *owner)
{
    struct kolo_output *output = owner;
    for (int begin = 0, end; begin < output->count && output->failed == 0; begin = end) {
        const int fd = output->fds[begin];
        for (end = begin + 1; end < output->count && output->fds[end] == fd;)
            end++;
        output->failed =
            output->write(output->write_context, fd, output->parts + begin, end - begin);
    }
}

/* How much of the batch was not written. In a chunk that was cut the prefixes of lines count, but
 * never more than its owner has put. A chunk without bytes is for lines that others stand for. */
static uint64_t count_lost(const struct kolo_output *output)
{
    const struct chunk *chunk = output->batch;
    uint64_t lost = 0;
    for (int i = 0; chunk; i++, chunk = chunk->next) {
        const bool is_folded_lost = chunk->bytes == 0 && output->failed != 0;
        const size_t left = is_folded_lost ? chunk->owed : output->parts[i].iov_len;
        lost += left < chunk->owed ? left : chunk->owed;
    }
    return lost;
}

static void give_back(void *owner)
{
    struct kolo_output *output = owner;
    output->error = output->failed;
    output->lost += count_lost(output);
    while (output->batch) {
        struct chunk *next = output->batch->next;
        output->batch->next = output->done;
        output->done = output->batch;
        output->batch = next;
    }
}

static void forget_chunk(struct kolo_output *output, struct chunk *chunk)
{
    if (chunk->is_spare)
        output->spare = chunk;
    else
        kolo_free_memory(chunk);
}

static void tell(void *owner)
{
    struct kolo_output *output = owner;
    kolo_side_lock(&output->side);
    struct chunk *done = output->done;
    output->done = NULL;
    int error = output->told_broken ? 0 : output->error;
    output->told_broken = output->error != 0;
    kolo_side_unlock(&output->side);
    while (done) {
        struct chunk *next = done->next;
        if (done->owner != NOBODY)
            output->events.written(output->events.context, done->owner, done->owed);
        forget_chunk(output, done);
        done = next;
    }
    output->events.batch(output->events.context);
    if (error != 0)
        output->events.broken(output->events.context, error);
    if (kolo_output_is_drained(output))
        output->events.drained(output->events.context);
}

static void free_chunks(struct chunk *chunk)
{
    while (chunk) {
        struct chunk *next = chunk->next;
        kolo_free_memory(chunk);
        chunk = next;
    }
}

static void free_output(void *owner)
{
    struct kolo_output *output = owner;
    free_chunks(output->queue);
    free_chunks(output->done);
    kolo_free_memory(output->spare);
    kolo_fold_destroy(output->fold);
    kolo_free_memory(output);
}

kolo_status kolo_output_create(uv_loop_t *loop, int fd, const struct kolo_output_events *events,
                               struct kolo_output **output_out)
{
    static const struct kolo_side_calls calls = {.can = has_queue,
                                                 .take = take_batch,
                                                 .work = write_batch,
                                                 .give = give_back,
                                                 .heard = tell,
                                                 .free = free_output};
    struct kolo_output *output = kolo_calloc(1, sizeof *output);
    struct chunk *spare = kolo_calloc(1, sizeof *spare + LINE_BYTES);
    if (!output || !spare) {
        kolo_free_memory(output);
        kolo_free_memory(spare);
        return KOLO_ERR_NO_MEMORY;
    }
    spare->is_spare = true;
    output->spare = spare;
    output->fd = fd;
    output->events = *events;
    output->write = write_directly;
    output->open_rank = output->back_rank = NOBODY;
    output->queue_end = &output->queue;
    kolo_status status = kolo_side_start(&output->side, loop, &calls, output, "output");
    if (status == KOLO_OK)
        *output_out = output;
    else
        free_output(output);
    return status;
}

void kolo_output_write_by(struct kolo_output *output, kolo_output_write *write, void *context)
{
    output->write = write;
    output->write_context = context;
}

void kolo_output_no_prefix(struct kolo_output *output)
{
    output->has_no_prefix = true;
}

void kolo_output_keep_open(struct kolo_output *output)
{
    output->keeps_open = true;
}

static void put(struct kolo_output *output, struct chunk *chunk)
{
    kolo_side_lock(&output->side);
    *output->queue_end = chunk;
    output->queue_end = &chunk->next;
    kolo_side_unlock(&output->side);
}

static size_t count_lines(const uint8_t *data, size_t bytes)
{
    size_t lines = 0;
    for (const uint8_t *at = data, *past = data + bytes; at < past; lines++)
        at = kolo_line_end(at, past);
    return lines;
}

/* @p is_begun: the prefix of the first line was written with its beginning. */
static size_t prefix_lines(uint8_t *out, const char *prefix, const uint8_t *data, size_t bytes,
                           bool is_begun)
{
    uint8_t *to = out;
    for (const uint8_t *at = data, *past = data + bytes, *end; at < past; at = end) {
        end = kolo_line_end(at, past);
        if (!is_begun)
            to = mempcpy(to, prefix, strlen(prefix));
        to = mempcpy(to, at, (size_t)(end - at));
        is_begun = false;
    }
    return (size_t)(to - out);
}

static void note_unstored(struct kolo_output *output, size_t bytes)
{
    kolo_side_lock(&output->side);
    output->lost += bytes;
    kolo_side_unlock(&output->side);
    output->unstored += bytes;
}

/* A chunk with room for @p room bytes that returns @p bytes bytes of credit. Without memory the
 * bytes are lost (unless others stand for them: no room), but the credit is returned. */
static struct chunk *make_chunk(struct kolo_output *output, int fd, int owner, size_t bytes,
                                size_t room)
{
    struct chunk *chunk = kolo_calloc(1, sizeof *chunk + room);
    if (!chunk) {
        if (room > 0)
            note_unstored(output, bytes);
        output->events.written(output->events.context, owner, bytes);
        return NULL;
    }
    chunk->fd = fd;
    chunk->owner = owner;
    chunk->owed = bytes;
    return chunk;
}

void kolo_output_bytes(struct kolo_output *output, int fd, int owner, const void *data,
                       size_t bytes)
{
    struct chunk *chunk = make_chunk(output, fd, owner, bytes, bytes);
    if (!chunk)
        return;
    memcpy(chunk->data, data, bytes);
    chunk->bytes = bytes;
    put(output, chunk);
}

static struct chunk *take_spare(struct kolo_output *output)
{
    struct chunk *chunk = output->spare;
    output->spare = NULL;
    if (chunk)
        chunk->next = NULL;
    return chunk;
}

/* Of kolorun's own, for which nobody gets credit back. Without memory one such line at a time is
 * written, and false returned for others. The end of a line leaves the spare chunk to the next. */
static bool put_own(struct kolo_output *output, const char *text, size_t bytes)
{
    struct chunk *chunk = kolo_calloc(1, sizeof *chunk + bytes);
    if (!chunk && bytes > 1 && bytes <= LINE_BYTES)
        chunk = take_spare(output);
    if (!chunk)
        return false;
    chunk->fd = output->fd;
    chunk->owner = NOBODY;
    chunk->bytes = bytes;
    memcpy(chunk->data, text, bytes);
    put(output, chunk);
    return true;
}

static void forget_line(struct kolo_output *output)
{
    output->open_rank = output->back_rank = NOBODY;
}

static void end_line(struct kolo_output *output)
{
    if (output->open_rank != NOBODY || output->back_rank != NOBODY)
        (void)put_own(output, "\n", 1);
    forget_line(output);
}

/* Whether the last line, which has no end, goes on. If not, it is ended; and so is one that the
 * next line, which is not a bar as well, would cover. */
static bool goes_on(struct kolo_output *output, int rank, bool is_bar)
{
    const bool is_begun = output->open_rank == rank;
    if (is_begun || (output->open_rank == NOBODY && (output->back_rank == rank || is_bar)))
        forget_line(output);
    else
        end_line(output);
    return is_begun;
}

/* Remembers how the lines of @p rank in @p chunk end. */
static void end_chunk(struct kolo_output *output, int rank, struct chunk *chunk)
{
    const uint8_t last = chunk->data[chunk->bytes - 1];
    if (last == '\r')
        output->back_rank = rank;
    else if (last != '\n' && output->keeps_open)
        output->open_rank = rank;
    else if (last != '\n')
        chunk->data[chunk->bytes++] = '\n';
}

static void put_lines(struct kolo_output *output, int owner, int rank, const void *data,
                      size_t bytes)
{
    char prefix[PREFIX_MAX] = "";
    if (output->has_no_prefix && !output->keeps_open) { /* it may be binary */
        kolo_output_bytes(output, output->fd, owner, data, bytes);
        return;
    }
    if (bytes == 0)
        return;
    if (!output->has_no_prefix)
        snprintf(prefix, sizeof prefix, "[%d] ", rank);
    const size_t room = bytes + count_lines(data, bytes) * strlen(prefix) + 1;
    struct chunk *chunk = make_chunk(output, output->fd, owner, bytes, room);
    if (!chunk)
        return;
    const bool is_bar = ((const uint8_t *)data)[bytes - 1] == '\r' && !memchr(data, '\n', bytes);
    const bool is_begun = goes_on(output, rank, is_bar);
    chunk->bytes = prefix_lines(chunk->data, prefix, data, bytes, is_begun);
    end_chunk(output, rank, chunk);
    put(output, chunk);
}

void kolo_output_lines(struct kolo_output *output, int owner, int rank, const void *data,
                       size_t bytes)
{
    if (output->fold)
        kolo_fold_beside(output->fold, rank, data, bytes);
    put_lines(output, owner, rank, data, bytes);
}

static void show(void *context, int owner, int rank, const void *data, size_t bytes)
{
    put_lines(context, owner, rank, data, bytes);
}

static void say_same(void *context, const char *line, size_t bytes)
{
    struct kolo_output *output = context;
    end_line(output);
    if (!put_own(output, line, bytes))
        note_unstored(output, bytes);
}

/* The credit is returned after the line that stands for these bytes is written. */
static void put_folded(void *context, int owner, size_t bytes)
{
    struct kolo_output *output = context;
    struct chunk *chunk = make_chunk(output, output->fd, owner, bytes, 0);
    if (chunk)
        put(output, chunk);
}

kolo_status kolo_output_fold(struct kolo_output *output, uv_loop_t *loop, int ranks, int owners,
                             size_t held_max)
{
    const struct kolo_fold_events events = {output, show, say_same, put_folded};
    kolo_status status = kolo_fold_create(ranks, owners, held_max, &events, &output->fold);
    if (status != KOLO_OK)
        return status;
    (void)uv_timer_init(loop, &output->fold_timer);
    output->fold_timer.data = output;
    return KOLO_OK;
}

static void on_fold_timer(uv_timer_t *timer)
{
    kolo_output_settle(timer->data);
}

/* Settles what is held when there was nothing more for a while, and in @p left_ms at the latest. */
static void await_more(struct kolo_output *output, int64_t left_ms)
{
    const int64_t ms = left_ms < KOLO_FOLD_QUIET_MS ? left_ms : KOLO_FOLD_QUIET_MS;
    (void)uv_timer_start(&output->fold_timer, on_fold_timer, ms > 0 ? (uint64_t)ms : 0, 0);
}

void kolo_output_foldable(struct kolo_output *output, int owner, int rank, const void *data,
                          size_t bytes)
{
    if (!output->fold) {
        put_lines(output, owner, rank, data, bytes);
        return;
    }
    const int64_t now_ms = (int64_t)uv_now(output->fold_timer.loop);
    const size_t before = kolo_fold_held(output->fold);
    kolo_fold_add(output->fold, owner, rank, data, bytes, now_ms);
    const size_t held = kolo_fold_held(output->fold);
    if (before == 0 || held < before)
        output->hold_until_ms = now_ms + KOLO_FOLD_HOLD_MS;
    if (held != before)
        await_more(output, output->hold_until_ms - now_ms);
}

void kolo_output_settle(struct kolo_output *output)
{
    if (!output->fold)
        return;
    (void)uv_timer_stop(&output->fold_timer);
    kolo_fold_settle(output->fold);
}

void kolo_output_interrupt(struct kolo_output *output)
{
    if (output->fold)
        kolo_fold_interrupt(output->fold);
}

void kolo_output_end_line(struct kolo_output *output)
{
    kolo_output_settle(output);
    end_line(output);
}

void kolo_output_line_ended(struct kolo_output *output)
{
    kolo_output_interrupt(output);
    forget_line(output);
}

void kolo_output_print(struct kolo_output *output, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (len < 0)
        return;
    size_t bytes = (size_t)len < sizeof line - 1 ? (size_t)len : sizeof line - 2;
    kolo_text_clean_bytes(line, bytes); /* parts of it may be what a host said */
    line[bytes++] = '\n';
    kolo_output_end_line(output);
    (void)put_own(output, line, bytes);
    kolo_output_interrupt(output);
}

bool kolo_output_is_drained(struct kolo_output *output)
{
    if (output->fold && kolo_fold_held(output->fold) > 0)
        return false;
    kolo_side_lock(&output->side);
    /* not before the loop has heard how it went (tell): the job must not end as if all were well */
    bool is_drained = !output->queue && !output->done && !kolo_side_is_working(&output->side);
    kolo_side_unlock(&output->side);
    return is_drained;
}

uint64_t kolo_output_lost(struct kolo_output *output)
{
    kolo_side_lock(&output->side);
    const uint64_t lost = output->lost;
    kolo_side_unlock(&output->side);
    return lost;
}

uint64_t kolo_output_unstored(const struct kolo_output *output)
{
    return output->unstored;
}

void kolo_output_close(struct kolo_output *output)
{
    if (!output)
        return;
    if (output->fold)
        uv_close((uv_handle_t *)&output->fold_timer, NULL);
    kolo_side_close(&output->side);
}

void kolo_output_destroy(struct kolo_output *output)
{
    if (output)
        kolo_side_drop(&output->side);
}
