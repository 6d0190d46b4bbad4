// SPDX-License-Identifier: Apache-2.0
// A process beside kolorun for what may not return: a file system may not answer, and who waits for
// it cannot always be killed. That must not be kolorun.
#ifndef KOLO_LAUNCHER_BESIDE_H
#define KOLO_LAUNCHER_BESIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

struct kolo_beside {
    int socket;
    pid_t pid; /* 0: none, or it was reaped */
    struct kolo_beside *next;
};

/** What the process says. */
struct kolo_beside_answer {
    int error; /* a kolo_status with its detail, or what both sides agree on */
    uint64_t written;
    char detail[KOLO_DETAIL_MAX];
};

enum kolo_beside_how { KOLO_BESIDE_ANSWERED, KOLO_BESIDE_LATE, KOLO_BESIDE_GONE };

/** Starts the process, which calls @p serve with its end of the sockets, and ends when that
 * returns. To be called while this process has one thread. @p what is named in the failure, which
 * is ERR_UNSUPPORTED. */
kolo_status kolo_beside_start(struct kolo_beside *beside, const char *what,
                              void (*serve)(int fd, void *context), void *context) KOLO_NODISCARD;
/** Waits for an answer, which may take @p limit_ms. */
enum kolo_beside_how kolo_beside_await(const struct kolo_beside *beside, int64_t limit_ms,
                                       struct kolo_beside_answer *answer_out);
/** Nothing waits for the process any more: what is sent or received fails from now on. */
void kolo_beside_abandon(struct kolo_beside *beside);
/** Closes the socket, and waits for the end of the process if that @p ends_now. */
void kolo_beside_end(struct kolo_beside *beside, bool ends_now);
/** A child of this process has ended. Returns true if it was such a process. */
bool kolo_beside_reaped(pid_t pid);

/** Both sides: receives all @p bytes. Returns false if the other side is gone. */
bool kolo_beside_receive(int fd, void *data, size_t bytes);
/** In the process: says how something went. */
void kolo_beside_answer(int fd, kolo_status status);
/** In the process: says that it has begun. Until then it is killed when kolorun ends; from now on
 * it must end by itself when the socket is closed. */
void kolo_beside_begin(int fd);
/** In the process: keeps of kolorun's descriptors only @p fd, and @p other (-1: none). */
void kolo_beside_keep_only(int fd, int other);
/** In the process: makes mere names (O_PATH) of kolorun's descriptors but @p fd, which a path may
 * mean (/dev/fd/63): a reader of kolorun's output must not wait for a process that hangs. */
void kolo_beside_shed(int fd);

#endif
