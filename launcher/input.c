// SPDX-License-Identifier: Apache-2.0
// Reads standard input in a thread: one cannot wait for a terminal or a file without changing the
// mode of a descriptor that others share. In a background job the read fails (SIGTTIN is ignored),
// which is treated as the end.
//
// Threads: `lock` guards window, ready and is_closed.
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "launcher/input.h"

enum { WINDOW_BYTES = 256 << 10, READ_BYTES = 64 << 10 };

struct kolo_input {
    uv_async_t wake;
    uv_thread_t thread;
    uv_mutex_t lock;
    uv_cond_t more;
    int fd;
    void (*read)(void *context, const void *data, size_t bytes);
    void *context;
    size_t window; /* bytes that may still be read */
    ssize_t ready; /* bytes in data that the loop has not fetched; -1: none */
    bool is_closed, is_reading, has_left;
    uint8_t data[READ_BYTES];
};

static ssize_t read_some(int fd, uint8_t *data, size_t bytes)
{
    ssize_t got;
    do
        got = read(fd, data, bytes);
    while (got < 0 && errno == EINTR);
    return got < 0 ? 0 : got;
}

static void reader(void *context)
{
    struct kolo_input *input = context;
    ssize_t got = 1;
    uv_mutex_lock(&input->lock);
    while (got > 0) {
        while (!input->is_closed && (input->window == 0 || input->ready >= 0))
            uv_cond_wait(&input->more, &input->lock);
        if (input->is_closed)
            break;
        size_t room = input->window < READ_BYTES ? input->window : READ_BYTES;
        input->is_reading = true;
        uv_mutex_unlock(&input->lock);
        got = read_some(input->fd, input->data, room);
        uv_mutex_lock(&input->lock);
        input->is_reading = false;
        input->window -= (size_t)got;
        input->ready = got;
        if (!input->is_closed)
            (void)uv_async_send(&input->wake);
    }
    input->has_left = true;
    uv_mutex_unlock(&input->lock);
}

static void fetch(uv_async_t *async)
{
    struct kolo_input *input = async->data;
    uv_mutex_lock(&input->lock);
    ssize_t ready = input->ready;
    uv_mutex_unlock(&input->lock);
    if (ready < 0 || input->is_closed)
        return;
    input->read(input->context, input->data, (size_t)ready); /* the thread waits for this */
    uv_mutex_lock(&input->lock);
    input->ready = -1;
    uv_cond_signal(&input->more);
    uv_mutex_unlock(&input->lock);
}

kolo_status kolo_input_create(uv_loop_t *loop, int fd,
                              void (*read_fn)(void *context, const void *data, size_t bytes),
                              void *context, struct kolo_input **input_out)
{
    struct kolo_input *input = kolo_calloc(1, sizeof *input);
    if (!input)
        return KOLO_ERR_NO_MEMORY;
    input->fd = fd;
    input->read = read_fn;
    input->context = context;
    input->window = WINDOW_BYTES;
    input->ready = -1;
    int error = uv_mutex_init(&input->lock);
    if (error == 0)
        error = uv_cond_init(&input->more);
    if (error == 0)
        error = uv_async_init(loop, &input->wake, fetch);
    if (error == 0) {
        input->wake.data = input;
        uv_unref((uv_handle_t *)&input->wake);
        error = uv_thread_create(&input->thread, reader, input);
    }
    if (error != 0)
        return kolo_fail_start(-error, "cannot start a thread for standard input");
    *input_out = input;
    return KOLO_OK;
}

void kolo_input_taken(struct kolo_input *input, size_t bytes)
{
    uv_mutex_lock(&input->lock);
    input->window += bytes;
    if (input->window > WINDOW_BYTES)
        input->window = WINDOW_BYTES;
    uv_cond_signal(&input->more);
    uv_mutex_unlock(&input->lock);
}

void kolo_input_close(struct kolo_input *input)
{
    if (!input)
        return;
    uv_mutex_lock(&input->lock);
    input->is_closed = true;
    bool is_stuck = input->is_reading;
    uv_cond_signal(&input->more);
    uv_mutex_unlock(&input->lock);
    if (!is_stuck)
        (void)uv_thread_join(&input->thread);
    uv_close((uv_handle_t *)&input->wake, NULL);
}

void kolo_input_destroy(struct kolo_input *input)
{
    if (!input)
        return;
    uv_mutex_lock(&input->lock);
    bool has_left = input->has_left;
    uv_mutex_unlock(&input->lock);
    if (!has_left)
        return;
    uv_cond_destroy(&input->more);
    uv_mutex_destroy(&input->lock);
    kolo_free_memory(input);
}
