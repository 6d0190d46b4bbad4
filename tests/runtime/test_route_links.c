// SPDX-License-Identifier: Apache-2.0
// The route over links: what is for one rank at a time leaves in one system call. The linker
// diverts send() and sendmsg() to here (--wrap), where they are counted.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <stdatomic.h>
#include <stdint.h>
#include <sys/socket.h>

#include "tests/support/world.h"

ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);

static atomic_int sends;

ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
    const ssize_t put = __real_send(fd, data, bytes, flags);
    atomic_fetch_add(&sends, put > 0);
    return put;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    const ssize_t put = __real_sendmsg(fd, message, flags);
    atomic_fetch_add(&sends, put > 0);
    return put;
}

enum { CALLS = 400, RANKS = 2, LONGEST = 1024 };

enum kind { GATHER, SCATTER, REDUCE, KINDS };
static const char *const names[] = {"gather", "scatter", "reduce"};

/** Without pointers, as a parameter must be. */
struct rooted {
    enum kind kind;
    size_t count;
};

static kolo_status call(const struct rooted *what, struct kolo_comm *comm, const int32_t *in,
                        int32_t *out, int root)
{
    if (what->kind == GATHER)
        return kolo_gather(comm, in, out, what->count, KOLO_INT32, root, NULL, NULL);
    if (what->kind == SCATTER)
        return kolo_scatter(comm, in, out, what->count, KOLO_INT32, root, NULL, NULL);
    return kolo_reduce(comm, in, out, what->count, KOLO_INT32, KOLO_SUM, root, NULL, NULL);
}

/** Whether @p out is the result of call @p number, into which rank r put 1000 * number + r at both
 *  ends of each block. */
static bool is_right(const struct rooted *what, const int32_t *out, int number, int rank, int root)
{
    const int32_t first = 1000 * number, last = (int32_t)(what->count - 1);
    if (what->kind == SCATTER)
        return out[0] == first + root && out[last] == first + root;
    if (rank != root)
        return true;
    if (what->kind == REDUCE)
        return out[0] == 2 * first + 1 && out[last] == 2 * first + 1;
    return out[0] == first && out[last] == first && out[last + 1] == first + 1 &&
           out[2 * last + 1] == first + 1;
}

static kolo_status many(struct kolo_comm *comm, void *argument)
{
    const struct rooted *what = argument;
    const int rank = kolo_rank(comm);
    int32_t in[RANKS * LONGEST] = {0}, out[RANKS * LONGEST] = {0};
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    const int before = atomic_load(&sends);
    for (int i = 0; i < CALLS; i++) {
        const int root = i / (CALLS / RANKS);
        for (size_t at = 0; at < RANKS; at++)
            in[at * what->count] = in[(at + 1) * what->count - 1] = 1000 * i + rank;
        WORLD_TRY(call(what, comm, in, out, root));
        WORLD_EXPECT(is_right(what, out, i, rank, root), "call %d: wrong result", i);
    }
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    const int took = atomic_load(&sends) - before;
    /* One of each rank to the other; the barriers' and what returns credit are few. */
    WORLD_EXPECT(took < RANKS * CALLS + CALLS / 4, "%d calls took %d sends", CALLS, took);
    return KOLO_OK;
}

ParameterizedTestParameters(route_links, a_note_travels_with_the_data)
{
    static struct rooted params[2 * KINDS];
    for (size_t i = 0; i < 2 * KINDS; i++)
        params[i] = (struct rooted){(enum kind)(i % KINDS), i < KINDS ? 2 : LONGEST};
    return cr_make_param_array(struct rooted, params, 2 * KINDS);
}
/** A rooted call between two ranks sends data one way, and a note of the closing barrier each way:
 *  the data and the note to the same rank are one send. */
ParameterizedTest(struct rooted *what, route_links, a_note_travels_with_the_data, .timeout = 60)
{
    struct world world = {.size = RANKS, .transport = "tcp", .settings = {"KOLO_TIMEOUT=30"}};
    cr_log_info("%s of %zu", names[what->kind], what->count);
    WORLD_MUST_RUN(&world, many, what);
}
