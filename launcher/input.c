// SPDX-License-Identifier: Apache-2.0
// Reads standard input in a thread: one cannot wait for a terminal or a file without changing the
// mode of a descriptor that others share. While kolorun is in the background of a terminal, what is
// typed there is for others, and the read fails (SIGTTIN is ignored). The thread then waits until
// kolorun is in the foreground: stopping the job, as a shell's other jobs are stopped, would stop
// all of those that never read. No signal says that it has come to the foreground without having
// been stopped, so the thread looks.
//
// Threads: the thread's lock guards window and ready. data and error are the thread's while it
// works, and the loop's while ready is not negative.
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "launcher/input.h"
#include "launcher/side_thread.h"

enum { WINDOW_BYTES = 256 << 10, READ_BYTES = 64 << 10 };

struct kolo_input {
    struct kolo_side_thread side;
    int fd;
    void (*read)(void *context, const void *data, size_t bytes);
    void *context;
    size_t window; /* bytes that may still be read */
    ssize_t ready; /* bytes in data that the loop has not fetched; -1: none */
    bool at_end;
    size_t room; /* of the read in progress */
    ssize_t got; /* what it returned */
    int error;   /* the errno of a failure that is to be told */
    uint8_t data[READ_BYTES];
};

static bool may_read(void *owner)
{
    const struct kolo_input *input = owner;
    return input->window > 0 && input->ready < 0 && !input->at_end;
}

static void take_room(void *owner)
{
    struct kolo_input *input = owner;
    input->room = input->window < READ_BYTES ? input->window : READ_BYTES;
}

static bool is_in_background(int fd)
{
    const pid_t foreground = tcgetpgrp(fd);
    return foreground > 0 && foreground != getpgrp();
}

/* Whether a read that has failed is worth another. It may have failed in the background although
 * kolorun is in the foreground by now, which is @p doubted only once. */
static bool may_try_again(int fd, int error, bool *doubted)
{
    enum { LOOK_MS = 200 };
    if (error == EAGAIN) { /* somebody who shares the descriptor has changed its mode */
        (void)poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1);
        return true;
    }
    if (error != EIO || (*doubted && !is_in_background(fd)))
        return error == EINTR;
    *doubted = !is_in_background(fd);
    while (is_in_background(fd))
        (void)poll(NULL, 0, LOOK_MS);
    return true;
}

static bool is_absent(int fd, int error)
{
    return error == EBADF || (error == EIO && isatty(fd));
}

static void read_some(void *owner)
{
    struct kolo_input *input = owner;
    bool doubted = false;
    int error; /* looks at a terminal change errno where there is none */
    do {
        input->got = read(input->fd, input->data, input->room);
        error = errno;
    } while (input->got < 0 && may_try_again(input->fd, error, &doubted));
    if (input->got >= 0)
        return;
    input->got = 0;
    input->error = is_absent(input->fd, error) ? 0 : error;
}

static void give_bytes(void *owner)
{
    struct kolo_input *input = owner;
    input->window -= (size_t)input->got;
    input->ready = input->got;
    input->at_end = input->got == 0;
}

static void fetch(void *owner)
{
    struct kolo_input *input = owner;
    kolo_side_lock(&input->side);
    ssize_t ready = input->ready;
    kolo_side_unlock(&input->side);
    if (ready < 0)
        return;
    input->read(input->context, input->data, (size_t)ready); /* the thread waits for this */
    kolo_side_lock(&input->side);
    input->ready = -1;
    kolo_side_unlock(&input->side);
}

kolo_status kolo_input_create(uv_loop_t *loop, int fd,
                              void (*read_fn)(void *context, const void *data, size_t bytes),
                              void *context, struct kolo_input **input_out)
{
    static const struct kolo_side_calls calls = {.can = may_read,
                                                 .take = take_room,
                                                 .work = read_some,
                                                 .give = give_bytes,
                                                 .heard = fetch,
                                                 .free = kolo_free_memory};
    struct kolo_input *input = kolo_calloc(1, sizeof *input);
    if (!input)
        return KOLO_ERR_NO_MEMORY;
    input->fd = fd;
    input->read = read_fn;
    input->context = context;
    input->window = WINDOW_BYTES;
    input->ready = -1;
    kolo_status status = kolo_side_start(&input->side, loop, &calls, input, "standard input");
    if (status != KOLO_OK) {
        kolo_free_memory(input);
        return status;
    }
    uv_unref((uv_handle_t *)&input->side.wake); /* a job does not wait for the end of its input */
    *input_out = input;
    return KOLO_OK;
}

int kolo_input_error(const struct kolo_input *input)
{
    return input->error;
}

void kolo_input_taken(struct kolo_input *input, size_t bytes)
{
    kolo_side_lock(&input->side);
    input->window += bytes;
    if (input->window > WINDOW_BYTES)
        input->window = WINDOW_BYTES;
    kolo_side_unlock(&input->side);
}

void kolo_input_close(struct kolo_input *input)
{
    if (input)
        kolo_side_close(&input->side);
}

void kolo_input_destroy(struct kolo_input *input)
{
    if (input)
        kolo_side_drop(&input->side);
}
